"""The simulator in the loop: what the best placement consists of is compiled and timed, until the best holds.

The planner's estimates decide what is tried; small programs take more than they say, because nothing covers their first
loads and last stores. So the parts of the best placement are compiled, their simulated cycles take the place of the
estimates, and the placement is solved anew, until one comes out whose parts are all known. The greedy placement is
timed first: what is found is never slower than that on the simulator.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from tilewright.isa.program import Program
from tilewright.jit.network import CompiledModel
from tilewright.jit.place.execute import compile_placed
from tilewright.jit.place.placed import Placed, solved
from tilewright.jit.place.problem import Solution
from tilewright.jit.source import Source
from tilewright.progress import Progress, silent
from tilewright.runtime.steps import LaunchStep
from tilewright.sim import Run, simulate_cores

ROUNDS = 8  #: placements that are compiled at most, besides the greedy one


def settle(
    source: Source, placed: Placed, *, fast_host: bool = False, progress: Progress = silent
) -> tuple[Placed, CompiledModel]:
    """A placement for latency as simulated programs make it, and it compiled. The costs of ``placed`` learn from it."""
    remembered: dict[Hashable, Any] = {}
    tried: dict[Solution, CompiledModel] = {}
    solution = placed.greedy
    for number in range(1 + ROUNDS):
        progress("timing placements", number, 1 + ROUNDS)
        made = compile_placed(source, placed, solution, fast_host=fast_host, progress=progress, remembered=remembered)
        tried[solution] = made
        if not _learn(placed, solution, made):
            break
        solution = solved(placed.costs, placed.objective, frozenset())
        if any(solution.parts == known.parts for known in tried):
            break
    best = min(tried, key=lambda known: _cost(placed, known))
    costed = [replace(known, cost=_cost(placed, known)) for known in (best, placed.greedy)]
    return replace(placed, best=costed[0], greedy=costed[1]), tried[best]


def _cost(placed: Placed, solution: Solution) -> int:
    return sum(placed.costs.part_time(part) or 0 for part in solution.parts)


def _learn(placed: Placed, solution: Solution, made: CompiledModel) -> bool:
    """Put simulated cycles in the place of estimates of a placement's parts; False if they are not one launch each."""
    programs = made.compiled.programs
    launches = [[programs[p] for p in step.programs] for step in made.compiled.steps if isinstance(step, LaunchStep)]
    parts = [part for part in solution.parts if part.replicas]
    if len(launches) != len(parts):
        return False
    for part, together in zip(parts, launches):
        placed.costs.learn(part, launch_cycles(placed, together))
    return True


def launch_cycles(placed: Placed, programs: list[Program]) -> int:
    """Cycles of programs that begin together on cores of their own, until the last has ended."""
    runs = [Run(core, program) for core, program in enumerate(programs)]
    return max(ran.end for ran in simulate_cores(placed.costs.config, runs))
