"""Where points are evaluated: in this process, in worker processes of this machine, or on any Dask cluster.

A pool yields outcomes as they become ready, those that are ready together in one list; what a sweep makes of them
does not depend on the order.
Dask's start takes about a second and a task about two milliseconds, an analytical evaluation often less. So points
travel in chunks, and a sweep that would be over before workers are up never starts them (docs/explorer.md). Samplers
that learn nothing go several batches at a time. On a cluster that others run, a driver that dies leaves the sweep's
task (kilobytes to megabytes of networks) until the scheduler ends.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright.dse.evaluation import ANALYTICAL, Task
from tilewright.dse.pool import InProcess, Params, Result, WorkerError

if TYPE_CHECKING:
    from tilewright.dse.cluster import Cluster

START_SECONDS = 3.0  #: what starting local workers costs, compiled kernels loaded by each included
CHUNK_SECONDS = 0.05  #: work worth a message: about 25 times what a task costs
MESSAGE_SECONDS = 0.005  #: work below which a message is not worth sending, however many workers are idle
_CHUNKS_PER_WORKER = 4  #: at least so many, so that workers finish together
_LEAST_TIMED = 3  #: evaluations to time before deciding


class Workers:
    """Processes of this machine, or of the cluster at ``scheduler``; a context manager.

    Local ones start when the work left is worth it, at the latest for the first simulation: a process of its own is
    what an evaluation can take down without taking the sweep along. ``count`` 0: everything in this process.
    """

    def __init__(self, count: int, scheduler: str | None = None) -> None:
        self.count, self.scheduler = count, scheduler
        self._here = InProcess()
        self._cluster: Cluster | None = None

    def __enter__(self) -> Workers:
        if self.scheduler is not None:
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], left: int = 0) -> Iterator[list[Result]]:
        """See :class:`Pool`."""
        done, inside = 0, self.count == 0 and self.scheduler is None
        if self._cluster is None and (fidelity == ANALYTICAL or inside):
            for ready in self._here.evaluate(task, fidelity, points, left):
                yield ready
                done += len(ready)
                if self._pays(len(points) - done + left):
                    break
        if done < len(points):
            cluster = self._start()
            chunk = self._chunk(len(points) - done, cluster.workers()) if fidelity == ANALYTICAL else 1
            for ready in cluster.evaluate(task, fidelity, points[done:], chunk):
                yield [(done + index, outcome) for index, outcome in ready]

    def _pays(self, left: int) -> bool:
        """Whether workers would save more time on ``left`` points than they take to start."""
        seconds = self._here.seconds
        if self.count < 2 or len(seconds) < _LEAST_TIMED:
            return False
        saved = left * statistics.median(seconds) * (1 - 1 / self.count)
        return saved > START_SECONDS

    def _chunk(self, points: int, workers: int) -> int:
        cluster = self._start()
        each = cluster.seconds_per_point or (statistics.median(self._here.seconds) if self._here.seconds else None)
        return chunk_size(points, workers, each)

    def _start(self) -> Cluster:
        if self._cluster is None:
            from tilewright.dse.cluster import Cluster

            self._cluster = Cluster(self.count, self.scheduler)
        return self._cluster


def make_pool(workers: int | None = None, scheduler: str | None = None) -> Workers:
    """Workers by the numbers of a command line: None is one per core, 0 none (all in this process).

    ``scheduler`` is the address of a Dask scheduler, which then decides how many there are.
    """
    if scheduler is not None and workers is not None:
        raise WorkerError("--workers and --scheduler: give one of them; a scheduler has its own workers")
    if workers is not None and workers < 0:
        raise WorkerError(f"--workers {workers}: must be 0 or more")
    return Workers(workers if workers is not None else len(os.sched_getaffinity(0)), scheduler)


def chunk_size(points: int, workers: int, seconds: float | None) -> int:
    """Points to a message, if one takes ``seconds`` to evaluate (None: unknown)."""
    most, least = (math.ceil(work / seconds) if seconds else 1 for work in (CHUNK_SECONDS, MESSAGE_SECONDS))
    return max(least, min(most, points // (_CHUNKS_PER_WORKER * max(1, workers))))
