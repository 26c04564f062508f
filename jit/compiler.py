"""Graph in, programs and host steps out: the compiler's top level.

Operators are placed (accelerator or host), consecutive accelerator operators become one program, and for
each program several schedules are tried on the cycle simulator; the fastest is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.config import Config
from tilewright.isa.program import Program, Segment
from tilewright.isa.verifier import verify
from tilewright.jit import graph as g
from tilewright.jit.capacity import fit
from tilewright.jit.emitter import INPUT, OUTPUT, SCRATCH, Emitter
from tilewright.jit.floor import layer_floor
from tilewright.jit.graph import Graph, Op
from tilewright.jit.kernels.base import PlaceError
from tilewright.jit.layout import Buffer, origin, twin
from tilewright.jit.lower import HOST_KINDS, Lowered, image_shape, lower
from tilewright.jit.schedule import Policy, ScheduleError
from tilewright.runtime.steps import CastStep, LaunchStep, PackStep, ReshapeStep, SoftmaxStep, Step, UnpackStep
from tilewright.sim import simulate_timing

#: measured on the MLPerf Tiny networks (bench/policies.py): each is the best of some network on some config
POLICIES = (*(Policy(False, 0.25, slack) for slack in (1, 2, 4, 8, None)), Policy(True, 0.5, 8))

Progress = Callable[[str, int, int], None]


@dataclass
class CompiledGraph:
    """What a graph became: ``steps`` in order, the ``programs`` they launch, and where each operator runs."""

    graph: Graph
    config: Config
    programs: list[Program]
    steps: list[Step]
    placement: dict[str, tuple[str, str]] = field(default_factory=dict)  #: op -> (place, reason)


def compile_graph(
    graph: Graph,
    config: Config,
    *,
    keep_intermediates: bool = False,
    policies: tuple[Policy, ...] = POLICIES,
    progress: Progress | None = None,
) -> CompiledGraph:
    """Compile a graph for a Config.

    With ``keep_intermediates`` every operator's output is stored and unpacked. ``progress(what, done, total)`` is
    called as alternatives are tried. Raises :class:`PlaceError` naming the operator that fits neither the
    accelerator nor a host step.
    """
    result = CompiledGraph(graph, config, [], [])
    for place, ops in _stages(graph, config, result):
        if place == "host":
            result.steps += [_host_step(graph, op) for op in ops]
            continue
        part = _subgraph(graph, ops, keep_intermediates)
        program, lowered, offsets = _best_program(part, config, policies, progress)
        number = len(result.programs)
        result.programs.append(program)
        result.steps += [
            replace(pack, program=number, offset=offsets[name])
            for name, pack in lowered.packs.items()
            if name in offsets
        ]
        result.steps.append(LaunchStep(number))
        result.steps += [_unpack(graph, name, lowered, number, offsets, config) for name in part.outputs]
    return result


# -- placement -------------------------------------------------------------------------------------------


def _stages(graph: Graph, config: Config, result: CompiledGraph) -> list[tuple[str, list[Op]]]:
    """Alternating host and accelerator stages, each as large as dependencies allow."""
    place: dict[str, str] = {}
    for op in graph.ops:
        reason = _host_reason(graph, op, config)
        place[op.name] = "host" if reason else "accelerator"
        result.placement[op.name] = (place[op.name], reason or "exact on the accelerator")
    stages: list[tuple[str, list[Op]]] = []
    done, waiting = set(graph.inputs), list(graph.ops)
    current = "host"
    while waiting:
        taken: list[Op] = []
        for op in list(waiting):
            if place[op.name] == current and all(t in done for t in op.inputs):
                taken.append(op)
                waiting.remove(op)
                done.add(op.output)
        if taken:
            stages.append((current, taken))
        current = "accelerator" if current == "host" else "host"
    return stages


def _host_reason(graph: Graph, op: Op, config: Config) -> str | None:
    """Why an operator runs on the host; None if the accelerator takes it."""
    if isinstance(op, g.Softmax):
        return "softmax is exact integer arithmetic on the host"
    if isinstance(op, g.HostCast):
        return "change of representation"
    if isinstance(op, g.Reshape):
        return _reshape_reason(graph, op)
    try:
        lower(_subgraph(graph, [op], False), config)
    except PlaceError as error:
        if isinstance(op, HOST_KINDS):
            return str(error)
        raise
    return None


def _reshape_reason(graph: Graph, op: g.Reshape) -> str | None:
    """A reshape at the graph's edge, or one that moves channels between pixels, is the host's."""
    consumers = graph.consumers(op.output)
    if op.output in graph.outputs or not consumers or all(isinstance(c, HOST_KINDS) for c in consumers):
        return "no arithmetic; done while unpacking"
    if op.inputs[0] in graph.inputs:
        return "no arithmetic; done while packing"
    before, after = (graph.tensors[t].shape for t in (op.inputs[0], op.output))
    if image_shape(before) == image_shape(after):
        return None
    flattens = image_shape(after)[1:3] == (1, 1)
    return None if flattens and all(isinstance(c, g.Conv2D) for c in consumers) else "moves channels between pixels"


def _subgraph(graph: Graph, ops: list[Op], keep: bool) -> Graph:
    """The operators as a graph of their own; outputs are what others need (or everything)."""
    made = {op.output for op in ops}
    inputs = list(dict.fromkeys(t for op in ops for t in op.inputs if t not in made))
    inside = {op.name for op in ops}
    outputs = [
        op.output
        for op in ops
        if op.output in graph.outputs
        or keep
        or any(c.name not in inside for c in graph.consumers(op.output))
        or not graph.consumers(op.output)
    ]
    return Graph(graph.name, inputs, outputs, graph.tensors, ops)


def _host_step(graph: Graph, op: Op) -> Step:
    if isinstance(op, g.Softmax):
        return SoftmaxStep(op.inputs[0], op.output, op.multiplier, op.left_shift, op.diff_min)
    if isinstance(op, g.HostCast):
        return CastStep(op.inputs[0], op.output, op.offset, op.dtype)
    if isinstance(op, g.Reshape):
        return ReshapeStep(op.inputs[0], op.output, graph.tensors[op.output].shape)
    raise PlaceError(f"{op.name} ({op.kind}): has neither a lowering nor a host step")


# -- one program -----------------------------------------------------------------------------------------


def _best_program(
    graph: Graph, config: Config, policies: tuple[Policy, ...], progress: Progress | None
) -> tuple[Program, Lowered, dict[str, int]]:
    """The fastest of the schedules that the policies give, by simulated cycles."""
    best: tuple[int, Program, Lowered, dict[str, int]] | None = None
    spilled: list[str] = []  # what one policy cannot hold on the chip, no other can
    for number, policy in enumerate(policies):
        if progress is not None:
            progress("schedules", number, len(policies))
        program, lowered, offsets = _program(graph, config, policy, spilled)
        cycles = simulate_timing(program).cycles
        if best is None or cycles < best[0]:
            best = (cycles, program, lowered, offsets)
    assert best is not None, "at least one policy"
    verify(best[1])
    return best[1:]


def _program(
    graph: Graph, config: Config, policy: Policy, spilled: list[str] | None = None
) -> tuple[Program, Lowered, dict[str, int]]:
    """Schedule and emit; tensors go through DRAM, smallest first, until act and wgt hold the rest.

    ``spilled`` are the tensors to begin with; those that this call adds are appended.
    """
    spilled = [] if spilled is None else spilled
    known: dict[str, int] = {}
    while True:
        lowered = lower(graph, config, spilled)
        stored = list(dict.fromkeys(lowered.outputs[t] for t in graph.outputs))
        inputs = list(lowered.packs)
        try:
            schedule = fit(config, lowered.nodes, lowered.buffers, inputs, stored, policy, lowered.spills, known)
            break
        except ScheduleError as error:
            names = dict.fromkeys(origin(t) for t in error.tensors)
            candidates = [t for t in names if t not in spilled and _can_spill(t, lowered)]
            if not candidates:
                raise
            spilled.append(min(reversed(candidates), key=lambda t: _full_size(lowered.buffers[t])))
    layout = _dram_layout(lowered, inputs, stored, config)
    emitter = Emitter(
        config, lowered.nodes, lowered.buffers, {**layout.inputs, **layout.scratch}, layout.outputs, lowered.spills,
        layout.sizes[SCRATCH],
    )  # fmt: skip
    emitter.run(schedule.actions)
    sizes = layout.sizes
    segments = [
        Segment("input", "input", sizes[INPUT], repeat_stride=sizes[INPUT]),
        Segment("output", "output", sizes[OUTPUT], repeat_stride=sizes[OUTPUT]),
    ]
    if layout.scratch:
        segments.append(Segment("scratch", "scratch", sizes[SCRATCH]))
    return emitter.program(segments, _meta(graph, lowered, config)), lowered, {**layout.inputs, **layout.outputs}


def _can_spill(tensor: str, lowered: Lowered) -> bool:
    """Tensors made and read on the chip may go through DRAM; inputs come from there anyway."""
    read = any(t in n.inputs for n in lowered.nodes for t in (tensor, twin(tensor)))
    return tensor not in lowered.packs and tensor not in lowered.spills and read


def _full_size(buffer: Buffer) -> int:
    return buffer.rows * buffer.stride


@dataclass(frozen=True)
class _DramLayout:
    """Byte offsets of tensors in their segments, and the segments' sizes by number."""

    inputs: dict[str, int]
    outputs: dict[str, int]
    scratch: dict[str, int]
    sizes: dict[int, int]


