"""A placement made real: compiled with its parts, and timed on the simulator's cores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.jit.graph import Op
from tilewright.jit.network import CompiledModel, compile_source
from tilewright.jit.place.placed import Placed
from tilewright.jit.place.problem import PlacementError, Solution, members
from tilewright.jit.source import Source
from tilewright.jit.split.steps import Split
from tilewright.progress import Progress
from tilewright.sim import Run, simulate_cores

STEADY = 0.999  #: of the busiest's time
TIMED = 2  #: results of everybody who takes turns that are timed
FILLING = (1, 4, 16, 64)  #: results of everybody before those, while the pipeline fills; as few as will do


def compile_placed(
    source: Source, placed: Placed, solution: Solution, *, fast_host: bool = False, progress: Progress | None = None,
    remembered: dict[Hashable, Any] | None = None,
) -> CompiledModel:  # fmt: skip
    """The model file compiled with a placement's parts: a program for each on cores, in order, and one for each piece
    of those that cores share. ``remembered`` as :func:`~tilewright.jit.compiler.compile_graph` takes it."""
    costs = placed.costs
    names: dict[str, int] = {}
    positions: dict[int, int] = {}
    left: dict[int, str] = {}
    split: dict[str, Split] = {}
    kept: set[int] = set()
    for number, part in enumerate(solution.parts):
        for k in members(part.operators):
            op = costs.graph.ops[k]
            names[op.name] = number
            positions |= dict.fromkeys(op.covers, number)
            if part.replicas:
                kept |= set(op.covers)
            if part.way is not None:
                split[op.name] = Split(part.replicas, part.way)
            if not part.replicas and costs.places[op.name] == "accelerator":
                left |= dict.fromkeys(op.covers, f"placed on the CPU for {placed.objective}")

    def part_of(op: Op) -> int | None:
        # an operator that is left to the interpreter now has its name in the file, and may need changes of form
        return names[op.name] if op.name in names else min((positions[k] for k in op.covers), default=None)

    return compile_source(
        source, costs.config, left=left, part_of=part_of, split=split, fast_host=fast_host, progress=progress,
        remembered=remembered, kept=kept, substitutions=costs.substitutions,
    )  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Cycles: ``interval`` from one result to the next, ``latency`` of the first inference."""

    interval: float
    latency: int


def simulate_placed(placed: Placed, solution: Solution, programs: list[Program], side_by_side: bool) -> Measured:
    """Time a placement on the simulator, programs cycle by cycle under the DRAM's limit, the host's parts as estimated.

    ``programs``: those of :func:`compile_placed`, one for each part on cores. ``side_by_side``: every core runs all
    parts, else each part has cores of its own. Raises :class:`PlacementError` if a part became several programs.
    """
    return measure(placed.costs.config, _stages(placed, solution, programs, side_by_side))


def measure(config: Config, stages: Sequence[Stage]) -> Measured:
    """Time stages of inferences one after another until they run steadily.

    Whoever is the busiest begins late while the others fill the pipeline, so that results come faster at first than it
    can keep up: results at shorter intervals than its work takes are none of a steady state.
    """
    turns = math.lcm(*(len(stage.workers) for stage in stages))  # until everybody has had the same number of them
    for filling in FILLING:
        found, busiest = _measured(config, stages, filling * turns, (filling + TIMED) * turns)
        if found.interval >= STEADY * busiest:
            return found
    return Measured(max(found.interval, busiest), found.latency)


def _measured(config: Config, stages: Sequence[Stage], filling: int, steady: int) -> tuple[Measured, float]:
    """The interval between results behind so many, and the time that an inference takes the busiest worker."""
    # a worker takes its work in the order listed: later stages of earlier inferences among earlier ones of later
    # inferences, as many inferences later as are under way in the stages between
    offsets = [sum(len(stage.workers) for stage in stages[:s]) for s in range(len(stages))]
    count = steady + offsets[-1]  # the results behind those that are timed come while the pipeline drains
    runs: list[Run] = []
    last: dict[int, int] = {}
    order = sorted((k + offset, s, k) for k in range(count) for s, offset in enumerate(offsets))
    for _, s, k in order:
        worker = stages[s].workers[k % len(stages[s].workers)]
        runs.append(Run(worker, stages[s].work, after=(last[k],) if k in last else ()))
        last[k] = len(runs) - 1
    ran = simulate_cores(config, runs)
    ends = [ran[last[k]].end for k in range(count)]
    busy = Counter[int]()
    for (_, _, k), run, times in zip(order, runs, ran):
        busy[run.worker] += times.end - times.start if k < steady else 0
    interval = (max(ends[:steady]) - max(ends[:filling])) / (steady - filling)
    return Measured(interval, ends[0]), max(busy.values()) / steady


def simulate_latency(placed: Placed, solution: Solution, programs: list[Program]) -> int:
    """Cycles of one inference of a placement found for latency, its parts one after another, as in
    :func:`simulate_placed`; programs of a part that cores share begin together, and the host waits for the last."""
    costs, host = placed.costs, placed.costs.config.cores
    runs: list[Run] = []
    waiting = list(programs)

    def after(*workers: tuple[int, Program | int]) -> None:
        """Work that begins when all that began together before it has ended."""
        last = tuple(range(ends[-2], ends[-1])) if len(ends) > 1 else ()
        runs.extend(Run(worker, work, after=last) for worker, work in workers)
        ends.append(len(runs))

    ends = [0]
    for part in solution.parts:
        if not part.replicas:
            after((host, costs.part_time(part) or 0))
            continue
        for together, (packed, unpacked) in zip(costs.launched(part), costs.moves_of_rounds(part), strict=True):
            pieces = len(together)
            own, waiting = waiting[:pieces], waiting[pieces:]
            if len(own) < pieces:
                raise PlacementError(f"{pieces} pieces of a part became {len(own)} programs")
            after((host, packed))
            after(*enumerate(own))
            after((host, unpacked))
    if waiting:
        raise PlacementError(f"{len(waiting)} programs belong to no part")
    return max(ran.end for ran in simulate_cores(costs.config, runs))


class Stage(NamedTuple):
    """A program, or what the CPU does from one launch to the next; and who takes turns at it."""

    work: Program | int
    workers: range


def _stages(placed: Placed, solution: Solution, programs: list[Program], side_by_side: bool) -> list[Stage]:
    """What happens to an inference, as the runtime does it: the CPU's workers come after the cores."""
    costs, waiting = placed.costs, list(programs)
    cores, used = costs.config.cores, 0
    cpu = range(cores, cores + costs.jobs)
    stages, busy = list[Stage](), 0
    on_cores = [part for part in solution.parts if part.replicas]
    if len(programs) != len(on_cores):
        raise PlacementError(f"{len(on_cores)} parts became {len(programs)} programs")
    for part in solution.parts:
        if not part.replicas:
            busy += costs.part_time(part) or 0
            continue
        packed, unpacked = costs.moves(part)
        own = range(cores) if side_by_side else range(used, used + part.replicas)
        stages += [Stage(busy + packed, cpu), Stage(waiting.pop(0), own)]
        used, busy = own.stop, unpacked
    return [*stages, Stage(busy, cpu)]
