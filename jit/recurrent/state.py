"""The states of recurrent layers as tensors, which outlive a program: int8, numbers of int16 in two bytes.

All of a reset one is its zero point. What a program finds under a name before a launch it replaces by what it ends in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Graph
from tilewright.jit.recurrent.ops import Lstm, Svdf
from tilewright.runtime.steps import TensorSpec


def with_states(graph: Graph) -> tuple[Graph, tuple[TensorSpec, ...]]:
    """The graph of a single layer with its states as inputs, and as outputs under the same names; and their tensors."""
    op: Any = graph.ops[0]
    pixels = math.prod(graph.tensors[op.inputs[0]].shape[:-1])
    kept = _STATES[type(op)](op, pixels, graph.tensors[op.output].scale)
    states = tuple(replace(spec, name=_free(f"{op.output} {spec.name}", graph)) for spec in kept)
    names = [state.name for state in states]
    stated = Graph(
        graph.name, [*graph.inputs, *names], [*graph.outputs, *names],
        {**graph.tensors, **{state.name: state for state in states}}, [replace(op, inputs=[*op.inputs, *names])],
    )  # fmt: skip
    return stated, states


def _free(name: str, graph: Graph) -> str:
    """A name that is no tensor's of the graph."""
    while name in graph.tensors:
        name += "'"
    return name


def _lstm(op: Lstm, pixels: int, scale: float) -> list[TensorSpec]:
    """Hidden states and cells of each sequence (1, 1, sequences, units)."""
    shape = (1, 1, pixels // op.steps, op.units)
    hidden = TensorSpec("hidden", shape, "int8", scale, op.state_zero_point)
    return [hidden, *_bytes("cell ", shape, 2.0**-op.cell_bits)]


def _svdf(op: Svdf, pixels: int, scale: float) -> list[TensorSpec]:
    """The numbers of each pixel that are read again, the oldest first, rank by rank: (1, 1, N, units), where N is
    pixels x (memory - 1) x rank."""
    if op.memory == 1:
        return []
    shape = (1, 1, pixels * (op.memory - 1) * op.rank, len(op.bias))
    if op.state_bits == 8:
        return [TensorSpec("state", shape, "int8", op.state_scale, op.state_zero_point)]
    return _bytes("state ", shape, op.state_scale)


def _bytes(what: str, shape: tuple[int, ...], scale: float) -> list[TensorSpec]:
    """High and low bytes of int16."""
    return [
        TensorSpec(f"{what}high", shape, "int8", 256 * scale, 0),
        TensorSpec(f"{what}low", shape, "int8", scale, -128),
    ]


_STATES: dict[type, Callable[[Any, int, float], list[TensorSpec]]] = {Lstm: _lstm, Svdf: _svdf}


def joined(high: NDArray[np.int8], low: NDArray[np.int8]) -> NDArray[np.int64]:
    """int16 from its bytes."""
    return high.astype(np.int64) * 256 + low + 128


def parted(values: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """The bytes of int16."""
    return (values >> 8).astype(np.int8), ((values & 255) - 128).astype(np.int8)