def _dram_layout(lowered: Lowered, inputs: list[str], stored: list[str], config: Config) -> _DramLayout:
    sizes = {}

    def lay_out(segment: int, units: dict[str, int]) -> dict[str, int]:
        offsets, position = {}, 0
        for name, count in units.items():
            offsets[name] = position
            position += -(-count * config.act_unit_bytes // 4096) * 4096
        sizes[segment] = max(4096, position)
        return offsets

    buffers = lowered.buffers
    images = {t: buffers[t].height * buffers[t].width * buffers[t].units for t in stored}
    return _DramLayout(
        lay_out(INPUT, {t: _full_size(buffers[t]) for t in inputs}),
        lay_out(OUTPUT, images),
        lay_out(SCRATCH, {t: _full_size(buffers[t]) for t in dict.fromkeys(lowered.spills.values())}),
        sizes,
    )


def _meta(graph: Graph, lowered: Lowered, config: Config) -> dict[str, Any]:
    layers = []
    total_array = total_bytes = 0
    for number, op in enumerate(graph.ops):
        floor = layer_floor(graph, op, number, lowered, config)
        total_array += floor.array_cycles
        total_bytes += floor.bus_bytes
        layers.append(
            {
                "name": op.name, "op": op.source or op.kind, "place": "accelerator", "macs": floor.macs,
                "array_cycles": floor.array_cycles, "bus_bytes": floor.bus_bytes, "floor_cycles": floor.cycles(config),
            }
        )  # fmt: skip
    total = max(total_array, -(-total_bytes // config.beat_bytes))
    return {"name": graph.name, "layers": layers, "floor_cycles": total}


def _unpack(
    graph: Graph, tensor: str, lowered: Lowered, program: int, offsets: dict[str, int], config: Config
) -> UnpackStep:
    name = lowered.outputs[tensor]
    buffer, spec = lowered.buffers[name], lowered.specs[name]
    return UnpackStep(
        tensor=tensor, segment=OUTPUT, shape=spec.shape, tensor_shape=graph.tensors[tensor].shape,  # type: ignore[arg-type]
        lanes=config.lanes, units=buffer.units, program=program, offset=offsets[name], batch=config.batch,
    )  # fmt: skip


__all__ = ["CompiledGraph", "PackStep", "compile_graph"]
