"""Graph in, programs and host steps out: the compiler's top level.

Operators are placed (accelerator or host), consecutive accelerator operators become one program, and for
each program several schedules are tried on the cycle simulator; the fastest is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from tilewright.config import Config, ConfigError
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.isa.verifier import verify
from tilewright.jit import graph as g
from tilewright.jit.actions import Action, Policy, ScheduleError
from tilewright.jit.capacity import fit, least_capacities
from tilewright.jit.emitter import Emitter, Image
from tilewright.jit.floor import layer_floor
from tilewright.jit.graph import Graph, Op
from tilewright.jit.kernels.base import PlaceError
from tilewright.jit.layout import Buffer
from tilewright.jit.lower import HOST_KINDS, image_shape, lower
from tilewright.jit.plan import make_plan
from tilewright.jit.schedule import Scheduler
from tilewright.jit.slicing import slice_graph
from tilewright.jit.tensors import Lowered
from tilewright.jit.tiled.program import tiled_program
from tilewright.jit.writer import INPUT, OUTPUT, SCRATCH
from tilewright.runtime.steps import CastStep, LaunchStep, ReshapeStep, SoftmaxStep, Step, UnpackStep
from tilewright.sim import simulate_timing

#: measured on the MLPerf Tiny networks: each is the best of some network on some config
POLICIES = (*(Policy(False, 0.25, slack) for slack in (1, 2, 4, 8, None)), Policy(True, 0.5, 8))

#: for networks that a plan cuts into groups
PLANNED = (Policy(False, 0.25, 8),)
#: tiles, which move every tensor, are not tried where a schedule is within so many times the floor: by a plan, or
#: with the whole network on the chip
NEAR = {False: 1.1, True: 1.5}
#: shares of wgt and prm that the constants of one group may take, tried until every chunk finds a place
CONSTANT_SHARES = (0.5, 0.25, 0.125)

_Key = TypeVar("_Key", bound=Hashable)
Progress = Callable[[str, int, int], None]


@dataclass
class CompiledGraph:
    """What a graph became: ``steps`` in order, the ``programs`` they launch, and where each operator runs."""

    graph: Graph
    config: Config
    programs: list[Program]
    steps: list[Step]
    placement: dict[str, tuple[str, str]] = field(default_factory=dict)  #: op -> (place, reason)

    @property
    def host_layers(self) -> tuple[dict[str, str], ...]:
        """What runs on the host and why, as an artifact keeps it (:class:`~tilewright.runtime.artifact.Artifact`)."""
        return tuple(
            {"name": op.name, "op": op.source or op.kind, "place": "host", "reason": self.placement[op.name][1]}
            for op in self.graph.ops
            if self.placement[op.name][0] == "host"
        )


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


def accelerator_graphs(graph: Graph, config: Config) -> list[Graph]:
    """What :func:`compile_graph` makes programs of: the graph without the operators that run on the host."""
    stages = _stages(graph, config, CompiledGraph(graph, config, [], []))
    return [_subgraph(graph, ops, False) for place, ops in stages if place == "accelerator"]


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
    """Why an operator runs on the host; None if the accelerator takes it. Raises PlaceError if it cannot."""
    if isinstance(op, g.Softmax):
        return "softmax is exact integer arithmetic on the host"
    if isinstance(op, g.HostCast):
        return "change of representation"
    if isinstance(op, g.Reshape):
        return _reshape_reason(graph, op)
    lower(_subgraph(graph, [op], False), config)  # refuses what neither side can run
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
    """The fastest of several schedules by simulated cycles; tiles, which fit always, where none is near the floor."""
    best: tuple[int, Program, Lowered, dict[str, int]] | None = None
    on_chip = _streams(graph, config)
    if on_chip:
        tries = [partial(_program, graph, config, policy, True) for policy in policies]
    else:
        plans = [config, *_smaller(config)]
        tries = [partial(_program, graph, config, policy, False, plan) for policy in PLANNED for plan in plans]
    for number, attempt in enumerate([*tries, partial(_tiled, graph, config)]):
        if progress is not None:
            progress("schedules", number, len(tries) + 1)
        last = number == len(tries)
        if last and best is not None and best[0] <= NEAR[on_chip] * best[1].meta["floor_cycles"]:
            break
        try:
            program, lowered, offsets = attempt()
        except PlaceError:
            if last and best is None:
                raise
            continue
        cycles = simulate_timing(program).cycles
        if best is None or cycles < best[0]:
            best = (cycles, program, lowered, offsets)
    assert best is not None, "the last attempt gives a program or raises"
    verify(best[1])
    return best[1:]


def _smaller(config: Config) -> list[Config]:
    """The Config with half of act, if there is one: what is planned for it runs on the whole, sometimes faster."""
    try:
        return [config.replace(act_bytes=config.act_bytes // 2)]
    except ConfigError:
        return []


def _tiled(graph: Graph, config: Config) -> tuple[Program, Lowered, dict[str, int]]:
    """Layer by layer through DRAM, in tiles."""
    lowered = lower(graph, config, tiled=True)
    program, offsets = tiled_program(graph, lowered, config, _meta(graph, lowered, config))
    return program, lowered, offsets


def _streams(graph: Graph, config: Config) -> bool:
    """Whether the whole network streams on the chip, with no more than the least of every ring."""
    lowered = lower(graph, config)
    if any(node.limit for node in lowered.nodes):
        return False
    stored = [lowered.outputs[t][0] for t in graph.outputs]
    for name, rows in least_capacities(lowered.nodes, lowered.buffers).items():
        lowered.buffers[name].capacity = rows
    try:
        Scheduler(config, lowered.nodes, lowered.buffers, list(lowered.packs), stored, Policy(), {}).run()
    except ScheduleError:
        return False
    return True


def _program(
    graph: Graph, config: Config, policy: Policy, on_chip: bool, plan: Config | None = None
) -> tuple[Program, Lowered, dict[str, int]]:
    """Schedule and emit: the network as a whole, or (not ``on_chip``) sliced, in groups, by a plan.

    ``plan``: the Config to plan for, with as much of act or less; places in act are spread over all of it, so that
    buffers share no more banks than planned.
    """
    plan = plan or config
    lowered = lower(graph if on_chip else slice_graph(graph, plan), plan)
    if (limited := next((node for node in lowered.nodes if node.limit), None)) is not None:
        raise PlaceError(f"{limited.name}: {limited.limit}")
    inputs = list(lowered.packs)
    stored = list(dict.fromkeys(part for t in graph.outputs for part in lowered.outputs[t]))
    if on_chip:
        actions = fit(config, lowered.nodes, lowered.buffers, inputs, stored, policy).actions
    else:
        actions = _planned(lowered, plan, policy, inputs, stored)
        for buffer in lowered.buffers.values():
            buffer.base *= config.act_units // plan.act_units
    layout = _dram_layout(graph, lowered, inputs, config)
    emitter = Emitter(
        config, lowered.nodes, lowered.buffers, {**layout.inputs, **layout.scratch}, layout.images, lowered.spills,
        layout.sizes[SCRATCH],
    )  # fmt: skip
    emitter.run(actions)
    sizes = layout.sizes
    segments = [
        Segment("input", "input", sizes[INPUT], repeat_stride=sizes[INPUT]),
        Segment("output", "output", sizes[OUTPUT], repeat_stride=sizes[OUTPUT]),
    ]
    if layout.scratch:
        segments.append(Segment("scratch", "scratch", sizes[SCRATCH]))
    return emitter.program(segments, _meta(graph, lowered, config)), lowered, {**layout.inputs, **layout.outputs}


def _planned(lowered: Lowered, config: Config, policy: Policy, inputs: list[str], stored: list[str]) -> list[Action]:
    """Schedule by a plan; if constants find no place for want of one piece, with smaller groups."""
    failure: ScheduleError | None = None
    for share in CONSTANT_SHARES:
        plan = make_plan(lowered, config, stored, share, 8 if policy.slack is None else policy.slack)
        scheduler = Scheduler(
            config, lowered.nodes, lowered.buffers, inputs, stored, policy, lowered.spills, plan.after
        )  # fmt: skip
        try:
            scheduler.run()
            return scheduler.actions
        except ScheduleError as error:
            failure = error
    assert failure is not None
    raise failure


@dataclass(frozen=True)
class _DramLayout:
    """Byte offsets of tensors in their segments, and the segments' sizes by number."""

    inputs: dict[str, int]
    outputs: dict[str, int]  #: by graph tensor
    images: dict[str, Image]  #: by on-chip tensor: the output itself or a slice of it
    scratch: dict[str, int]
    sizes: dict[int, int]


