"""What operators of a network take in energy: on a core by counted actions, on the CPU by its time and its watts.

Of one inference from its first step to its last. Its parts run one after another, each on one core, on several that
share it, or on the CPU, so that energies add up as times do for latency. What waits takes energy too: the logic leaks,
the clock networks of all cores run, and the CPU takes its idle watts while a core computes. All in integers of
nanojoules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tilewright.config import Config
from tilewright.jit.energy.actions import Counts
from tilewright.jit.energy.model import EnergyTable, action_energies, default_table, energy, load_table
from tilewright.jit.place.problem import UNBOUNDED, Part, PlacementError, Problem, Solution, members
from tilewright.kinds import path_of
from tilewright.ranges import real

MOST_WATTS = 10_000.0


@dataclass(frozen=True)
class Power:
    """``host``: watts that this machine's CPU takes while one thread works, ``idle``: while it waits for a core;
    ``table``: the accelerator's energies. Raises :class:`PlacementError` for watts that none can be."""

    host: float
    idle: float = 0.0
    table: EnergyTable = field(default_factory=default_table)

    def __post_init__(self) -> None:
        if not real("host_watts", self.host, 0, MOST_WATTS, of="W", error=PlacementError):
            raise PlacementError(f"host_watts = {self.host:g}: must be above 0")
        real("host_idle_watts", self.idle, 0, self.host, of="W, which is host_watts", error=PlacementError)


def power_of(
    objective: str | None, host_watts: float | None, host_idle_watts: float | None, energy_table: str | Path | None
) -> Power | None:
    """What ``--objective energy`` is told, None for others, which have no use for it.

    Raises :class:`PlacementError` naming what is missing or given in vain, and what :func:`load_table` raises.
    """
    given = {"host_watts": host_watts, "host_idle_watts": host_idle_watts, "energy_table": energy_table}
    if objective != "energy":
        if vain := [name for name, value in given.items() if value is not None]:
            raise PlacementError(f"{', '.join(vain)}: only objective energy has use for it")
        return None
    if host_watts is None:
        raise PlacementError(
            "objective energy: give host_watts (--host-watts W), what this machine's CPU takes while one thread works: "
            "its times are measured here, and its power is not known"
        )
    table = (
        default_table()
        if energy_table is None
        else load_table(path_of("energy_table", energy_table, error=PlacementError))
    )
    return Power(host_watts, 0.0 if host_idle_watts is None else host_idle_watts, table)


class Costs(Protocol):
    """What is asked of :class:`tilewright.jit.place.costs.Costs`, which says what each method gives."""

    config: Config
    problem: Problem

    def part_time(self, part: Part) -> int | None: ...

    def moves(self, part: Part) -> tuple[int, int]: ...


class Energies:
    """Energies of parts, in nanojoules. ``factor``: what the accelerator's energies are taken times."""

    def __init__(self, costs: Costs, power: Power) -> None:
        self._costs, self.power, self.factor = costs, power, 1.0
        self._actions: dict[Part, float] = {}
        each = action_energies(costs.config, power.table)
        #: nanojoules a cycle: of leakage and all clock networks, of the clock networks of cores that wait for one
        self._fabric = 1e-3 * (costs.config.cores * each["clock"] + each["static"])
        self._others = 1e-3 * (costs.config.cores - 1) * each["clock"]

    def learn(self, part: Part, counts: Counts) -> None:
        """What the programs of a part do, by the planner's tables or their instructions; ``cycle`` of the longest."""
        self._actions[part] = 1e3 * energy(counts, self._costs.config, self.power.table).total

    @property
    def problem(self) -> Problem:
        """The placement problem with energies in the place of times; its sums are those of one inference."""
        known, cpu = self._costs.problem, self._costs.problem.cpu
        return Problem(
            known.needs, tuple(None if time is None else self.on_cpu(time) for time in cpu), self.core, self.split
        )  # fmt: skip

    def core(self, mask: int) -> int | None:
        """Of operators as one program on a core, with packing and unpacking; None where there is none."""
        time = self._costs.problem.core(mask)
        return None if time is None else self._on_cores(Part(mask, 1), time, self._costs.problem.moved(mask))

    def split(self, mask: int, most: int) -> dict[Part, int]:
        """The ways in which several cores can share operators, with their energies where those may be less than
        ``most``, which leaves them no more time than what waits takes in it."""
        waiting = self._watts(self.power.idle) + self.factor * self._fabric
        parts = self._costs.problem.split(mask, min(UNBOUNDED, math.ceil(most / waiting) if waiting else UNBOUNDED))
        found = {part: self.of_part(part) for part in parts}
        return {part: taken for part, taken in found.items() if taken < most}

    def _on_cores(self, part: Part, time: int, moved: int) -> int:
        """Of a part whose programs and their moves take so long together, the moves alone so long."""
        waiting = self._watts(self.power.idle) + self.factor * self._others  # the clocks of cores at work with these
        on_cores = self.factor * self._actions[part] + (time - moved) * waiting
        return round(on_cores) + self.on_cpu(moved)

    def of_part(self, part: Part) -> int:
        """Of a part on one core, on several, or on the CPU."""
        if part.way is not None:
            return self._on_cores(part, self._costs.part_time(part) or 0, sum(self._costs.moves(part)))
        if part.replicas:
            return self.core(part.operators) or 0
        cpu = self._costs.problem.cpu
        return sum(self.on_cpu(cpu[k] or 0) for k in members(part.operators))

    def on_cpu(self, cycles: int) -> int:
        """Of so many cycles in which the CPU works and the cores wait."""
        return round(cycles * (self._watts(self.power.host) + self.factor * self._fabric))

    def _watts(self, watts: float) -> float:
        """Nanojoules a cycle."""
        return 1e3 * watts / self._costs.config.clock_mhz


def with_factor(energies: Energies, factor: float, solve: Callable[[], Solution]) -> Solution:
    """What ``solve`` gives with the accelerator's energies taken times a factor."""
    energies.factor = factor
    try:
        return solve()
    finally:
        energies.factor = 1.0
