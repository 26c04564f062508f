"""The best placement for throughput and for latency, by dynamic programming over ideals.

*Latency*: parts run one after another, as the runtime runs the steps of an artifact, so that times add up; a part is
the CPU's, one core's, or shared by all cores, each of which then makes some rows or channels of what it gives.
*Throughput*: the cores work at once, on different inferences, and the busiest worker decides; the CPU has all its
parts, and packs and unpacks for those on cores while these compute. Cores are used in one of two ways: *side by side*,
where each core runs all parts, or as a *pipeline*, where every part has cores of its own, r of which take turns, so
that it gives a result every r-th of its time.

On cores that are all alike side by side is never worse: what k cores do together for one inference takes each of them
at least the k-th of it. A pipeline is for what these costs leave out, such as cores that keep their part's constants.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.place.ideals import ideals
from tilewright.jit.place.problem import UNBOUNDED, Part, PlacementError, Problem, Solution, joined, members


class _Label(NamedTuple):
    """A way to run an ideal: the time on cores (of a pipeline: of its slowest part) and the CPU's; its last part."""

    core: int
    cpu: int
    part: Part | None
    before: _Label | None


NOWHERE = "there is no placement: operators run neither on the CPU nor on so many cores"
_START = _Label(0, 0, None, None)


def best_side_by_side(problem: Problem, cores: int, forbidden: Set[Part] = frozenset(), threads: int = 1) -> Solution:
    """The least time from one result to the next on so many cores, each of which runs every part, and the CPU, whose
    ``threads`` take turns. Of placements of equal cost the one whose inference takes the least time alone.

    ``forbidden``: parts that must not be in it, single operators where they are the CPU's. Raises
    :class:`PlacementError` if nothing is left.
    """
    fronts: dict[int, _Front] = {}
    ways: dict[int, list[tuple[Part | None, int, int, int]]] = {0: [(None, 0, 0, 0)]}
    found = ideals(problem.needs)
    for ideal in found:
        front = fronts[ideal] = _Front.of(ways.pop(ideal, []), fronts)
        if not len(front.core):
            continue
        for part, time in _following(problem, ideal, found, cores):
            if part not in forbidden:
                moved = problem.moved(part.operators) if part.replicas else time
                ways.setdefault(ideal | part.operators, []).append((part, ideal, time - moved, moved))
    ends = fronts[problem.everything]
    costs = np.maximum(-(-ends.core // cores), -(-ends.cpu // threads))
    if not len(costs):
        raise PlacementError(NOWHERE)
    label = int(np.lexsort((ends.core + ends.cpu, costs))[0])
    cost, ideal, parts = int(costs[label]), problem.everything, list[Part]()
    while True:
        front = fronts[ideal]
        part, ideal = front.ways[front.way[label]]
        if part is None:
            return Solution(joined(tuple(reversed(parts))), cost)
        parts.append(part)
        label = front.before[label]


class _Front(NamedTuple):
    """The ways to run an ideal of which none is better than another in both times, cores' and the CPU's (labels,).

    ``ways``: the last parts, and the ideals before them; ``way``: of each label which of those, ``before``: the label
    of that ideal that it goes on from.
    """

    core: NDArray[np.int64]
    cpu: NDArray[np.int64]
    ways: list[tuple[Part | None, int]]
    way: NDArray[np.int64]
    before: NDArray[np.int64]

    @classmethod
    def of(cls, ways: list[tuple[Part | None, int, int, int]], fronts: Mapping[int, _Front]) -> _Front:
        """From all last parts, the ideals before them, and the times that they take of cores and CPU."""
        befores = [fronts[ideal] if part is not None else _NOTHING for part, ideal, _, _ in ways]
        none = [np.zeros(0, np.int64)]
        core = np.concatenate(none + [b.core + w[2] for b, w in zip(befores, ways)])
        cpu = np.concatenate(none + [b.cpu + w[3] for b, w in zip(befores, ways)])
        way = np.repeat(np.arange(len(ways)), [len(b.core) for b in befores])
        before = np.concatenate(none + [np.arange(len(b.core)) for b in befores])
        order = np.lexsort((cpu, core))
        least = np.minimum.accumulate(cpu[order])
        order = order[np.flatnonzero(np.diff(least, prepend=UNBOUNDED) < 0)]
        return cls(core[order], cpu[order], [w[:2] for w in ways], way[order], before[order])


_ZERO = np.zeros(1, np.int64)
_NOTHING = _Front(_ZERO, _ZERO, [], _ZERO, _ZERO)


def best_pipeline(problem: Problem, cores: int, threads: int = 1) -> Solution:
    """The least time from one result to the next where each part has its own cores; as :func:`best_side_by_side`."""
    # of each ideal and number of cores: the labels of which none is better than another in both times
    fronts: dict[tuple[int, int], list[_Label]] = {(0, 0): [_START]}
    found = ideals(problem.needs)
    for ideal in found:
        for used in range(cores + 1):
            front = fronts.get((ideal, used))
            if front is None:
                continue
            front = fronts[ideal, used] = _undominated(front)
            for v, time in _next_on_cpu(problem, ideal):
                part = Part(1 << v, 0)
                made = (_Label(label.core, label.cpu + time, part, label) for label in front)
                fronts.setdefault((ideal | part.operators, used), []).extend(made)
            if used == cores:
                continue
            for larger in found:
                if larger == ideal or ideal & ~larger or (whole := problem.core(larger & ~ideal)) is None:
                    continue
                moved = problem.moved(larger & ~ideal)
                for replicas in range(1, cores - used + 1):
                    part = Part(larger & ~ideal, replicas)
                    time = -(-(whole - moved) // replicas)
                    made = (_Label(max(label.core, time), label.cpu + moved, part, label) for label in front)
                    fronts.setdefault((larger, used + replicas), []).extend(made)
    ends = [label for used in range(cores + 1) for label in fronts.get((problem.everything, used), [])]
    return _solution(ends, lambda label: max(label.core, -(-label.cpu // threads)))


def best_latency(problem: Problem, forbidden: Set[Part] = frozenset()) -> Solution:
    """The least time of one inference on the CPU and cores, one of them or all together; arguments as of
    :func:`best_side_by_side`."""
    found = ideals(problem.needs)
    best: dict[int, _Label] = {0: _START}
    for number, ideal in enumerate(found):
        # from the nearest before it on: what is known by then spares much of what lies far off
        for before in reversed(found[:number]):
            label = best.get(before)
            if label is None or before & ~ideal:
                continue
            for part, time in _between(
                problem, before, ideal, best[ideal].cpu - label.cpu if ideal in best else UNBOUNDED
            ):
                known = best.get(ideal)
                if part not in forbidden and (known is None or label.cpu + time < known.cpu):
                    best[ideal] = _Label(0, label.cpu + time, part, label)
    return _solution([best[problem.everything]] if problem.everything in best else [], lambda label: label.cpu)


def next_best(best: Solution, solve: Callable[[Set[Part]], Solution]) -> Solution | None:
    """The best placement that differs from ``best``, which is that of ``solve`` with nothing forbidden.

    It lacks at least one part of the best one, so the best is found over what each of them leaves when forbidden.
    """
    others = []
    for part in best.parts:
        for lacking in [part] if part.replicas else [Part(1 << v, 0) for v in members(part.operators)]:
            with contextlib.suppress(PlacementError):
                others.append(solve(frozenset({lacking})))
    return min(others, key=lambda solution: solution.cost, default=None)


def _between(problem: Problem, before: int, ideal: int, most: int) -> list[tuple[Part, int]]:
    """The parts that lead from one ideal to another, with their times; those on cores that may take less than
    ``most``."""
    mask = ideal & ~before
    parts = [(Part(1 << v, 0), time) for v, time in _next_on_cpu(problem, before) if 1 << v == mask]
    if problem.least(mask) < most and (time := problem.core(mask)) is not None:
        parts.append((Part(mask, 1), time))
    return [*parts, *problem.split(mask, most).items()]


def _following(problem: Problem, ideal: int, found: list[int], replicas: int) -> list[tuple[Part, int]]:
    """The parts that could come next once an ideal has run, with their times: single operators of the CPU's, and others
    with so many replicas."""
    following = [(Part(1 << v, 0), time) for v, time in _next_on_cpu(problem, ideal)]
    for larger in found:
        if larger != ideal and not ideal & ~larger and (time := problem.core(larger & ~ideal)) is not None:
            following.append((Part(larger & ~ideal, replicas), time))
    return following


def _next_on_cpu(problem: Problem, ideal: int) -> list[tuple[int, int]]:
    """Operators that the CPU could run once an ideal has run, with their times."""
    ready = (v for v in members(problem.everything & ~ideal) if problem.needs[v] & ~ideal == 0)
    return [(v, time) for v in ready if (time := problem.cpu[v]) is not None]


def _undominated(labels: list[_Label]) -> list[_Label]:
    kept: list[_Label] = []
    for label in sorted(labels, key=lambda label: label[:2]):
        if not kept or label.cpu < kept[-1].cpu:
            kept.append(label)
    return kept


def _solution(ends: list[_Label], cost: Callable[[_Label], int]) -> Solution:
    """The end of least ``cost``."""
    if not ends:
        raise PlacementError(NOWHERE)
    label = best = min(ends, key=cost)
    parts: list[Part] = []
    while label.part is not None and label.before is not None:
        parts.append(label.part)
        label = label.before
    return Solution(joined(tuple(reversed(parts))), cost(best))