def _dram_layout(graph: Graph, lowered: Lowered, inputs: list[str], config: Config) -> _DramLayout:
    sizes = {}

    def lay_out(segment: int, units: dict[_Key, int]) -> dict[_Key, int]:
        offsets, position = {}, 0
        for name, count in units.items():
            offsets[name] = position
            position += whole_pages(count * config.act_unit_bytes)
        sizes[segment] = max(PAGE, position)
        return offsets

    buffers = lowered.buffers
    held = {t: tuple(lowered.outputs[t]) for t in graph.outputs}
    pixels = {parts: sum(buffers[part].units for part in parts) for parts in held.values()}
    places = lay_out(OUTPUT, {p: buffers[p[0]].height * buffers[p[0]].width * units for p, units in pixels.items()})
    images: dict[str, Image] = {}
    for parts, units in pixels.items():
        first = 0
        for part in parts:
            images[part] = Image(places[parts] + first * config.act_unit_bytes, units)
            first += buffers[part].units
    return _DramLayout(
        lay_out(INPUT, {t: _full_size(buffers[t]) for t in inputs}),
        {t: places[parts] for t, parts in held.items()},
        images,
        lay_out(SCRATCH, {t: _full_size(buffers[t]) for t in dict.fromkeys(lowered.spills.values())}),
        sizes,
    )


def _full_size(buffer: Buffer) -> int:
    return buffer.rows * buffer.stride


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
    parts = lowered.outputs[tensor]
    shape = lowered.specs[parts[0]].shape
    whole = (1, shape[1], shape[2], sum(lowered.specs[part].shape[3] for part in parts))
    return UnpackStep(
        tensor=tensor, segment=OUTPUT, shape=whole, tensor_shape=graph.tensors[tensor].shape, lanes=config.lanes,
        units=sum(lowered.buffers[part].units for part in parts), program=program, offset=offsets[tensor],
        batch=config.batch,
    )  # fmt: skip
