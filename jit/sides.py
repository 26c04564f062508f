"""Who computes an operator, the accelerator or the host."""

from __future__ import annotations

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.errors import NeedsHost
from tilewright.jit.graph import Graph, Op
from tilewright.jit.lower.lowering import refusals
from tilewright.jit.stages import PartOf, Stage, stages, stages_of_parts


def stages_and_placement(
    graph: Graph, config: Config | None, part_of: PartOf | None = None
) -> tuple[list[Stage], dict[str, tuple[str, str]]]:
    """Stretches of host and accelerator work, the given parts or each as large as dependencies allow; and of each
    operator, by name, its place and the reason.

    Without a ``config``, the accelerator takes whatever some Config could take. Raises :class:`NeedsHost` and
    :class:`PlaceError` as :func:`~tilewright.jit.compiler.compile_graph` does.
    """
    placement: dict[str, tuple[str, str]] = {}
    refused: dict[int, str] = {}
    unplaced = refusals(graph, config) if config is not None else {}
    for op in graph.ops:
        if op.name in unplaced:  # neither side can run it
            if not op.covers:
                raise unplaced[op.name]
            refused |= dict.fromkeys(op.covers, str(unplaced[op.name]))
            continue
        reason = op.why_host(graph)
        placement[op.name] = ("host" if reason else "accelerator", reason or "exact on the accelerator")
    if refused:
        raise NeedsHost(refused, next(iter(refused.values())))
    _place_reshapes(graph, placement)
    found = {name: place for name, (place, _) in placement.items()}
    return stages(graph, found) if part_of is None else stages_of_parts(graph, found, part_of), placement


def _place_reshapes(graph: Graph, placement: dict[str, tuple[str, str]]) -> None:
    """Those stay on the accelerator that lie between operators of one program, themselves included."""

    def here(op: Op | None) -> bool:
        return op is not None and placement[op.name][0] == "accelerator" and not op.alone

    moved = True
    while moved:
        moved = False
        for op in graph.ops:
            if not isinstance(op, g.Reshape) or not here(op):
                continue
            packs = not here(graph.producer(op.inputs[0]))
            if packs or not any(here(c) for c in graph.consumers(op.output)):
                placement[op.name] = ("host", f"no arithmetic; done while {'' if packs else 'un'}packing")
                moved = True


def places(graph: Graph, config: Config) -> dict[str, str]:
    """``host`` or ``accelerator`` for each operator, by name.

    Raises what :func:`~tilewright.jit.compiler.compile_graph` raises before it writes programs.
    """
    return {name: place for name, (place, _) in stages_and_placement(graph, config)[1].items()}


def accelerator_graphs(graph: Graph, config: Config | None = None) -> list[Graph]:
    """What programs are made of, all channels kept: the graph without the operators of the host, and without recurrent
    layers, which are programs of another form.

    Without a ``config``, whatever some Config could take.
    """
    found, _ = stages_and_placement(graph, config)
    return [subgraph(graph, stage.ops, False) for stage in found if stage.kind == "accelerator"]


def accelerator_part(graph: Graph) -> Graph:
    """What some Config could take of a graph as one graph: what operators on the host read are outputs of it."""
    ops = [op for part in accelerator_graphs(graph) for op in part.ops]
    return subgraph(graph, ops, False)


def subgraph(graph: Graph, ops: list[Op], keep: bool) -> Graph:
    """The operators as a graph of their own; outputs are what others need (or everything)."""
    made = {t for op in ops for t in op.outputs}
    inputs = list(dict.fromkeys(t for op in ops for t in op.inputs if t not in made))
    inside = {op.name for op in ops}
    readers: dict[str, list[str]] = {tensor: [] for tensor in made}
    for op in graph.ops:
        for tensor in op.inputs:
            if tensor in made:
                readers[tensor].append(op.name)
    outputs = [
        tensor
        for op in ops
        for tensor in op.outputs
        if tensor in graph.outputs
        or keep
        or any(reader not in inside for reader in readers[tensor])
        or (not readers[tensor] and not isinstance(op, g.Interpreted))
    ]
    return Graph(graph.name, inputs, outputs, graph.tensors, ops)
