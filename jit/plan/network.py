"""The tables of a lowered network, made once for a block shape; every plan for a Config starts from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.jit.plan.tables import Table


@dataclass(frozen=True)
class NetworkTables:
    """``layers``, ``edges``, ``tensors`` and ``makers`` as :mod:`tilewright.jit.plan.tables` names their columns.

    ``names`` are the layers', ``owners`` the operators they belong to, ``tensor_names`` the tensors'.
    """

    layers: Table
    edges: Table
    tensors: Table
    makers: Table
    names: tuple[str, ...]
    owners: tuple[int, ...]
    tensor_names: tuple[str, ...]


class Layer(Protocol):
    """What tables say of a node (:class:`~tilewright.jit.kernels.base.Node`)."""

    name: str
    layer: int
    output: str

    @property
    def vectors(self) -> int: ...

    def extents(self) -> tuple[int, ...]: ...

    def reads(self, index: int) -> tuple[int, int, int]: ...

    def padding(self, index: int) -> tuple[int, int, int, int]: ...

    def every(self, index: int) -> int: ...


def network_tables(
    nodes: Sequence[Layer], inputs: Sequence[Sequence[str]], tensors: Mapping[str, tuple[int, int, int]],
    outputs: Sequence[str],
) -> NetworkTables:  # fmt: skip
    """The tables of nodes in topological order, which read the tensors ``inputs``.

    ``tensors``: (height, width, units per pixel) of each; ``outputs``: tensors that are stored.
    """
    number = {name: k for k, name in enumerate(tensors)}
    layers: list[tuple[int, ...]] = []
    edges: list[tuple[int, ...]] = []
    for index, (node, read) in enumerate(zip(nodes, inputs, strict=True)):
        layers.append((*node.extents(), node.vectors, number[node.output], len(edges), len(read)))
        edges += [(index, number[x], *node.reads(k), *node.padding(k), node.every(k)) for k, x in enumerate(read)]
    makers: list[int] = []
    rows: list[tuple[int, ...]] = []
    made: dict[str, list[int]] = {name: [] for name in number}
    for k, node in enumerate(nodes):
        made[node.output].append(k)
    for name, by in made.items():
        rows.append((*tensors[name], name in outputs, len(makers), len(by)))
        makers += by
    return NetworkTables(
        _table(layers, 23), _table(edges, 10), _table(rows, 6), np.array(makers, np.int64),
        tuple(n.name for n in nodes), tuple(n.layer for n in nodes), tuple(number),
    )  # fmt: skip


def _table(rows: list[Any], columns: int) -> Table:
    return np.array(rows, np.int64).reshape(-1, columns)
