"""The states of recurrent layers as tensors, which outlive a program: int8, numbers of int16 in two bytes.

All of a reset one is its zero point. What a program finds under a name before a launch it replaces by what it ends in.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.jit.graph import Graph, Recurrent
from tilewright.runtime.steps import TensorSpec


def with_states(graph: Graph) -> tuple[Graph, tuple[TensorSpec, ...]]:
    """The graph of a single layer with its states as inputs, and as outputs under the same names; and their tensors."""
    (op,) = graph.ops
    assert isinstance(op, Recurrent)
    pixels = math.prod(graph.tensors[op.inputs[0]].shape[:-1])
    kept = op.states(pixels, graph.tensors[op.output].scale)
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
