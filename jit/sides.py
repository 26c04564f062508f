"""Who computes an operator, the accelerator or the host, and the host's step for it."""

from __future__ import annotations

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.errors import NeedsHost, PlaceError
from tilewright.jit.graph import Graph, Op
from tilewright.jit.lower.rules import refusals
from tilewright.jit.lower.state import image_shape
from tilewright.jit.stages import PartOf, Stage, stages, stages_of_parts
from tilewright.runtime.steps import (
    CastStep,
    ConstantStep,
    DequantizeStep,
    QuantizeStep,
    ReshapeStep,
    SoftmaxStep,
    Step,
    TableSoftmaxStep,
    TransposeStep,
)


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
        reason = _host_reason(graph, op)
        placement[op.name] = ("host" if reason else "accelerator", reason or "exact on the accelerator")
    if refused:
        raise NeedsHost(refused, next(iter(refused.values())))
    _place_reshapes(graph, placement)
    found = {name: place for name, (place, _) in placement.items()}
    return stages(graph, found) if part_of is None else stages_of_parts(graph, found, part_of), placement


def _host_reason(graph: Graph, op: Op) -> str | None:
    """Why an operator runs on the host; None if the accelerator takes it."""
    if isinstance(op, g.Interpreted):
        return op.reason
    if isinstance(op, (g.Softmax, g.TableSoftmax)):
        return "softmax is exact on the host"
    if isinstance(op, g.Constant):
        return "a constant of the model"
    if isinstance(op, g.HOST_KINDS):
        return "change of representation"
    return _reshape_reason(graph, op) if isinstance(op, g.Reshape) else None


def _reshape_reason(graph: Graph, op: g.Reshape) -> str | None:
    """Why a reshape can be nothing but a step on the host."""
    if op.output in graph.outputs:
        return "no arithmetic; done while unpacking"
    if op.inputs[0] in graph.inputs:
        return "no arithmetic; done while packing"
    before, after = (graph.tensors[t].shape for t in (op.inputs[0], op.output))
    if before[:1] != (1,) or after[:1] != (1,) or max(len(before), len(after)) > 4:
        return "no arithmetic; done between launches"
    if image_shape(before) == image_shape(after):
        return None
    flattens = image_shape(after)[1:3] == (1, 1)
    conv = all(isinstance(c, g.Conv2D) and not c.transposed for c in graph.consumers(op.output))
    return None if flattens and conv else "moves channels between pixels"


def _place_reshapes(graph: Graph, placement: dict[str, tuple[str, str]]) -> None:
    """Those stay on the accelerator that lie between operators of one program, themselves included."""

    def here(op: Op | None) -> bool:
        return op is not None and placement[op.name][0] == "accelerator" and not isinstance(op, g.Recurrent)

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


def host_step(graph: Graph, op: Op) -> Step:
    """The step of an operator that NumPy computes. Raises :class:`PlaceError` for any other."""
    if isinstance(op, g.Softmax):
        return SoftmaxStep(op.inputs[0], op.output, op.multiplier, op.left_shift, op.diff_min)
    if isinstance(op, g.TableSoftmax):
        return TableSoftmaxStep(op.inputs[0], op.output, op.table, op.factor, op.zero_point)
    if isinstance(op, g.HostCast):
        return CastStep(op.inputs[0], op.output, op.offset, op.dtype)
    if isinstance(op, g.Reshape):
        return ReshapeStep(op.inputs[0], op.output, graph.tensors[op.output].shape)
    if isinstance(op, g.QuantizeFloat):
        return QuantizeStep(op.inputs[0], op.output, op.scale, op.zero_point, op.dtype, op.rounding)
    if isinstance(op, g.DequantizeFloat):
        return DequantizeStep(op.inputs[0], op.output, op.scale, op.zero_point)
    if isinstance(op, g.Constant):
        return ConstantStep.of(op.inputs[0], op.output, op.values)
    if isinstance(op, g.Transpose):
        return TransposeStep(op.inputs[0], op.output, op.permutation)
    raise PlaceError(f"{op.name} ({op.kind}): has neither a lowering nor a host step")
