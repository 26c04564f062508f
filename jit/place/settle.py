"""The simulator in the loop: what the best placement consists of is compiled and timed, until the best holds.

The planner's estimates decide what is tried; small programs take more than they say, because nothing covers their first
loads and last stores. So the parts of the best placement are compiled, their simulated cycles take the place of the
estimates, and the placement is solved anew, until one comes out whose parts are all known. The greedy placement is
timed first: what is found is never slower than that on the simulator. For throughput what counts of a part is the time
from one result to the next with every core at it; whether cores and CPU that wait for each other come near to that is
simulated of the best and of the greedy placement. There the best pipeline's parts are tried as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from itertools import islice
from typing import Any

from tilewright.jit.energy.actions import count_program
from tilewright.jit.network import CompiledModel
from tilewright.jit.place.exchange import exchanged, launch_cycles
from tilewright.jit.place.execute import compile_placed, simulate_placed
from tilewright.jit.place.placed import Placed, cost_of, exchanges, solved
from tilewright.jit.place.problem import Part, Solution
from tilewright.jit.source import Source
from tilewright.progress import Progress, silent
from tilewright.runtime.steps import LaunchStep
from tilewright.sim import steady_interval

ROUNDS = 8  #: placements that are compiled at most, besides the greedy one
EXCHANGES = 4  #: those of parts that exchange


def settle(
    source: Source, placed: Placed, *, fast_host: bool = False, progress: Progress = silent, shares: bool = False,
    remembered: dict[Hashable, Any] | None = None,
) -> tuple[Placed, CompiledModel]:  # fmt: skip
    """The best placement as simulated programs make it, and it compiled. The costs of ``placed`` learn from it.

    ``shares``: parts for latency may exchange through memory that cores share, where that is faster. ``remembered`` as
    of :func:`compile_placed`.
    """
    remembered = {} if remembered is None else remembered
    tried: dict[Solution, CompiledModel] = {}
    forbidden: set[Part] = set()
    first = [placed.greedy, *_of_few_programs(placed)]
    for number in range(len(first) + ROUNDS):
        progress("timing placements", number, len(first) + ROUNDS)
        solution = first[number] if number < len(first) else solved(placed.costs, placed.objective, forbidden)
        if any(solution.parts == known.parts for known in tried):
            if number < len(first):
                continue
            break
        made = compile_placed(source, placed, solution, fast_host=fast_host, progress=progress, remembered=remembered)
        learned = _learn(placed, solution, made)
        if learned or not number:
            tried[solution] = made
        if not learned and not number:
            break  # there is nothing to compare with
        if not learned:  # one of its parts became several programs
            forbidden |= {p for p in solution.parts if p.replicas} - {p for known in tried for p in known.parts}
    best = min(tried, key=lambda known: _cost(placed, known))
    costs = {known: _cost(placed, known) for known in (best, placed.greedy)}
    if placed.objective == "throughput" and best is not placed.greedy:
        costs = {known: round(_interval(placed, known, tried[known])) for known in (best, placed.greedy)}
        best = min((placed.greedy, best), key=costs.__getitem__)
    costed = [replace(known, cost=costs[known]) for known in (best, placed.greedy)]
    settled, made = replace(placed, best=costed[0], greedy=costed[1]), tried[best]
    if not shares or placed.objective != "latency" or placed.costs.config.cores == 1:
        return settled, made
    known = tried | _exchanging(source, placed, fast_host, progress, remembered)
    linked = {solution: exchanged(placed.costs, made) for solution, made in known.items()}
    best = min(linked, key=lambda solution: _cost(placed, solution) - linked[solution][1])
    made, saved = linked[best]
    return replace(settled, best=replace(best, cost=_cost(placed, best) - saved)), made


def _exchanging(
    source: Source, placed: Placed, fast_host: bool, progress: Progress, remembered: dict[Hashable, Any]
) -> dict[Solution, CompiledModel]:
    """The best placements if the host moved nothing between parts, as simulated programs make them."""
    found = dict[Solution, CompiledModel]()
    for reduces in (False, True):  # with sums to add up it is never slower than without
        forbidden = set[Part]()
        with exchanges(placed.costs, reduces):
            for number in range(EXCHANGES):
                progress("timing exchanges", number, EXCHANGES)
                solution = solved(placed.costs, placed.objective, forbidden)
                if any(solution.parts == known.parts for known in found):
                    break
                made = compile_placed(
                    source, placed, solution, fast_host=fast_host, progress=progress, remembered=remembered
                )  # fmt: skip
                if _learn(placed, solution, made):
                    found[solution] = made
                else:
                    forbidden |= {p for p in solution.parts if p.replicas} - {p for k in found for p in k.parts}
    return found


def _of_few_programs(placed: Placed) -> list[Solution]:
    """The best pipeline's parts, on all cores: no more programs than cores, whose estimates are the nearest."""
    if placed.pipeline is None or placed.objective != "throughput":
        return []
    cores = placed.costs.config.cores
    parts = tuple(part._replace(replicas=cores) if part.replicas else part for part in placed.pipeline.parts)
    return [replace(placed.pipeline, parts=parts)]


def _cost(placed: Placed, solution: Solution) -> int:
    return cost_of(placed.costs, placed.objective, solution.parts)


def _interval(placed: Placed, solution: Solution, made: CompiledModel) -> float:
    return simulate_placed(placed, solution, made.compiled.programs, side_by_side=True).interval


def _learn(placed: Placed, solution: Solution, made: CompiledModel) -> bool:
    """Put what programs take in the place of estimates of parts; False if they are not as many launches as
    planned."""
    programs, config = made.compiled.programs, placed.costs.config
    launches = [[programs[p] for p in step.programs] for step in made.compiled.steps if isinstance(step, LaunchStep)]
    parts = [part for part in solution.parts if part.replicas]
    rounds = [len(placed.costs.launched(part)) for part in parts]
    if len(launches) != sum(rounds):
        return False
    waiting = iter(launches)
    for part, count in zip(parts, rounds):
        own = list(islice(waiting, count))
        if placed.objective == "throughput":
            ((program,),) = own
            placed.costs.learn(part, round(steady_interval(config, program) * config.cores))
            continue
        cycles = sum(launch_cycles(config, together) for together in own)
        placed.costs.learn(part, cycles)
        if placed.costs.energies is not None:
            counts = sum((count_program(program, 0) for together in own for program in together), Counter[str]())
            placed.costs.energies.learn(part, counts + Counter(cycle=cycles))
    return True
