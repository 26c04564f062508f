"""The driver's side of a Dask cluster: chunks out, outcomes in, and what dies on the way tried again."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import pickle
import queue
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dse.evaluation import Task, version
from tilewright.dse.pool import ATTEMPTS, Params, Result, WorkerError, failed
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.interrupts import unheard

_CONNECT_SECONDS = 30
_WORKER_SECONDS = 180  #: a worker imports all of the compiler, which takes a minute where others keep the machine busy
#: Dask's own 15 s are over before a worker that has died is back there: its place is gone then, and what has come after
#: all is ended in the middle of its work
_REPLACED = {"distributed.deploy.lost-worker-timeout": f"{_WORKER_SECONDS} s"}
_ANNOUNCEMENTS, _ANNOUNCE_SECONDS = 20, 0.5  #: how often a task is announced while workers die, and how long between
_LOOK_SECONDS = 5.0  #: how often to look whether there still is a cluster while nothing arrives
_LONELY_LOOKS = _WORKER_SECONDS // 5  #: looks that find no worker before giving up


_clusters: set[int] = set()  #: local ones that are there
_script: dict[str, Any] = {}  #: what their workers would find the script of this process by


def _hide_script(cluster: int) -> None:
    """A process that is spawned runs the script that asked for it once more, down to the call that is not behind
    ``if __name__ == "__main__":`` and asks again. Workers need nothing of it: while there are some it has no file."""
    main = vars(sys.modules["__main__"])
    if not _clusters:
        _script.update((name, main[name]) for name in ("__file__", "__spec__") if name in main)
        main.update(dict.fromkeys(_script))
    _clusters.add(cluster)


def _show_script(cluster: int) -> None:
    """The last cluster is gone."""
    if cluster in _clusters:
        _clusters.remove(cluster)
        if not _clusters:
            vars(sys.modules["__main__"]).update(_script)
            _script.clear()


@dataclass
class _Chunk:
    indices: list[int]
    attempts: int = 1


class Cluster:
    """A Dask cluster: ``count`` processes of this machine, or whatever is behind ``scheduler``.

    Raises :class:`WorkerError` if it cannot be had, or goes away.
    """

    def __init__(self, count: int, scheduler: str | None = None) -> None:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise WorkerError(
                "workers need Dask, which is not installed: pip install 'tilewright[explore]', or --workers 0"
            ) from error
        self.scheduler = scheduler
        # A cluster that others run has its own idea of how often a task may end a worker (allowed-failures).
        self.attempts = 1 if scheduler else ATTEMPTS
        self.seconds_per_point: float | None = None
        self._tasks: dict[int, tuple[Task, str]] = {}
        self.names = (f"tilewright-{number}" for number in itertools.count())
        self._local = None
        self._settings = contextlib.ExitStack()
        if scheduler is None:
            _hide_script(id(self))
            self._settings.enter_context(dask.config.set(_REPLACED))
            try:
                # One task at a worker, the others wait at the scheduler: a worker that dies takes one chunk along.
                with unheard(spawned=True), dask.config.set({"distributed.scheduler.worker-saturation": 1.0}):
                    self._local = LocalCluster(
                        n_workers=count, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL, scheduler_kwargs={"allowed_failures": 0},
                    )  # fmt: skip
            except BaseException:
                self._settings.close()
                _show_script(id(self))
                raise
        try:
            self.client = Client(self._local or scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise WorkerError(f"{scheduler}: no Dask scheduler answers: {error}") from error
        try:
            self.client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            self.close()
            raise WorkerError(f"{scheduler or 'this machine'}: no worker in {_WORKER_SECONDS} seconds") from error

    def workers(self) -> int:
        """Threads of workers that are there now."""
        return sum(self.client.nthreads().values())

    def close(self) -> None:
        """Take the sweeps' tasks from the workers; end those that were started here."""
        if self.scheduler is not None and self.client.status == "running":
            for name in {name for _, name in self._tasks.values()}:
                self.client.unregister_worker_plugin(name)
        self.client.close()
        if self._local is not None:
            self._local.close()
        self._settings.close()
        _show_script(id(self))

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], chunk: int) -> Iterator[list[Result]]:
        """Outcomes as they arrive, ``chunk`` points to a message.

        A chunk that ends its worker is tried point by point, a point ``attempts`` times; then it counts as failed.
        """
        run = _Run(self, task, fidelity, points)
        run.send([_Chunk(list(range(i, min(i + chunk, len(points))))) for i in range(0, len(points), chunk)])
        try:
            while run.waiting:
                if ready := [result for future in self._arrived(run.ready) for result in run.results(future)]:
                    yield ready
        finally:
            if run.waiting:
                self.client.cancel(list(run.waiting))

    @property
    def where(self) -> str:
        """What error messages call it."""
        return self.scheduler or "local workers"

    def register(self, task: Task) -> str:
        """Bring the task to the workers, once; returns its name there."""
        from tilewright.dse.on_worker import TaskPlugin

        if id(task) not in self._tasks:
            pickled = pickle.dumps(task, protocol=5)
            # Named by client too: a driver that leaves takes its own task along, not another's.
            name = f"tilewright-{hashlib.sha256(pickled).hexdigest()[:16]}-{self.client.id}"
            try:
                self._announce(TaskPlugin(name, pickled))
            except ImportError as error:
                raise WorkerError(f"{self.where}: {error}; workers need what the driver has installed") from error
            self._tasks[id(task)] = task, name  # the task is held, so that its id stays its own
        return self._tasks[id(task)][1]

    def _announce(self, plugin: Any) -> None:
        """Give a plugin to the scheduler, and by it to the workers there are. One that dies meanwhile needs it not,
        and its successor gets it as it starts."""
        for left in reversed(range(_ANNOUNCEMENTS)):
            try:
                self.client.register_plugin(plugin)
                return
            except OSError as error:
                if not left:
                    raise WorkerError(
                        f"{self.where}: no worker answers: {error}; the same command continues"
                    ) from error
                time.sleep(_ANNOUNCE_SECONDS)

    def timed(self, seconds: float) -> None:
        """Take in how long a point took."""
        before = self.seconds_per_point
        self.seconds_per_point = seconds if before is None else 0.8 * before + 0.2 * seconds

    def _arrived(self, ready: queue.SimpleQueue[Any]) -> list[Any]:
        """Futures that are done, one at least."""
        lonely = 0
        while True:
            try:
                arrived = [ready.get(timeout=_LOOK_SECONDS)]
            except queue.Empty:
                if self.client.status != "running":
                    raise WorkerError(f"{self.where}: the scheduler is gone; the same command continues") from None
                lonely = 0 if self.client.nthreads() else lonely + 1
                if lonely >= _LONELY_LOOKS:
                    raise WorkerError(f"{self.where}: no worker is left; the same command continues") from None
            else:
                while not ready.empty():
                    arrived.append(ready.get())
                return arrived


