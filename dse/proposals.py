"""What to try next: Optuna's samplers, asked for whole batches that depend on the seed and earlier batches alone.

All points of a batch are proposed before the outcome of any is known. So it does not matter in which order, by how
many workers or in how many runs they are evaluated. Samplers see what they need of the past, not all of it: NSGA-II
its elite, TPE the elite and the newest trials. A proposal therefore costs the same at trial 100 and 100,000.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dse.options import PREFIX
from tilewright.dse.space import Space, Value
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("nsga2", "tpe", "random", "grid")
BATCH = 32  #: trials proposed at a time
_GRID_LIMIT = 200_000
_POPULATION = (32, 128)  #: NSGA-II's: the batch within these
_TPE_ELITE, _TPE_NEWEST = 256, 256
_DRAWS = 8  #: draws for each point of a batch, at most


class SearchError(TilewrightError):
    """A sweep cannot be started or continued as asked."""


@dataclass(frozen=True)
class Seen:
    """A trial that has finished: ``values`` in the order of the objectives, None where there are none."""

    number: int
    params: Mapping[str, Value]
    values: Sequence[float] | None
    excess: float  #: share by which a board limit is passed


class Proposals:
    """Points to try, a batch at a time. ``directions``: "minimize" or "maximize" for each objective.

    ``fits``: whether a point can be built, as far as that costs nothing to know. Points that do not are drawn anew, so
    that none is a trial, as long as others are found; a grid has them all.
    """

    def __init__(
        self, space: Space, directions: Sequence[str], sampler: str, seed: int, batch: int = BATCH,
        fits: Callable[[Mapping[str, Value]], bool] = lambda point: True,
    ) -> None:  # fmt: skip
        optuna = import_optuna()
        check_sampler(space, sampler, batch)
        self.space, self.directions, self.sampler, self.seed, self.batch = space, list(directions), sampler, seed, batch
        self._fits = fits
        self._distributions = {
            name: optuna.distributions.CategoricalDistribution(values) for name, values in space.varied.items()
        }
        least, most = _POPULATION
        self._population = min(max(least, batch), most) if sampler == "nsga2" else _TPE_ELITE
        self._elite: list[Seen] = []
        self._newest: deque[Seen] = deque(maxlen=_TPE_NEWEST if sampler == "tpe" else 0)

    @property
    def independent(self) -> bool:
        """Whether proposals do not depend on outcomes, so that batches need not wait for each other."""
        return self.sampler in ("random", "grid")

    @property
    def most(self) -> int | None:
        """How many there are in all; None: without end."""
        return self.space.size if self.sampler == "grid" else None

    def propose(self, first: int) -> list[dict[str, Value]]:
        """The batch that begins with trial number ``first``; all batches before it must have been learned."""
        if self.sampler == "grid":
            return [self._grid_point(n) for n in range(first, min(first + self.batch, self.space.size))]
        if self.sampler == "random":
            rng = random.Random(self._seed(first))
            points = self._fitting(lambda: self._random_point(rng))
        else:
            points = self._ask(first)
        base = self.base_point() if first == 0 else None
        return points if base is None else [base, *points[1:]]

    def _ask(self, first: int) -> list[dict[str, Value]]:
        study = self._study(sorted({t.number: t for t in (*self._elite, *self._newest)}.values(), key=_number))
        study.sampler = self._sampler(first)
        return self._fitting(lambda: dict(study.ask(self._distributions).params))

    def _fitting(self, draw: Callable[[], dict[str, Value]]) -> list[dict[str, Value]]:
        """A batch of points that can be built; filled up with others where too few of so many draws can."""
        found: list[dict[str, Value]] = []
        others: list[dict[str, Value]] = []
        for _ in range(_DRAWS * self.batch):
            point = draw()
            (found if self._fits(point) else others).append(point)
            if len(found) == self.batch:
                break
        return [*found, *others][: self.batch]

    def learn(self, trials: Sequence[Seen]) -> None:
        """Take in a whole batch, in the order of its numbers. Trials without values teach nothing."""
        if self.independent:
            return
        useful = [t for t in trials if t.values is not None]
        self._newest.extend(useful)
        pool = [*self._elite, *useful]
        if len(pool) > self._population:
            by_number = {t.number: t for t in pool}
            study = self._study(pool)
            kept = import_optuna().samplers.NSGAIISampler(population_size=self._population, seed=0)
            pool = [by_number[t.user_attrs["number"]] for t in kept.get_parent_population(study, 1)]
        self._elite = pool

    def _study(self, trials: Sequence[Seen]) -> optuna.Study:
        """A study in memory that holds these trials as one generation."""
        optuna = import_optuna()
        study = optuna.create_study(directions=self.directions)
        # No public way marks a trial's generation; without the mark NSGA-II takes it for another sampler's.
        mark = optuna.samplers.NSGAIISampler._get_generation_key()
        study.add_trials(
            optuna.trial.create_trial(
                values=[float(v) for v in t.values or ()], params=dict(t.params), distributions=self._distributions,
                system_attrs={mark: 0}, user_attrs={"number": t.number}, constraints={"board": t.excess},
            )
            for t in trials
        )  # fmt: skip
        return study

    def _sampler(self, first: int) -> Any:
        optuna = import_optuna()
        seed = self._seed(first)
        if self.sampler == "nsga2":
            return optuna.samplers.NSGAIISampler(seed=seed, population_size=self._population)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # the points of a batch that are not evaluated yet repel each other
            return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)

    def _seed(self, first: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed}:{first}".encode()).digest()[:4], "little")

    def _random_point(self, rng: random.Random) -> dict[str, Value]:
        return {name: rng.choice(values) for name, values in self.space.varied.items()}

    def _grid_point(self, number: int) -> dict[str, Value]:
        """Point ``number`` of :meth:`Space.points`, without counting up to it."""
        point = {}
        for name, values in reversed(self.space.varied.items()):
            number, place = divmod(number, len(values))
            point[name] = values[place]
        return {name: point[name] for name in self.space.varied}

    def base_point(self) -> dict[str, Value] | None:
        """The base Config as a point, so that every sweep holds what it is compared with; None if outside."""
        options = {PREFIX + name: value for name, value in dataclasses.asdict(self.space.options({})).items()}
        values = {**self.space.base.to_dict(), **options}
        point = {name: values[name] for name in self.space.varied}
        return point if all(point[n] in choices for n, choices in self.space.varied.items()) else None


def check_sampler(space: Space, sampler: str, batch: int = BATCH) -> None:
    """Raise :class:`SearchError` for a sampler that there is none of, or that cannot have this space or batch."""
    if sampler not in SAMPLERS:
        raise SearchError(f"{sampler}: no such sampler; the samplers are {', '.join(SAMPLERS)}")
    if sampler == "grid" and space.size > _GRID_LIMIT:
        raise SearchError(f"grid: the space has {space.size} points, at most {_GRID_LIMIT}; narrow it")
    if batch < 1:
        raise SearchError(f"batch {batch}: must be 1 or more")


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


def _number(trial: Seen) -> int:
    return trial.number
