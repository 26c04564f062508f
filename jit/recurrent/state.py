"""The states of LSTMs as tensors, which outlive a program: hidden states, and cells in two bytes.

Each is (1, 1, sequences, units) of int8, and reset where all of it is its zero point. What a program finds under a name
before a launch it replaces by what the sequences end in.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Graph, Lstm
from tilewright.runtime.steps import TensorSpec


def states_of(graph: Graph, op: Lstm) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """Hidden states, high and low bytes of cells, under names that are no tensor's of the graph."""
    sequences = math.prod(graph.tensors[op.inputs[0]].shape[:-1]) // op.steps

    def tensor(what: str, scale: float, zero_point: int) -> TensorSpec:
        name = f"{op.output} {what}"
        while name in graph.tensors:
            name += "'"
        return TensorSpec(name, (1, 1, sequences, op.units), "int8", scale, zero_point)

    unit = 2.0**-op.cell_bits
    hidden = tensor("hidden", graph.tensors[op.output].scale, op.state_zero_point)
    return hidden, tensor("cell high", 256 * unit, 0), tensor("cell low", unit, -128)


def with_states(graph: Graph) -> tuple[Graph, tuple[TensorSpec, ...]]:
    """The graph of a single LSTM with its states as inputs, and as outputs under the same names; and their tensors."""
    (op,) = graph.ops
    assert isinstance(op, Lstm)
    states = states_of(graph, op)
    names = [state.name for state in states]
    stated = Graph(
        graph.name, [*graph.inputs, *names], [*graph.outputs, *names],
        {**graph.tensors, **{state.name: state for state in states}}, [replace(op, inputs=[*op.inputs, *names])],
    )  # fmt: skip
    return stated, states


def joined(high: NDArray[np.int8], low: NDArray[np.int8]) -> NDArray[np.int64]:
    """Cells from their bytes."""
    return high.astype(np.int64) * 256 + low + 128


def parted(cell: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """The bytes of cells."""
    return (cell >> 8).astype(np.int8), ((cell & 255) - 128).astype(np.int8)
