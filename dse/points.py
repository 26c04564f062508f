"""Trials that have finished, and the front among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.dse.evaluate import cost
from tilewright.dse.space import Value


@dataclass(frozen=True)
class Point:
    """A trial that has finished: its parameters and what they gave, by each fidelity that has been asked."""

    number: int
    params: dict[str, Value]
    values: dict[str, float] = field(default_factory=dict)
    reason: str | None = None
    cycles: dict[str, int] = field(default_factory=dict)
    excess: float = 0.0  #: share by which a board limit is passed
    metrics: dict[str, float] = field(default_factory=dict)  #: objectives known beside those asked for
    simulated: dict[str, Any] | None = None  #: outcome of the second fidelity: values, cycles or reason
    synthesised: dict[str, Any] | None = None  #: outcome of the third
    judged: dict[str, float] = field(default_factory=dict)  #: values by which :func:`judged` compared it

    @property
    def feasible(self) -> bool:
        """Whether the point can be built on the board and runs every network, by all that is known."""
        return not any((self.reason, (self.simulated or {}).get("reason"), (self.synthesised or {}).get("reason")))

    @property
    def best_values(self) -> dict[str, float]:
        """Every objective by the best fidelity that knows it; of a point that was judged, the value that counted."""
        later = [(outcome or {}).get("values", {}) for outcome in (self.simulated, self.synthesised)]
        return {**self.values, **later[0], **later[1], **self.judged}


def from_outcome(number: int, params: Mapping[str, Value], outcome: Mapping[str, Any]) -> Point:
    """A point by what :func:`tilewright.dse.evaluation.plain` made of its analytical outcome."""
    known = ("values", "reason", "cycles", "excess", "metrics")
    return Point(number, dict(params), **{name: outcome[name] for name in known if name in outcome})


def front(points: Iterable[Point], objectives: tuple[str, ...]) -> list[Point]:
    """Feasible points that no other beats in every objective; of equal ones the confirmed, then the first.

    Sorted by the objectives. What is returned has the values by which :func:`judged` compared it.
    """
    feasible = [point for point in judged(points, objectives) if point.feasible]
    best: dict[tuple[float, ...], Point] = {}
    for point in sorted(feasible, key=lambda p: (p.synthesised is None, p.simulated is None, p.number)):
        best.setdefault(tuple(cost(name, point.best_values[name]) for name in objectives), point)
    kept: list[tuple[float, ...]] = []
    for costs in sorted(best):
        if not any(all(a <= b for a, b in zip(other, costs, strict=True)) for other in kept):
            kept.append(costs)
    return [best[costs] for costs in kept]


def judged(points: Iterable[Point], objectives: tuple[str, ...]) -> list[Point]:
    """The points with values that can be compared though different fidelities have seen them.

    An estimate that is a little too good would push its own confirmed value off the front. So where a fidelity has
    not seen a point, each of its values is made worse by the worst factor found where it has: an estimate beats a
    confirmed value only by more than estimates have been wrong. These values are also what is shown.
    """
    found = list(points)
    values = {point.number: dict(point.values) for point in found if point.values}
    for fidelity in ("simulated", "synthesised"):
        outcomes = {p.number: getattr(p, fidelity) for p in found if p.values}
        seen = {number: outcome.get("values", {}) for number, outcome in outcomes.items() if outcome is not None}
        sound = [point.number for point in found if point.number in seen and point.feasible]
        for name in objectives:
            factors = [seen[n][name] / values[n][name] for n in sound if name in seen[n] and values[n][name]]
            # the worst: of what is maximised the smallest; never one that makes an estimate better
            worst = max([1.0, *factors]) if cost(name, 1.0) > 0 else min([1.0, *factors])
            for n, known in values.items():
                known[name] = seen[n].get(name, known[name]) if n in seen else known[name] * worst
    return [replace(point, judged=values.get(point.number, {})) for point in found]
