"""From partitioned Relax to the integer graph of one region."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field

from tilewright.jit import compat
from tilewright.jit.compat import Expr, Var
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.frontend.patterns import BY_NAME
from tilewright.jit.frontend.site import LITERT, SEMANTICS_ATTRIBUTE, SOURCE_ATTRIBUTE, RelaxBuilder, Site
from tilewright.jit.graph import Graph, Op


@dataclass
class Extraction:
    """A graph with what is known about its making."""

    graph: Graph
    exactness: list[LayerExactness]
    sources: dict[str, str] = field(default_factory=dict)  #: model operator -> the graph tensor that holds its result


def extract(function: Expr, name: str, semantics: str) -> Extraction:
    """The graph of a function that only calls composites. Raises Unsupported at the first binding that is none."""
    builder = RelaxBuilder(semantics)
    sources: dict[str, str] = {}
    inputs = [builder.add_input(var) for var in function.params]
    local: dict[Var, Expr] = {}
    for binding in compat.bindings(function):
        value = binding.value
        if compat.is_function(value):
            local[binding.var] = value
        elif compat.is_var(value):
            if value in builder.names:
                builder.names[binding.var] = builder.names[value]
        elif compat.callee(value) is not None:
            composite = local.get(compat.callee(value))
            if composite is None:
                raise Unsupported(f"a call of {compat.callee(value)}")
            builder.names[binding.var] = _lower(builder, composite, compat.arguments(value), binding.name, sources)
        elif not compat.is_tuple(value):
            raise Unsupported(compat.op_name(value) or "an expression that is no call")
    outputs = [builder.add_output(var) for var in _results(function)]
    graph = builder.finish(name, inputs, outputs)
    graph.ops = in_file_order(graph)
    return Extraction(graph, builder.exactness, sources)


def _results(function: Expr) -> list[Var]:
    """The variables a function returns, its result tuple taken apart."""
    value = compat.result(function)
    bound = {b.var: b.value for b in compat.bindings(function)}
    while compat.is_var(value) and (compat.is_tuple(bound.get(value)) or compat.is_var(bound.get(value))):
        value = bound[value]
    return compat.fields(value) if compat.is_tuple(value) else [value]


def _lower(builder: RelaxBuilder, composite: Expr, args: list[Expr], name: str, sources: dict[str, str]) -> str:
    rule = BY_NAME[compat.attribute(composite, "Composite")]
    source = compat.attribute(composite, SOURCE_ATTRIBUTE) or name
    site = Site(
        builder=builder,
        root=compat.result(composite),
        bound={b.var: b.value for b in compat.bindings(composite)},
        arguments=dict(zip(composite.params, args, strict=True)),
        name=source,
        source=source.replace("_", " ", 1) if re.match(r"op\d+_", source) else source,
    )
    site.root = site.value(site.root)
    tensor = rule.lower(site)
    sources[source] = tensor
    return tensor


def in_file_order(graph: Graph) -> list[Op]:
    """The operators in topological order, those of the file's earlier operators first."""
    position = {op.output: i for i, op in enumerate(graph.ops)}

    def rank(index: int) -> tuple[int, int]:
        number = re.match(r"op(\d+)", graph.ops[index].source)
        return (int(number.group(1)) if number else -1, index)

    waiting = [sum(name in position for name in set(op.inputs)) for op in graph.ops]
    ready = [rank(i) for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order: list[Op] = []
    while ready:
        _, index = heapq.heappop(ready)
        op = graph.ops[index]
        order.append(op)
        for later, candidate in enumerate(graph.ops):
            if op.output in candidate.inputs:
                waiting[later] -= 1
                if waiting[later] == 0:
                    heapq.heappush(ready, rank(later))
    return order


def region_semantics(function: Expr) -> str:
    """Whose arithmetic a region must reproduce."""
    return compat.attribute(function, SEMANTICS_ATTRIBUTE) or LITERT
