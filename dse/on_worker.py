"""What runs on a Dask worker: it keeps the tasks of sweeps that it was given once, and evaluates chunks of points."""

from __future__ import annotations

import pickle
import time

from distributed import Worker, WorkerPlugin

from tilewright.dse.evaluation import Task, version

#: a task's name -> the task, pickled until it is first used
_TASKS: dict[str, Task | bytes] = {}


class OtherVersionError(RuntimeError):
    """The worker's source is not the driver's: outcomes could differ."""


class TaskPlugin(WorkerPlugin):
    """Brings a task to every worker, to those that join or restart later too."""

    def __init__(self, name: str, pickled: bytes) -> None:
        self.name, self.idempotent, self.pickled = name, True, pickled

    def setup(self, worker: Worker) -> None:
        """Called by the worker when it gets the plugin."""
        _TASKS[self.name] = self.pickled

    def teardown(self, worker: Worker) -> None:
        """Called by the worker when the plugin is taken away, or the worker closes."""
        _TASKS.pop(self.name, None)


def evaluate_chunk(chunk: bytes, name: str, fidelity: str, expected: str) -> bytes:
    """Seconds and outcomes of points, pickled as the points are: Dask looks into everything else for tasks.

    Raises :class:`OtherVersionError`, LookupError without the task,
    MemoryError."""
    if version() != expected:
        raise OtherVersionError(f"the worker runs version {version()}, the driver {expected}")
    task = _TASKS[name]
    if isinstance(task, bytes):
        task = _TASKS[name] = pickle.loads(task)
    started = time.perf_counter()
    outcomes = [task(fidelity, point) for point in pickle.loads(chunk)]
    return pickle.dumps((time.perf_counter() - started, outcomes), protocol=5)
