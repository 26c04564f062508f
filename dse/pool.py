"""What evaluates points, and the pool of one: this process. Others are in :mod:`tilewright.dse.workers`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tilewright.dse.evaluation import ANALYTICAL, Task
from tilewright.dse.space import Value
from tilewright.errors import TilewrightError

Params = dict[str, Value]
#: (index of the point, its outcome)
Result = tuple[int, dict[str, Any]]

ATTEMPTS = 3  #: how often an evaluation may end its process before it counts as failed


class WorkerError(TilewrightError):
    """Workers cannot be started or reached, or do not run this version of the project."""


class Pool(Protocol):
    """Evaluates points."""

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], left: int = 0) -> Iterator[list[Result]]:
        """Every point's outcome, in any order. ``left``: points that will follow. Raises :class:`WorkerError`."""


class InProcess:
    """One point after the other, here. ``seconds`` holds how long analytical evaluations took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], left: int = 0) -> Iterator[list[Result]]:
        """See :class:`Pool`."""
        for index, point in enumerate(points):
            started = time.perf_counter()
            outcome = _patiently(task, fidelity, point)
            if fidelity == ANALYTICAL:
                self.seconds.append(time.perf_counter() - started)
            yield [(index, outcome)]


def _patiently(task: Task, fidelity: str, point: Params) -> dict[str, Any]:
    for _ in range(ATTEMPTS):
        try:
            return task(fidelity, point)
        except MemoryError:
            continue
    return {"reason": failed(ATTEMPTS, "it ran out of memory")}


def failed(attempts: int, why: str) -> str:
    """The reason that is kept of a point that could not be evaluated."""
    return f"the evaluation failed {attempts} times: {why}"
