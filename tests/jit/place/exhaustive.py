"""Every placement of a small graph, one by one: what the dynamic program is held to. Knows masks and costs only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.place.problem import Part, Problem, members


@dataclass(frozen=True)
class Costs:
    """A random graph: edges (before, after), times on core and CPU (-1: not there), and of each result's transfer."""

    edges: tuple[tuple[int, int], ...]
    core: tuple[int, ...]
    cpu: tuple[int, ...]
    transfer: tuple[int, ...]

    def on_core(self, mask: int) -> int | None:
        """What is computed, and what is moved; None where an operator cannot run there."""
        if any(self.core[v] < 0 for v in members(mask)):
            return None
        return sum(self.core[v] for v in members(mask)) + self.moved(mask)

    def moved(self, mask: int) -> int:
        """Each result that comes in once, each that goes out once."""
        inside = set(members(mask))
        comes = {a for a, b in self.edges if b in inside and a not in inside}
        leaves = {a for a, b in self.edges if a in inside and b not in inside}
        ends = {v for v in inside if all(a != v for a, _ in self.edges)}
        return sum(self.transfer[v] for v in comes | leaves | ends)

    def least(self, mask: int) -> int:
        """Never above :meth:`on_core`, at times near."""
        return sum(max(0, self.core[v]) for v in members(mask)) * (mask % 5) // 4

    def shared(self, mask: int, most: int = 1 << 60) -> dict[Part, int]:
        """On several cores at once: rows as long as sums of their times are even, channels of single operators."""
        whole = self.on_core(mask)
        if whole is None:
            return {}
        found = (
            {Part(mask, 2, "rows"): whole // 2 + 9, Part(mask, 3, "rows"): whole // 3 + 12} if whole % 2 == 0 else {}
        )
        found |= {Part(mask, 3, "channels"): whole // 3 + 14} if mask & (mask - 1) == 0 else {}
        return {part: time for part, time in found.items() if time < most}

    def problem(self, shared: bool = False) -> Problem:
        """As the solver takes it."""
        needs = [0] * len(self.core)
        for a, b in self.edges:
            needs[b] |= 1 << a
        return Problem(
            tuple(needs), tuple(None if t < 0 else t for t in self.cpu), self.on_core,
            self.shared if shared else lambda mask, most: {}, self.moved, self.least,
        )  # fmt: skip


def random_costs(rng: np.random.Generator, operators: int) -> Costs:
    """Any shape from a line to unconnected operators; some operators can run on one side only."""
    density = rng.choice([0.15, 0.4, 0.8])
    edges = [(a, b) for b in range(operators) for a in range(b) if rng.random() < density]
    side = rng.choice(3, operators, p=(0.7, 0.15, 0.15))
    core = np.where(side == 1, -1, rng.integers(1, 30, operators))
    cpu = np.where(side == 2, -1, rng.integers(1, 120, operators))
    return Costs(
        tuple(edges), tuple(core.tolist()), tuple(cpu.tolist()), tuple(rng.integers(0, 15, operators).tolist())
    )


def _times(costs: Costs, part: int) -> list[int]:
    """The times of a part on one core, and on several."""
    time = costs.on_core(part)
    return [*([] if time is None else [time]), *costs.shared(part).values()]


def _reach(costs: Costs) -> NDArray[np.bool_]:
    reach = np.zeros((len(costs.core),) * 2, np.bool_)
    for a, b in sorted(costs.edges, key=lambda e: -e[0]):
        reach[a] |= reach[b]
        reach[a, b] = True
    return reach


def _can_run(costs: Costs, reach: NDArray[np.bool_], parts: list[list[int]]) -> bool:
    """Whether the parts can run one after another, each once: the graph of the parts has no circle."""
    rest = list(parts)
    while rest:
        ready = next((p for p in rest if not any(reach[v, w] for q in rest if q is not p for v in q for w in p)), None)
        if ready is None:
            return False
        rest.remove(ready)
    return True


def all_placements(costs: Costs, parts: int) -> list[tuple[list[int], int]]:
    """(times of the core parts, time of the CPU, which moves) of each placement with up to so many core parts."""
    return [
        (
            [(costs.on_core(part) or 0) - costs.moved(part) for part in found],
            cpu + sum(costs.moved(part) for part in found),
        )
        for found, cpu in all_parts(costs, parts)
    ]


def all_parts(costs: Costs, parts: int) -> list[tuple[list[int], int]]:
    """(core parts as masks, time of the CPU) of each placement with up to so many core parts."""
    reach, n = _reach(costs), len(costs.core)
    allowed = [
        ([0] if costs.cpu[v] >= 0 else []) + (list(range(1, parts + 1)) if costs.core[v] >= 0 else []) for v in range(n)
    ]
    result = []
    for labels in itertools.product(*allowed):
        used = sorted(set(labels) - {0})
        if used != list(range(1, len(used) + 1)) or [labels.index(k) for k in used] != sorted(map(labels.index, used)):
            continue  # the same with the parts' names exchanged
        groups = [[v for v in range(n) if labels[v] == k] for k in used]
        if not _can_run(costs, reach, groups + [[v] for v in range(n) if labels[v] == 0]):
            continue
        cpu = sum(costs.cpu[v] for v in range(n) if labels[v] == 0)
        result.append(([sum(1 << v for v in group) for group in groups], cpu))
    return result


def exhaustive_pipeline(costs: Costs, cores: int) -> list[int]:
    """The costs of all placements and all ways to give the parts cores, from the least."""
    found = []
    for times, cpu in all_placements(costs, cores):
        for replicas in itertools.product(range(1, cores + 1), repeat=len(times)):
            if sum(replicas) <= cores:
                found.append(max([cpu, *(-(-t // r) for t, r in zip(times, replicas))]))
    return sorted(found)


def exhaustive_side_by_side(costs: Costs, cores: int, threads: int) -> list[int]:
    """The costs of all placements with all parts on every core and so many threads of the CPU, from the least."""
    return sorted(
        max(-(-sum(times) // cores), -(-cpu // threads)) for times, cpu in all_placements(costs, len(costs.core))
    )


def exhaustive_latency(costs: Costs) -> list[int]:
    """The costs of all placements, whatever the number of launches, from the least."""
    return sorted(sum(times) + cpu for times, cpu in all_placements(costs, len(costs.core)))


def exhaustive_shared(costs: Costs) -> list[int]:
    """As :func:`exhaustive_latency`, and each part on cores in every way in which several can share it."""
    return sorted(
        sum(times) + cpu
        for parts, cpu in all_parts(costs, len(costs.core))
        for times in itertools.product(*(_times(costs, part) for part in parts))
    )
