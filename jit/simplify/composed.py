"""Several functions of single elements as one table.

``x * sigmoid(x)`` between Q/DQ pairs is a table of 256 values and a product of two tensors, a hard-swish of an exporter
that knows none four operators; all of it is one function of x, which is looked up. What each value comes to is computed
by the operators' own meaning, so the graph gives the same for all inputs.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.jit import graph as g
from tilewright.jit.substitute.looked_up import VALUES, Table, is_function, look_up, table_of


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
        if not isinstance(op, (g.Requantize, g.Pairwise)) or not is_function(graph, op):
            continue
        known = [{name: VALUES} | functions.get(name, {}) for name in op.inputs]
        found = {t: table_of(op, [by[t] for by in known]) for t in known[0] if all(t in by for by in known)}
        functions[op.output] = found
        spare = [t for t in found if any(readers[name] == 1 and name not in (t, *graph.inputs) for name in op.inputs)]
        if spare:
            return _replaced(graph, position, spare[0], found[spare[0]])
    return graph


def _replaced(graph: g.Graph, position: int, source: str, table: Table) -> g.Graph:
    """The operator as a table of ``source``, without those that nobody reads any more."""
    ops = [*graph.ops]
    ops[position] = look_up(graph, ops[position], source, ops[position].output, table)
    needed, kept = set(graph.outputs), list[g.Op]()
    for old in reversed(ops):
        if needed & set(old.outputs):
            kept.append(old)
            needed |= set(old.inputs)
    return replace(graph, ops=kept[::-1])
