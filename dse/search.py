"""Search over a space with Optuna: seeded, every trial in a database, and resumed by the same call.

Sampler state is not in the database, so the sampler of trial n is made anew from (seed, n): what it proposes
depends on the trials before it alone. A trial that a killed process left behind is taken up again under its number.
So a search that was killed and resumed makes the very same trials as one left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.config import Config
from tilewright.dse.evaluate import Evaluator, Outcome
from tilewright.dse.space import Space, Value
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("nsga2", "tpe", "random", "grid")
_GRID_LIMIT = 200_000


class SearchError(TilewrightError):
    """A sweep cannot be started or continued as asked."""


@dataclass(frozen=True)
class Point:
    """A trial that has finished: its parameters and what they gave."""

    number: int
    params: dict[str, Value]
    values: dict[str, float]
    reason: str | None
    cycles: dict[str, int]
    simulated: dict[str, Any] | None = None  #: cycles, values or reason of the second fidelity

    @property
    def feasible(self) -> bool:
        """Whether the point can be built on the board and runs every network."""
        return self.reason is None and not (self.simulated or {}).get("reason")

    @property
    def best_values(self) -> dict[str, float]:
        """The simulator's values where it has been run, else the model's."""
        return (self.simulated or {}).get("values") or self.values


Progress = Callable[[str, int, int], None]


class Search:
    """One sweep: a space, an evaluator, a seed and a sampler, in the database at ``storage``."""

    def __init__(self, space: Space, evaluator: Evaluator, storage: str, seed: int = 0, sampler: str = "nsga2") -> None:
        optuna = import_optuna()
        if sampler not in SAMPLERS:
            raise SearchError(f"{sampler}: no such sampler; the samplers are {', '.join(SAMPLERS)}")
        if sampler == "grid" and space.size > _GRID_LIMIT:
            raise SearchError(f"grid: the space has {space.size} points, at most {_GRID_LIMIT}; narrow it")
        self.space, self.evaluator, self.seed, self.sampler = space, evaluator, seed, sampler
        self.distributions = {
            name: optuna.distributions.CategoricalDistribution(values) for name, values in space.varied.items()
        }
        try:
            self.study = optuna.create_study(
                storage=storage, study_name=self._identity(), directions=["minimize"] * len(evaluator.objectives),
                load_if_exists=True,
            )  # fmt: skip
        except Exception as error:  # database drivers raise what they like
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SearchError(f"{storage}: the database cannot be used: {text}") from error

    def run(self, trials: int, progress: Progress | None = None) -> list[Point]:
        """Go on until ``trials`` have finished (all of a grid at most); returns every finished point."""
        if self.sampler == "grid":
            return self._run_grid(min(trials, self.space.size), progress)
        if not self.study.trials and (first := self._base_point()) is not None:
            self.study.enqueue_trial(first)
        best: float | None = None
        finished = {t.number for t in self.study.trials if t.state.is_finished()}
        for number in range(trials):
            if number in finished:
                continue
            trial = self._trial(number)
            params = {name: trial.suggest_categorical(name, d.choices) for name, d in self.distributions.items()}
            outcome = self.evaluator(self.space, params)
            self._tell(trial, outcome)
            if outcome.reason is None:
                value = outcome.values[self.evaluator.objectives[0]]
                best = value if best is None else min(best, value)
            self._report(progress, number + 1, trials, best)
        return self.points()

    def points(self) -> list[Point]:
        """Every finished trial, by number."""
        simulated = {int(k.removeprefix("simulated:")): v for k, v in self.study.user_attrs.items() if ":" in k}
        found = []
        for trial in self.study.trials:
            if trial.state.is_finished():
                a = trial.user_attrs
                found.append(
                    Point(trial.number, dict(trial.params), a.get("values", {}), a.get("reason"), a.get("cycles", {}),
                          simulated.get(trial.number))
                )  # fmt: skip
        return found

    def confirm_front(self, most: int, progress: Progress | None = None) -> list[Point]:
        """Run points of the front on the cycle simulator, fastest first, until ``most`` have been; returns it then.

        Points that the compiler cannot place leave the front, with the reason kept.
        """
        names = self.evaluator.objectives
        done = sum(p.simulated is not None for p in self.points())  # by earlier runs
        while done < most:
            waiting = [p for p in front(self.points(), names) if p.simulated is None]
            if not waiting:
                break
            point = min(waiting, key=lambda p: (p.values[names[0]], p.number))
            if progress is not None:
                progress("simulating the front", done, done + len(waiting))
            outcome = self.evaluator.confirm(self.config(point))
            self.study.set_user_attr(
                f"simulated:{point.number}",
                {"cycles": outcome.cycles, "values": outcome.values, "reason": outcome.reason},
            )
            done += 1
        return front(self.points(), names)

    def config(self, point: Point) -> Config:
        """The Config of a finished point."""
        return self.space.config(point.params)

    # -- trials ----------------------------------------------------------------------------------------

    def _trial(self, number: int) -> optuna.Trial:
        optuna = import_optuna()
        self.study.sampler = self._sampler(number)
        trials = self.study.trials
        if number < len(trials) and trials[number].state == optuna.trial.TrialState.RUNNING:
            return optuna.Trial(self.study, trials[number]._trial_id)  # left by a process that was killed
        trial = self.study.ask()
        if trial.number != number:
            raise SearchError(f"trial {trial.number} appeared where {number} was due: another process uses this sweep")
        return trial

    def _sampler(self, number: int) -> Any:
        optuna = import_optuna()
        digest = hashlib.sha256(f"{self.seed}:{number}".encode()).digest()
        seed = int.from_bytes(digest[:4], "little")
        if self.sampler == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        if self.sampler == "tpe":
            return optuna.samplers.TPESampler(seed=seed)
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=32)

    def _tell(self, trial: optuna.Trial, outcome: Outcome) -> None:
        optuna = import_optuna()
        for name, value in _attributes(outcome).items():
            trial.set_user_attr(name, value)
        trial.set_constraint("board", outcome.excess)
        if outcome.values:
            self.study.tell(trial, [outcome.values[name] for name in self.evaluator.objectives])
        else:
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)

    def _run_grid(self, trials: int, progress: Progress | None) -> list[Point]:
        optuna = import_optuna()
        done = len(self.study.trials)
        for number, params in enumerate(self.space.points()):
            if number < done or number >= trials:
                continue
            outcome = self.evaluator(self.space, params)
            state = optuna.trial.TrialState.COMPLETE if outcome.values else optuna.trial.TrialState.FAIL
            self.study.add_trial(
                optuna.trial.create_trial(
                    state=state, values=list(outcome.values.values()) or None, params=params,
                    distributions=self.distributions, user_attrs=_attributes(outcome),
                )
            )  # fmt: skip
            self._report(progress, number + 1, trials, None)
        return self.points()

    def _report(self, progress: Progress | None, done: int, total: int, best: float | None) -> None:
        if progress is not None:
            name = self.evaluator.objectives[0]
            progress("exploring" if best is None else f"exploring, best {name} {best:,.1f}", done, total)

    def _base_point(self) -> dict[str, Value] | None:
        """The base Config as a point, so that every sweep holds what it is compared with; None if outside."""
        values = self.space.base.to_dict()
        point = {name: values[name] for name in self.space.varied}
        return point if all(point[n] in choices for n, choices in self.space.varied.items()) else None

    def _identity(self) -> str:
        """Name of the study: equal for equal sweeps, other for others, so that one database can hold many."""
        networks = [
            (n.name, n.weight, hashlib.sha256(repr(n.shape).encode()).hexdigest()) for n in self.evaluator.networks
        ]
        text = json.dumps(
            [self.space.to_dict(), networks, self.evaluator.board, self.evaluator.objectives, self.seed, self.sampler]
        )
        return "explore-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def front(points: Iterable[Point], objectives: tuple[str, ...]) -> list[Point]:
    """Feasible points that no other beats in every objective; of equal ones the first. Sorted by the objectives."""
    best: dict[tuple[float, ...], Point] = {}
    for point in points:
        if point.feasible:
            best.setdefault(tuple(point.best_values[name] for name in objectives), point)
    kept: list[tuple[float, ...]] = []
    for values in sorted(best):
        if not any(all(a <= b for a, b in zip(other, values, strict=True)) for other in kept):
            kept.append(values)
    return [best[values] for values in kept]


def import_optuna() -> Any:
    """Optuna, quiet. Raises :class:`SearchError` where the ``explore`` extra is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise SearchError(
            "exploring needs Optuna, which is not installed: pip install 'tilewright[explore]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _attributes(outcome: Outcome) -> dict[str, Any]:
    given = {
        "values": outcome.values, "cycles": outcome.cycles, "reason": outcome.reason, "excess": outcome.excess,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value not in (None, {}, 0.0)}
