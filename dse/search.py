"""One sweep: points proposed in batches, evaluated anywhere, kept at once, and taken up again by the same call.

What a sweep finds is a function of its space, networks, objectives, sampler, seed and number of trials. Neither the
number of workers, nor the order in which they finish, nor being killed on the way changes a trial: a batch is proposed
before any of it is evaluated, and learned from when all of it is (:mod:`tilewright.dse.proposals`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.config import Config
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.evaluation import ANALYTICAL, SIMULATOR, SYNTHESIS, Task, version
from tilewright.dse.points import Point, from_outcome, front, judged
from tilewright.dse.pool import InProcess, Pool
from tilewright.dse.proposals import BATCH, SAMPLERS, Proposals, SearchError, Seen, import_optuna
from tilewright.dse.space import Space, Value
from tilewright.dse.trials import Row, Trials
from tilewright.progress import Progress, silent
from tilewright.sources import library_versions

__all__ = ["SAMPLERS", "Point", "Search", "SearchError", "front", "import_optuna"]

#: what the outcome of a fidelity is called in a :class:`Point`, and on the progress line
_CONFIRMED = {SIMULATOR: ("simulated", "simulating the front"), SYNTHESIS: ("synthesised", "synthesising the front")}
_ORDER = tuple(_CONFIRMED)
_KEEP_SECONDS = 0.2  #: analytical results that a kill may cost at most; dearer ones are kept as they arrive
_INDEPENDENT_BATCHES = 16  #: batches evaluated together where they do not depend on each other

Watch = Callable[[list[Point]], None]


class Search:
    """One sweep, its trials in the database at ``storage``, evaluated by ``pool`` (in this process if not given).

    ``batch``: trials proposed at a time, NSGA-II's population from 32 up. It bounds how many workers are of use.
    """

    def __init__(
        self, space: Space, evaluator: Evaluator, storage: str, seed: int = 0, sampler: str = "nsga2",
        batch: int = BATCH, pool: Pool | None = None,
    ) -> None:  # fmt: skip
        self.space, self.evaluator, self.seed, self.sampler, self.batch = space, evaluator, seed, sampler, batch
        self.pool: Pool = pool if pool is not None else InProcess()
        self._proposals()  # wrong samplers are reported before a database is made
        self.trials = Trials(storage, self._identity())
        self._task = Task(evaluator, space)
        self._points: dict[int, Point] = {}
        self._same: dict[tuple[str, str], dict[str, Any]] = {}  # outcomes by fidelity and parameters

    def run(self, trials: int, progress: Progress = silent, watch: Watch | None = None) -> list[Point]:
        """Have ``trials`` trials (all of a grid at most), earlier runs' included; returns them all.

        ``watch`` gets all points so far, batch by batch.
        """
        proposals = self._proposals()
        trials = min(trials, proposals.most or trials)
        known = self._read(ANALYTICAL)
        self._points = {}
        step = self.batch * (_INDEPENDENT_BATCHES if proposals.independent else 1)
        for first in range(0, trials, step):
            numbers = range(first, min(first + step, trials))
            if any(n not in known for n in numbers):
                wanted = self._wanted(proposals, numbers, known)
                outcomes = self._evaluated(ANALYTICAL, wanted, known, trials - numbers.stop, progress, trials)
                known |= {n: Row(wanted[n], outcome) for n, outcome in outcomes.items()}
            for n in numbers:
                self._points[n] = from_outcome(n, known[n].params, known[n].outcome)
            proposals.learn([self._seen(self._points[n]) for n in numbers])
            if watch is not None:
                watch(self.points())
        return self.points()

    def points(self) -> list[Point]:
        """Every trial of the last :meth:`run`, by number, with the values by which fronts compare it."""
        return judged(self._points.values(), self.evaluator.objectives)

    def confirm_front(
        self, most: int, progress: Progress = silent, fidelity: str = SIMULATOR, watch: Watch | None = None
    ) -> list[Point]:
        """Take ``most`` points to a higher fidelity, the front's first; returns the front then.

        A round takes points spread evenly over the front, its best by the first objective among them; where the front
        has fewer than the round may take, those of the front behind it follow, and so on.

        The simulator sees the base Config on top of them, wherever its estimate puts it: it is what every user compares
        with, and must not lose to an answer that is worse. Points that fail there leave the front, with the reason
        kept. It goes in rounds of half of what may still be tried, so that what is chosen depends on whole rounds, not
        on what finished first or before a kill.
        """
        attribute, title = _CONFIRMED[fidelity]
        known = self._read(fidelity)
        undone: dict[str, Any] = {name: None for name, _ in list(_CONFIRMED.values())[_ORDER.index(fidelity) :]}
        self._points = {n: dataclasses.replace(p, **undone) for n, p in self._points.items()}
        base = self._base() if fidelity == SIMULATOR else None
        most += base is not None
        done = 0
        while done < most:
            chosen = [base] if base is not None and not done else []
            chosen += self._spread(-(-(most - done) // 2) - len(chosen), attribute, chosen)
            if not chosen:
                break
            wanted = {p.number: p.params for p in chosen}
            outcomes = self._evaluated(fidelity, wanted, known, 0, progress, most, title, done)
            for point in chosen:
                found: dict[str, Any] = {attribute: outcomes[point.number]}
                self._points[point.number] = dataclasses.replace(self._points[point.number], **found)
            done += len(chosen)
            if watch is not None:
                watch(self.points())
        return front(self._points.values(), self.evaluator.objectives)

    def _spread(self, count: int, attribute: str, taken: list[Point]) -> list[Point]:
        """Up to ``count`` feasible points without ``attribute``, layer by layer from the front back, each layer evenly.

        Of points with equal values one is taken: the others differ in what the models do not see.
        """
        left = [p for p in self._points.values() if p.feasible and p.number not in {q.number for q in taken}]
        seen = [p.values for p in taken] + [p.values for p in left if getattr(p, attribute) is not None]
        chosen: list[Point] = []
        while left and len(chosen) < count:
            layer = front(left, self.evaluator.objectives)
            numbers = {p.number for p in layer}
            left = [p for p in left if p.number not in numbers and p.values not in [q.values for q in layer]]
            fresh = [p for p in layer if getattr(p, attribute) is None and p.values not in seen]
            room = min(len(fresh), count - len(chosen))
            chosen += [fresh[round(k * (len(fresh) - 1) / max(1, room - 1))] for k in range(room)]
        return chosen

    def config(self, point: Point) -> Config:
        """The Config of a finished point."""
        return self.evaluator.config(self.space, point.params)

    # -- trials ----------------------------------------------------------------------------------------

    def _proposals(self) -> Proposals:
        return Proposals(
            self.space, self.evaluator.directions, self.sampler, self.seed, self.batch,
            lambda point: self.evaluator.buildable(self.space, point),
        )  # fmt: skip

    def _base(self) -> Point | None:
        """The trial of the base Config, if the space holds it and it is feasible."""
        params = self._proposals().base_point()
        return next((p for p in self._points.values() if p.params == params and p.feasible), None)

    def _wanted(self, proposals: Proposals, numbers: range, known: Mapping[int, Row]) -> dict[int, dict[str, Value]]:
        """The parameters of these trials; a batch that was begun is proposed once more, and is the same."""
        wanted: dict[int, dict[str, Value]] = {}
        for first in range(numbers.start, numbers.stop, self.batch):
            wanted |= {n: p for n, p in enumerate(proposals.propose(first), first) if n in numbers}
        for n, params in wanted.items():
            if n in known and known[n].params != params:
                raise SearchError(
                    f"{self.trials.shown}: trial {n} is not what this version of Optuna proposes; use another --storage"
                )
        return wanted

    def _evaluated(
        self, fidelity: str, wanted: Mapping[int, dict[str, Value]], known: Mapping[int, Row], left: int,
        progress: Progress, total: int, title: str = "exploring", base: int | None = None,
    ) -> dict[int, dict[str, Any]]:  # fmt: skip
        """Outcomes of these trials; those that are not known are evaluated and kept, equal points once."""
        outcomes = {n: known[n].outcome for n in wanted if n in known}
        groups: dict[str, list[int]] = {}
        for n, params in wanted.items():
            if n not in outcomes:
                groups.setdefault(_key(params), []).append(n)
        finished = (min(wanted) if base is None else base) + len(outcomes)
        new: dict[int, Row] = {}
        kept, title = time.monotonic(), title + self._best()
        for ready in self._outcomes(fidelity, groups, wanted, left):
            for key, outcome in ready:
                self._same[fidelity, key] = outcome
                for n in groups[key]:
                    outcomes[n] = outcome
                    new[n] = Row(dict(wanted[n]), outcome)
                finished += len(groups[key])
            if fidelity != ANALYTICAL or time.monotonic() - kept > _KEEP_SECONDS:
                self.trials.write(fidelity, new)
                new, kept = {}, time.monotonic()
            progress(title, finished, total)
        self.trials.write(fidelity, new)
        return outcomes

    def _outcomes(
        self, fidelity: str, groups: Mapping[str, list[int]], wanted: Mapping[int, dict[str, Value]], left: int
    ) -> Iterator[list[tuple[str, dict[str, Any]]]]:  # fmt: skip
        """Outcomes by group, those that are ready together in one list; equal points of earlier trials first."""
        if there := [(key, self._same[fidelity, key]) for key in groups if (fidelity, key) in self._same]:
            yield there
        todo = [key for key in groups if (fidelity, key) not in self._same]
        if todo:
            points = [dict(wanted[groups[key][0]]) for key in todo]
            for ready in self.pool.evaluate(self._task, fidelity, points, left):
                yield [(todo[index], outcome) for index, outcome in ready]

    def _read(self, fidelity: str) -> dict[int, Row]:
        rows = self.trials.read(fidelity)
        self._same |= {(fidelity, _key(row.params)): row.outcome for row in rows.values()}
        return rows

    def _seen(self, point: Point) -> Seen:
        values = [point.values[name] for name in self.evaluator.objectives] if point.values else None
        return Seen(point.number, point.params, values, point.excess)

    def _best(self) -> str:
        best = front(self._points.values(), self.evaluator.objectives[:1])
        name = self.evaluator.objectives[0]
        return f", best {name} {best[0].best_values[name]:,.1f}" if best else ""

    def _identity(self) -> str:
        """Name of the sweep: equal for equal sweeps, other for others, so that one database can hold many.

        It covers the source of models, compiler and simulator, and the versions of what they compute with: outcomes of
        different versions never mix.
        """
        networks = [(n.name, n.weight, n.fingerprint) for n in self.evaluator.networks]
        outcomes = self.space.to_dict(), networks, self.evaluator.identity()
        text = json.dumps([*outcomes, self.seed, self.sampler, self.batch, version(), library_versions()])
        return "explore-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _key(params: Mapping[str, Value]) -> str:
    return json.dumps(params, sort_keys=True)
