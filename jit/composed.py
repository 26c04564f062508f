"""Several functions of single elements as one table.

``x * sigmoid(x)`` between Q/DQ pairs is a table of 256 values and a product of two tensors, a hard-swish of an exporter
that knows none four operators; all of it is one function of x, which is looked up. What each value comes to is computed
by the operators' own meaning, so the graph gives the same for all inputs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import graph as g
from tilewright.jit.numbers import IDENTITY_SCALE, identity_requant
from tilewright.jit.reference import result_of

Table = NDArray[np.int8]
_VALUES = np.arange(256).astype(np.uint8).view(np.int8)  #: at their own values modulo 256


def composed(graph: g.Graph) -> g.Graph:
    """The graph with a function of one tensor wherever that leaves an operator without a reader."""
    while (fewer := _step(graph)) is not graph:
        graph = fewer
    return graph


def _step(graph: g.Graph) -> g.Graph:
    """One operator that is a function of an earlier tensor reads that instead; the graph itself if there is none."""
    readers: dict[str, int] = {}
    for name in (*graph.outputs, *(t for op in graph.ops for t in dict.fromkeys(op.inputs))):
        readers[name] = readers.get(name, 0) + 1
    functions: dict[str, dict[str, Table]] = {}  #: of each tensor, by what earlier ones
    for position, op in enumerate(graph.ops):
        if not isinstance(op, (g.Requantize, g.Pairwise)) or not _is_function(graph, op):
            continue
        known = [{name: _VALUES} | functions.get(name, {}) for name in op.inputs]
        found = {t: _table(op, [by[t] for by in known]) for t in known[0] if all(t in by for by in known)}
        functions[op.output] = found
        spare = [t for t in found if any(readers[name] == 1 and name not in (t, *graph.inputs) for name in op.inputs)]
        if spare:
            return _replaced(graph, position, spare[0], found[spare[0]])
    return graph


def _table(op: g.Requantize | g.Pairwise, inputs: list[Table]) -> Table:
    """The results of an operator that is alike in all channels, for these values of what it reads."""
    return result_of(replace(op, requant=op.requant.of(slice(0, 1))), *inputs)


def _is_function(graph: g.Graph, op: g.Requantize | g.Pairwise) -> bool:
    """Whether an operator of single elements is alike in all channels and places."""
    shapes = {graph.tensors[name].shape for name in (*op.inputs, op.output)}
    return len(shapes) == 1 and op.requant.uniform


def _replaced(graph: g.Graph, position: int, source: str, table: Table) -> g.Graph:
    """The operator as a table of ``source``, without those that nobody reads any more."""
    op = graph.ops[position]
    scale = replace(IDENTITY_SCALE, table=table.tobytes())
    channels = graph.tensors[op.output].shape[-1]
    ops = [*graph.ops]
    ops[position] = g.Requantize(
        name=op.name, inputs=[source], output=op.output, source=op.source, covers=op.covers, scale=scale,
        requant=identity_requant(channels),
    )  # fmt: skip
    needed, kept = set(graph.outputs), list[g.Op]()
    for old in reversed(ops):
        if needed & set(old.outputs):
            kept.append(old)
            needed |= set(old.inputs)
    return replace(graph, ops=kept[::-1])
