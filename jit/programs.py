"""One program of a network: several schedules are tried on the cycle simulator, the fastest that is right is kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

from tilewright.config import Config, ConfigError
from tilewright.isa.program import Program, Segment
from tilewright.isa.verifier import verify
from tilewright.jit.cost.estimate import streams
from tilewright.jit.cost.lower_bound import LowerBound, layer_bounds, network_bound
from tilewright.jit.cost.slices import best_slices
from tilewright.jit.cost.slicing import slice_graph
from tilewright.jit.defects import why_not
from tilewright.jit.emit.edges import dram_layout, edges
from tilewright.jit.emit.emitter import Emitter
from tilewright.jit.emit.writer import INPUT, OUTPUT, SCRATCH
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import AvgPool2D, Concat, Conv2D, DepthwiseConv2D, Graph, PartialSums
from tilewright.jit.ir.base import Sliced
from tilewright.jit.lower.lowering import lower
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.lower.token_rows import has_products
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.places import Placed, placed_plan
from tilewright.jit.plan.planner import Planner
from tilewright.jit.plan.policy import BEST, CONSTANT_SHARES, EAGER, HASTY, PLANNED, POLICIES, STEEP, Policy
from tilewright.jit.plan.refusal import Refusal
from tilewright.jit.plan.strips import MOST_ROWS
from tilewright.jit.proof import prove
from tilewright.jit.recurrent.program import is_recurrent, recurrent_program
from tilewright.jit.schedule.actions import Action, ScheduleError
from tilewright.jit.schedule.capacity import fit
from tilewright.jit.schedule.scheduler import Scheduler
from tilewright.jit.tiled.program import TiledProgram
from tilewright.progress import Progress
from tilewright.runtime.records import BOUND
from tilewright.runtime.steps import PackStep, TensorSpec, UnpackStep
from tilewright.sim import simulate_timing

#: tiles, which move every tensor, are not tried where a schedule is within so many times the lower bound, as the
#: estimate of a graph does not look at them there (:mod:`tilewright.jit.cost.tiles`)
NEAR = 1.1
#: networks larger than the chip run in tiles if those take at most so many times the lower bound, and nothing else is
#: tried
SURE = 1.04
#: tiles are not written whose count of cycles, which leaves waiting out, exceeds the best program's so many times
HOPELESS = 1.0
#: instructions written, over all programs tried, after which no more are tried for less memory: about a minute's work
ENOUGH = 1_000_000
#: rows of all layers, above which one schedule is enough: each row takes some tenth of a millisecond, a long batch has
#: hundreds of thousands
LARGE = 1 << 17

_SLACK = 8  #: spare rows of rings in groups, of policies that ask for all
#: operators in window mode, and the rows of strips that are tried where memory is scarce, besides as many as fit
IN_WINDOWS, STRIPS = (DepthwiseConv2D, AvgPool2D), (2, 1)

Made = tuple[Program, Lowered, dict[str, int]]  #: with the byte offsets of inputs and outputs
#: what tells the decisions from others, cycles by a coarse count if there is one, and the function that writes
Decided = tuple[Hashable, float | None, Callable[[], Made]]
Attempt = Callable[[], Decided]


@dataclass(frozen=True)
class ProvenProgram:
    """A program shown to compute its graph, and the steps around it (as program 0). ``rejected``: why other
    schedules, which would have been tried or taken first, were not. ``states``: the tensors among those steps that it
    finds as its last run left them."""

    program: Program
    packs: list[PackStep]
    unpacks: list[UnpackStep]
    rejected: tuple[str, ...] = ()
    states: tuple[TensorSpec, ...] = ()


def is_large(graph: Graph) -> bool:
    """Whether scheduling a graph takes so long that nothing else is tried once there is a program."""
    return sum(graph.tensors[name].shape[1] for op in graph.ops for name in op.outputs) > LARGE


def best_program(
    graph: Graph, config: Config, policies: tuple[Policy, ...], progress: Progress | None
) -> ProvenProgram:
    """The fastest of several schedules, by simulated cycles, that is proven to be right.

    Tiles, which fit always, come first where they promise to be near the lower bound, and are tried where no other
    schedule is, or none is right; for products of two tensors where nothing else fits. Raises what went wrong with the
    best one if none is.
    """
    if is_recurrent(graph):
        return _recurrent(graph, config)
    forms = _Forms(graph, config)
    on_chip = forms.streams(config)
    tries = [partial(_program, forms, policy, config, on_chip) for policy in (policies if on_chip else (PLANNED,))]
    tiles = cache(lambda: _tiles(graph, config))
    found: list[tuple[int, ProvenProgram]] = []
    written, large = 0, is_large(graph)
    timed: dict[Hashable, int] = {}  #: cycles of what was decided before; small graphs leave little to decide
    failures: dict[Exception, str] = {}  #: and what the report says of each
    refusals: list[Exception] = []

    def attempt(number: int, make: Attempt) -> int | None:
        """Cycles of a schedule, None if there is none."""
        nonlocal written
        if found and large:
            return None
        if progress is not None:
            progress("schedules", number, max(number, len(tries)) + 1)
        try:
            key, estimate, write = make()
            if key in timed:
                return timed[key]
            if estimate is not None and found and estimate > HOPELESS * min(c for c, _ in found):
                return None
            program, lowered, offsets = write()
            packs, unpacks = edges(graph, lowered, offsets, config)
            cycles = simulate_timing(program).cycles
        except PlaceError as error:  # it does not fit: no defect
            refusals.append(error)
            return None
        except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
            failures[error] = why_not(error, f"a schedule of {graph.name}")
            return None
        timed[key] = cycles
        written += program.instruction_count
        found.append((cycles, ProvenProgram(program, packs, unpacks)))
        return cycles

    def descend(make: Callable[[Config], Attempt], field: str) -> None:
        """Plans for less and less of a memory, as long as they are not much slower than the best."""
        for plan in _smaller(config, field, on_chip):
            if written > ENOUGH:
                break
            cycles = attempt(len(tries), make(plan))
            if cycles is None or cycles > STEEP * min(c for c, _ in found):
                break

    def proven() -> ProvenProgram | None:
        """The fastest of those found that is right; then none are left."""
        found.sort(key=lambda candidate: candidate[0])
        while found:
            candidate = found.pop(0)[1]
            if progress is not None:
                progress("proving", 0, 0)
            try:
                _check(graph, candidate)
                return replace(candidate, rejected=tuple(failures.values()))
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                failures[error] = why_not(error, f"a schedule of {graph.name}")
        timed.clear()
        return None

    whole = partial(_tiled, forms, tiles, config)
    products = has_products(graph)
    tiled = policies == POLICIES and not on_chip and not products and _promises(forms, tiles)
    if tiled:
        attempt(0, whole)
        if _near(found, SURE) and (best := proven()) is not None:
            return best
    cycles = [attempt(number, make) for number, make in enumerate(tries)]
    if on_chip and not found:  # it would stream, but for places in one piece
        attempt(len(tries), partial(_program, forms, PLANNED, config, False))
    if policies == POLICIES and not on_chip and any(isinstance(op, IN_WINDOWS) for op in graph.ops):
        for policy in (PLANNED, HASTY):  # longer rings, fewer pushes
            attempt(len(tries), partial(_program, forms, policy, config, False, finer=True))
        for strip in STRIPS:  # shorter rings, and more pushes
            attempt(len(tries), partial(_program, forms, PLANNED, config, False, strip=strip))
    if policies == POLICIES and not _near(found, BEST):
        if not on_chip:
            attempt(len(tries), partial(_program, forms, EAGER, config, False))
        fastest = min((c, k) for k, c in enumerate(cycles) if c is not None)[1] if any(cycles) else 0
        policy = policies[fastest] if on_chip else PLANNED
        if any(isinstance(op, Concat) for op in graph.ops):
            attempt(len(tries), partial(_joined, forms, policy, on_chip))
        for field in ("act_bytes", "prm_entries"):
            descend(lambda plan: partial(_program, forms, policy, plan, None), field)
    if not (found if products else _near(found, NEAR)):
        tiled = True
        cycles_of_tiles = attempt(len(tries), whole)
        if policies == POLICIES and cycles_of_tiles is not None and cycles_of_tiles <= STEEP * min(c for c, _ in found):
            for field in ("act_bytes", "acc_bytes"):
                descend(lambda plan: partial(_tiled, forms, tiles, plan), field)
    best = proven()
    if best is None and not tiled:
        attempt(len(tries), whole)
        best = proven()
    if best is None:
        raise [*failures, *refusals][0]
    return best


def _recurrent(graph: Graph, config: Config) -> ProvenProgram:
    """The program of a recurrent layer, of which there is but one form."""
    made = recurrent_program(graph, config)
    made.program.meta.update(_meta(graph, [made.bound], config))
    best = ProvenProgram(made.program, made.packs, made.unpacks, states=made.states)
    _check(made.graph, best)
    return best


def _check(graph: Graph, best: ProvenProgram) -> None:
    """Raise unless a program is legal and right; where that is known of some inputs alone, its layers say so."""
    verify(best.program)
    proof = prove(graph, best.program, best.packs, best.unpacks)
    for layer in best.program.meta["layers"] if not proof.followed else ():
        layer["compared"] = proof.reason


def _near(found: list[tuple[int, ProvenProgram]], times: float) -> bool:
    """Whether the fastest program takes at most so many times the lower bound."""
    return bool(found) and min(c for c, _ in found) <= times * found[0][1].program.meta[BOUND]


def _smaller(config: Config, field: str, all_sizes: bool) -> list[Config]:
    """The Config with half of a memory, with a quarter, and so on to the least there is where ``all_sizes`` are wanted.

    What is planned for less runs on the whole, sometimes faster. So more memory is never a loss.
    """
    result: list[Config] = []
    while all_sizes or len(result) < 2:
        try:
            result.append(config.replace(**{field: getattr(config, field) >> len(result) + 1}))
        except ConfigError:
            break
    return result


def _tiles(graph: Graph, config: Config) -> TiledProgram:
    return TiledProgram(graph, lower(graph, config, tiled=True, joined=True), config)


def _promises(forms: _Forms, tiles: Callable[[], TiledProgram]) -> bool:
    """Whether tiles are thought to be near the lower bound."""
    try:
        return tiles().choose(forms.config).cycles <= SURE * network_bound(forms.bounds, forms.config)
    except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
        why_not(error, f"tiles of {forms.graph.name}")
        return False  # refused where they are tried in their turn, too


def _tiled(forms: _Forms, tiles: Callable[[], TiledProgram], plan: Config) -> Decided:
    """Layer by layer through DRAM, in tiles whose sizes are chosen for ``plan``."""
    form = tiles()
    choice = form.choose(plan)

    def write() -> Made:
        return form.program(choice, forms.meta()), form.lowered, form.offsets

    return ("tiles", choice.key), choice.cycles, write


class _Forms:
    """A graph as it is lowered, once for all plans: whole, sliced, and without the copies of concatenations."""

    def __init__(self, graph: Graph, config: Config) -> None:
        self.graph, self.config = graph, config
        self._sliced: dict[tuple[str, ...], Lowered] = {}
        self._finer: dict[Config, Lowered] = {}

    @cached_property
    def whole(self) -> Lowered:
        return lower(self.graph, self.config)

    @cached_property
    def bounds(self) -> list[LowerBound]:
        return layer_bounds(self.graph, self.config)

    def meta(self) -> dict[str, Any]:
        """What a program says of its layers."""
        return _meta(self.graph, self.bounds, self.config)

    @cached_property
    def joined(self) -> Lowered:
        return lower(self.graph, self.config, joined=True)

    def sliced(self, plan: Config, finer: bool) -> Lowered:
        """With wide tensors in slices, as many as the memories of ``plan`` ask for, or (``finer``) as seem best."""
        if not finer:
            return self._cut(slice_graph(self.graph, plan))
        if plan not in self._finer:

            def fits(tables: NetworkTables) -> bool:
                return isinstance(placed_plan(Planner(tables, plan), CONSTANT_SHARES[0], _SLACK), Placed)

            self._finer[plan] = self._cut(best_slices(self.graph, plan, lambda cut: self._cut(cut).tables, fits))
        return self._finer[plan]

    def _cut(self, cut: Sliced) -> Lowered:
        if not cut.parts:
            return self.whole
        key = tuple(part for parts in cut.parts.values() for part in parts)
        if key not in self._sliced:
            self._sliced[key] = lower(cut, self.config)
        return self._sliced[key]

    def streams(self, plan: Config) -> bool:
        """Whether the whole network streams on the chip."""
        return streams(Planner(self.whole.tables, plan))


def _program(
    forms: _Forms, policy: Policy, plan: Config, on_chip: bool | None, joined: bool = False, strip: int = MOST_ROWS,
    finer: bool = False,
) -> Decided:  # fmt: skip
    """Schedule, to be emitted: the network as a whole, or (not ``on_chip``) sliced, in groups, by a plan.

    ``plan``: the Config to schedule for, with as much memory or less; places in act are spread over all of it, so
    that buffers share no more banks than scheduled. ``strip``: the most rows of a layer in window mode at once;
    ``finer``: slices as fine as they seem best.
    """
    if on_chip is None:
        on_chip = forms.streams(plan)
        policy = policy if on_chip else PLANNED
    lowered = forms.joined if joined else forms.whole if on_chip else forms.sliced(plan, finer)
    planner = Planner(lowered.tables, plan, strip)
    bound: Hashable = plan
    if on_chip:
        whole = planner.whole()
        if isinstance(whole, Refusal):
            raise PlaceError(str(whole))
        lowered.bind(whole)
        bound = whole.nodes.tobytes(), whole.bound.buffers.tobytes()
        actions = fit(lowered, whole, policy)
    else:
        actions = _planned(lowered, planner, policy)
    for buffer in lowered.buffers.values():
        buffer.base *= forms.config.act_units // plan.act_units
    places = tuple((b.tensor, b.base, b.capacity, b.pad, b.pad_value) for b in lowered.buffers.values())
    key = (bound, on_chip, joined, tuple(actions), places)
    return key, None, partial(_emitted, forms, lowered, actions)


def _joined(forms: _Forms, policy: Policy, on_chip: bool) -> Decided:
    """A schedule without the copies of concatenations. Their parts wait for each other, so not all rings have room."""
    try:
        return _program(forms, policy, forms.config, on_chip, joined=True)
    except ScheduleError as error:
        raise PlaceError(str(error)) from error


def _emitted(forms: _Forms, lowered: Lowered, actions: list[Action]) -> Made:
    """The program of a schedule."""
    config = forms.config
    layout = dram_layout(forms.graph, lowered, config)
    emitter = Emitter(
        config, lowered.nodes, lowered.buffers, {**layout.inputs, **layout.scratch}, layout.images, lowered.spills,
        lowered.blocked, layout.sizes[SCRATCH],
    )  # fmt: skip
    emitter.run(actions)
    sizes = layout.sizes
    segments = [
        Segment("input", "input", sizes[INPUT], repeat_stride=sizes[INPUT]),
        Segment("output", "output", sizes[OUTPUT], repeat_stride=sizes[OUTPUT]),
    ]
    if layout.scratch:
        segments.append(Segment("scratch", "scratch", sizes[SCRATCH]))
    return emitter.program(segments, forms.meta()), lowered, {**layout.inputs, **layout.outputs}


def _planned(lowered: Lowered, planner: Planner, policy: Policy) -> list[Action]:
    """Schedule by a plan; if constants find no place for want of one piece, with smaller groups."""
    failure: ScheduleError | None = None
    for share in CONSTANT_SHARES:
        placed = placed_plan(planner, share, _SLACK if policy.slack is None else policy.slack)
        if isinstance(placed, Refusal):
            raise PlaceError(str(placed))
        lowered.bind(placed.plan)
        names = list(lowered.buffers)
        for name, base in zip(names, placed.base, strict=True):
            lowered.buffers[name].base = base
        after = {name: [names[k] for k in others] for name, others in zip(names, placed.after, strict=True)}
        scheduler = Scheduler(planner.config, lowered, policy, after)
        try:
            scheduler.run()
            return scheduler.actions
        except ScheduleError as error:
            failure = error
    assert failure is not None
    raise failure


def _meta(graph: Graph, bounds: list[LowerBound], config: Config) -> dict[str, Any]:
    layers = [
        {
            "name": op.name, "op": op.source or op.kind, "place": "accelerator", "tensor": op.output,
            "shape": list(graph.tensors[op.output].shape), "input_shapes": [
                list(graph.tensors[name].shape) for name in op.inputs
            ],
            "weight_shape": list(op.weight.shape) if isinstance(op, Conv2D | DepthwiseConv2D | PartialSums) else [],
            **asdict(bound), BOUND: bound.cycles(config),
        }
        for op, bound in zip(graph.ops, bounds, strict=True)
    ]  # fmt: skip
    return {"name": graph.name, "layers": layers, BOUND: network_bound(bounds, config)}
