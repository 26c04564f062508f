"""The tables of a lowered network, made once for a block shape; every plan for a Config starts from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.jit.kernels.base import Node
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.tables import Table, compiled


@dataclass(frozen=True)
class NetworkTables:
    """``layers``, ``edges``, ``tensors`` and ``makers`` as :mod:`tilewright.jit.plan.tables` names their columns.

    ``lags[e, d]``: rows held for edge e of a join if d layers before it stream with it; the last column: all do.
    ``names`` are the layers', ``owners`` the operators they belong to, ``tensor_names`` the tensors'.
    """

    layers: Table
    edges: Table
    tensors: Table
    makers: Table
    lags: Table
    names: tuple[str, ...]
    owners: tuple[int, ...]
    tensor_names: tuple[str, ...]


def network_tables(
    nodes: Sequence[Node], inputs: Sequence[Sequence[str]], tensors: Mapping[str, tuple[int, int, int]],
    outputs: Sequence[str],
) -> NetworkTables:  # fmt: skip
    """The tables of nodes in topological order, which read the tensors ``inputs``.

    ``tensors``: (height, width, units per pixel) of each; ``outputs``: tensors that are stored.
    """
    number = {name: k for k, name in enumerate(tensors)}
    layers: list[tuple[int, ...]] = []
    edges: list[tuple[int, ...]] = []
    for index, (node, read) in enumerate(zip(nodes, inputs, strict=True)):
        layers.append((*node.extents(), number[node.output], len(edges), len(read)))
        edges += [(index, number[x], *node.reads(k), *node.padding(k)) for k, x in enumerate(read)]
    makers: list[int] = []
    rows: list[tuple[int, ...]] = []
    for name in number:
        made = [k for k, node in enumerate(nodes) if node.output == name]
        rows.append((*tensors[name], name in outputs, len(makers), len(made)))
        makers += made
    layer_table, edge_table = _table(layers, 20), _table(edges, 9)
    return NetworkTables(
        layer_table, edge_table, _table(rows, 6), np.array(makers, np.int64), _lags(layer_table, edge_table, len(rows)),
        tuple(n.name for n in nodes), tuple(n.layer for n in nodes), tuple(number),
    )  # fmt: skip


def _table(rows: list[Any], columns: int) -> Table:
    return np.array(rows, np.int64).reshape(-1, columns)


@compiled
def _lags(layers: Any, edges: Any, tensors: int) -> Any:
    lags = np.ones((len(edges), t.LONGEST + 2), np.int64)
    for e in range(len(edges)):
        layer = edges[e, t.E_LAYER]
        if layers[layer, t.L_EDGES] < 2:
            continue
        for d in range(t.LONGEST + 1):
            lags[e, d] = lag_rows(e, max(0, layer - d), layers, edges, tensors)
        lags[e, t.LONGEST + 1] = lag_rows(e, 0, layers, edges, tensors)
    return lags


@compiled
def lag_rows(edge: int, first: int, layers: Any, edges: Any, tensors: int) -> int:
    """Rows between what a middle row of a join reads by an edge and what its other inputs depend on.

    Only what the layers from ``first`` on make counts: the rest is there as a whole.
    """
    join = edges[edge, t.E_LAYER]
    highest = np.full(tensors, -1, np.int64)
    for layer in range(join, first - 1, -1):
        row = layers[layer, t.L_HEIGHT] // 2
        if layer < join:
            row = min(highest[layers[layer, t.L_OUTPUT]], layers[layer, t.L_HEIGHT] - 1)
            if row < 0:  # no more than the padding above it is read
                continue
        for e in range(layers[layer, t.L_EDGE], layers[layer, t.L_EDGE] + layers[layer, t.L_EDGES]):
            last = row * edges[e, t.E_STRIDE] + edges[e, t.E_OFFSET] + edges[e, t.E_SPAN] - 1
            highest[edges[e, t.E_TENSOR]] = max(highest[edges[e, t.E_TENSOR]], last)
    low = layers[join, t.L_HEIGHT] // 2 * edges[edge, t.E_STRIDE] + edges[edge, t.E_OFFSET]
    return highest[edges[edge, t.E_TENSOR]] - low + 2