class _Run:
    """Points on their way to workers and back."""

    def __init__(self, cluster: Cluster, task: Task, fidelity: str, points: Sequence[Params]) -> None:
        self.cluster, self.fidelity, self.points = cluster, fidelity, points
        self.task = cluster.register(task)
        self.waiting: dict[Any, _Chunk] = {}
        self.ready: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def send(self, chunks: list[_Chunk]) -> None:
        """Hand chunks to the scheduler."""
        from tilewright.dse.on_worker import evaluate_chunk

        futures = self.cluster.client.map(
            evaluate_chunk, [pickle.dumps([self.points[i] for i in c.indices], protocol=5) for c in chunks],
            key=[next(self.cluster.names) for _ in chunks], name=self.task, fidelity=self.fidelity,
            expected=version(), pure=False, retries=0,
        )  # fmt: skip
        for future, sent in zip(futures, chunks, strict=True):
            self.waiting[future] = sent
            future.add_done_callback(self.ready.put)

    def results(self, future: Any) -> list[Result]:
        """What came of a chunk: outcomes, or nothing yet because it has been sent again."""
        from tilewright.dse.on_worker import OtherVersionError

        sent, where = self.waiting.pop(future), self.cluster.where
        if future.status == "finished":
            seconds, outcomes = pickle.loads(future.result())
            self.cluster.timed(seconds / len(outcomes))
            return list(zip(sent.indices, outcomes, strict=True))
        error = None if future.cancelled() else future.exception()
        if isinstance(error, OtherVersionError):
            raise WorkerError(f"{where}: {error}; install the same version on both sides")
        if isinstance(error, ImportError):
            raise WorkerError(f"{where}: {error}; workers need what the driver has installed")
        if isinstance(error, ToolError):
            raise error
        if len(sent.indices) > 1:
            self.send([_Chunk([index]) for index in sent.indices])
        elif sent.attempts < self.cluster.attempts:
            self.send([_Chunk(sent.indices, sent.attempts + 1)])
        else:
            return [(sent.indices[0], {"reason": failed(sent.attempts, _why(error))})]
        return []


def _why(error: BaseException | None) -> str:
    from distributed.scheduler import KilledWorker

    if error is None or isinstance(error, KilledWorker):
        return "its process ended (out of memory, or killed)"
    if isinstance(error, MemoryError):
        return "it ran out of memory"
    return f"{type(error).__name__}: {error}"
