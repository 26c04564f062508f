"""A model file placed on cores and the CPU: the best placement, the next best, and others to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from tilewright.config import Config
from tilewright.jit.errors import NeedsHost
from tilewright.jit.importer import lower_source
from tilewright.jit.place.costs import Costs, file_times
from tilewright.jit.place.energy import Energies, Power, with_factor
from tilewright.jit.place.host_times import HostTimes
from tilewright.jit.place.launches import around, launches
from tilewright.jit.place.problem import Part, PlacementError, Solution, joined
from tilewright.jit.place.solve import best_latency, best_pipeline, best_side_by_side, next_best
from tilewright.jit.sides import places
from tilewright.jit.source import Source
from tilewright.jit.stages import stages
from tilewright.progress import Progress, silent
from tilewright.runtime.records import Objective


@dataclass(frozen=True)
class Placed:
    """``best``: the placement of least cost, ``second``: the best that differs (None: there is no other), ``greedy``:
    everything to the accelerator that it takes, ``pipeline``: the best with cores for each part (None: there is none).

    Costs are cycles, of one inference for latency, from one result to the next for throughput; for energy nanojoules of
    one inference. ``exchanging``: for latency on several cores the best whose parts exchange through memory that cores
    share, one launch for all that follow one another on cores; in the others the host carries between them.
    ``if_less``, ``if_more``: for energy, the best if the accelerator took as much less or more than its model says as
    that may be wrong.
    """

    objective: Objective
    costs: Costs
    best: Solution
    second: Solution | None
    greedy: Solution
    pipeline: Solution | None
    if_less: Solution | None = None
    if_more: Solution | None = None
    exchanging: Solution | None = None


def place_source(
    source: Source, config: Config, objective: Objective, times: HostTimes | None = None, progress: Progress = silent,
    jobs: int = 1, power: Power | None = None, like: Placed | None = None,
) -> Placed:  # fmt: skip
    """Solve the placement of a model file on ``config.cores`` cores and this machine's CPU.

    ``times``: what is known of this machine, else what is kept. ``jobs``: threads of the CPU that work on different
    inferences, for throughput. ``power``: for energy, which needs it. ``like``: of the same file, for
    another number of the same cores, whose estimates are taken over. Raises :class:`PlacementError` where there is no
    placement, and where operators share a state.
    """
    kept = HostTimes() if times is None else times
    costs = _costs(source, config, kept, progress, jobs, power, None if like is None else like.costs)
    solve = partial(solved, costs, objective)
    best = solve(frozenset())
    second, plain = next_best(best, solve), greedy(costs, objective)
    kept.keep()
    if costs.energies is None:
        found = Placed(objective, costs, best, second, plain, pipeline(costs) if objective == "throughput" else None)
        shared = objective == "latency" and config.cores > 1
        return replace(found, exchanging=exchanging(costs)) if shared else found
    doubt, alone = costs.energies.power.table.uncertainty, partial(solve, frozenset())
    less, more = (with_factor(costs.energies, factor, alone) for factor in (1 / doubt, doubt))
    return Placed(objective, costs, best, second, plain, None, less, more)


def solved(costs: Costs, objective: Objective, forbidden: Set[Part]) -> Solution:
    """The best placement without the forbidden parts."""
    if objective == "latency":  # one inference on one core, or on all of them together
        return best_latency(costs.problem, forbidden)
    if objective == "energy":
        return best_latency(_energies(costs).problem, forbidden)
    return best_side_by_side(costs.problem, costs.config.cores, forbidden, costs.jobs)


def cost_of(costs: Costs, objective: Objective, parts: Sequence[Part]) -> int:
    """Cycles of an inference whose parts run one after another, or from one result to the next where cores, side by
    side, and CPU work on different inferences; nanojoules for energy."""
    if objective == "energy":
        return sum(map(_energies(costs).of_part, parts))
    everything = sum(costs.part_time(part) or 0 for part in parts)
    if objective == "latency":
        return everything
    cpu = sum(costs.cpu_time(part) for part in parts)
    return max(-(-(everything - cpu) // costs.config.cores), -(-cpu // costs.jobs))


def _energies(costs: Costs) -> Energies:
    if costs.energies is None:
        raise PlacementError("objective energy: needs the power of this machine's CPU")
    return costs.energies


def _costs(
    source: Source, config: Config, times: HostTimes, progress: Progress, jobs: int, power: Power | None,
    like: Costs | None,
) -> Costs:  # fmt: skip
    """The costs of a file's operators; what this Config cannot take is the interpreter's."""
    file = file_times(source, times, progress)
    moved: dict[int, str] = {}
    while True:
        graph = lower_source(source, moved).graph
        try:
            return Costs(graph, places(graph, config), config, file, times, progress, jobs, power, like)
        except NeedsHost as refusal:
            if refusal.operators.keys() <= moved.keys():
                raise
            moved |= refusal.operators


def pipeline(costs: Costs) -> Solution | None:
    """The best pipeline, None where there is none: a network with more stretches than cores may have none."""
    try:
        return best_pipeline(costs.problem, costs.config.cores, threads=costs.jobs)
    except PlacementError:
        return None


@contextmanager
def exchanges(costs: Costs, reduces: bool) -> Iterator[None]:
    """Costs as they are where cores exchange among themselves, and (``reduces``) may add up each other's sums."""
    costs.exchanges, costs.reduces = True, reduces
    try:
        yield
    finally:
        costs.exchanges = costs.reduces = False


def exchanging(costs: Costs) -> Solution:
    """The best placement for latency whose parts exchange through memory that cores share, which the compiler links."""
    with exchanges(costs, reduces=True):
        found = best_latency(costs.problem)
    cycles = sum((costs.part_time(part) or 0) - sum(costs.moves(part) if part.replicas else ()) for part in found.parts)
    return replace(found, cost=cycles + sum(around(costs, parts) for parts in launches(costs, found)))


def greedy(costs: Costs, objective: Objective) -> Solution:
    """Everything on the accelerator that it takes, in stretches as large as can be: what the compiler does unasked."""
    cores = costs.config.cores if objective == "throughput" else 1
    number = {op.name: k for k, op in enumerate(costs.graph.ops)}
    parts: list[Part] = []
    for stage in stages(costs.graph, costs.places):
        if stage.kind == "accelerator":
            parts += _fitting(costs, [number[op.name] for op in stage.ops], cores)
        else:
            masks = [1 << number[op.name] for op in stage.ops]
            alone = stage.kind == "alone"
            parts += [Part(mask, cores if alone and costs.core(mask) is not None else 0) for mask in masks]
    return Solution(joined(tuple(parts)), cost_of(costs, objective, parts))


def _fitting(costs: Costs, operators: list[int], cores: int) -> list[Part]:
    """A stretch as parts that each fit as one program: it, or its halves; on the CPU what fits in none."""
    mask = sum(1 << k for k in operators)
    if costs.core(mask) is not None:
        return [Part(mask, cores)]
    if len(operators) == 1:
        if costs.problem.cpu[operators[0]] is None:
            raise PlacementError(f"{costs.graph.ops[operators[0]].name}: fits in no program")
        return [Part(mask, 0)]
    middle = len(operators) // 2
    return [*_fitting(costs, operators[:middle], cores), *_fitting(costs, operators[middle:], cores)]
