"""Processes that check cases: one may die or hang without ending the campaign."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.fuzz.cases import REFERENCE_REFUSED, TRACEBACK, Outcome
from tests.fuzz.recipe import Assembly, Recipe
from tests.fuzz.seeds import SeedError, check_recipe, check_seed, seed_config
from tests.fuzz.shrink import failure_class
from tests.fuzz.tensors import BuildError
from tilewright.config import Config
from tilewright.interrupts import unheard
from tilewright.jit.defects import DEFECTS

CASE_SECONDS = 300.0  #: a case that takes longer is ended and counts as a traceback


@dataclass(frozen=True)
class Task:
    """One seed of a campaign."""

    frontend: str
    seed: int
    config: str
    size: str = "full"

    @property
    def key(self) -> str:
        """What identifies it among all tasks."""
        return f"{self.frontend}:{self.seed}:{self.config}:{self.size}"


@dataclass(frozen=True)
class Result:
    """What became of a task."""

    task: Task
    outcome: Outcome
    operators: dict[str, int]  #: steps of the network by kind
    network_macs: int
    config: str
    failure: str = ""  #: the class of a failure
    recipe: Recipe | None = None  #: what was drawn; results read from a file have none

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a line of the results file has them."""
        return {
            "key": self.task.key,
            "frontend": self.task.frontend,
            "seed": self.task.seed,
            "config_asked": self.task.config,
            "size": self.task.size,
            "config": self.config,
            "operators": self.operators,
            "network_macs": self.network_macs,
            "failure": self.failure,
            **self.outcome.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """The result of a line."""
        task = Task(values["frontend"], values["seed"], values["config_asked"], values["size"])
        names = ("kind", "message", "where", "macs", "host_operators", "seconds")
        outcome = Outcome(**{name: values[name] for name in names})
        operators = values["operators"]
        return cls(task, outcome, operators, values["network_macs"], values["config"], values["failure"])


class Worker:
    """A process that checks cases one after another, and is started anew when it dies or takes too long."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.recipe: Recipe | None = None
        self.since = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, inner = context.Pipe()
        self.process = context.Process(target=_serve, args=(inner,), daemon=True)
        with unheard(spawned=True):
            self.process.start()
        inner.close()

    def send(self, task: Task) -> None:
        """Begin a task."""
        self.task, self.recipe, self.since = task, None, time.monotonic()
        self.connection.send(task)

    def receive(self) -> Result | None:
        """The result of the task; None if the process is still at it. A process that ended is replaced."""
        assert self.task is not None
        message = ""
        try:
            while self.connection.poll():
                found = self.connection.recv()
                if isinstance(found, Result):
                    self.task = None
                    return found
                self.recipe = found  # drawn, and the reference has run it
        except (EOFError, ConnectionError):
            message = self._restart()
        if not message and time.monotonic() - self.since > CASE_SECONDS:
            self.process.kill()
            self._restart()
            message = f"no answer within {CASE_SECONDS:g} s"
        return self._lost(message) if message else None

    def run(self, task: Task) -> Result:
        """A task from beginning to end."""
        self.send(task)
        while True:
            wait([self.connection], timeout=1.0)
            result = self.receive()
            if result is not None:
                return result

    def check(self, recipe: Recipe, config: Config) -> Outcome:
        """Check a recipe in the process. Raises BuildError where its steps do not fit."""
        self.connection.send((recipe, config))
        try:
            if self.connection.poll(CASE_SECONDS):
                answer = self.connection.recv()
                if isinstance(answer, str):
                    raise BuildError(answer)
                assert isinstance(answer, Outcome)
                return answer
        except (EOFError, ConnectionError):
            return Outcome(TRACEBACK, self._restart())
        self.process.kill()
        self._restart()
        return Outcome(TRACEBACK, f"no answer within {CASE_SECONDS:g} s")

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.kill()
        self.process.join()

    def _restart(self) -> str:
        self.process.join()
        code = self.process.exitcode
        self.connection.close()
        self._start()
        return f"the process ended with code {code}"

    def _lost(self, message: str) -> Result:
        """The result of a task whose process ended; before a network was drawn it was the reference's doing."""
        task, recipe = self.task, self.recipe
        assert task is not None
        self.task = self.recipe = None
        config = seed_config(task.config, task.frontend, task.seed).name
        if recipe is None:
            return Result(task, Outcome(REFERENCE_REFUSED, message), {}, 0, config)
        outcome = Outcome(TRACEBACK, message, seconds=round(time.monotonic() - self.since, 3))
        return Result(task, outcome, dict(recipe.kinds()), 0, config, failure_class(outcome), recipe)


class Pool:
    """Some workers."""

    def __init__(self, jobs: int) -> None:
        self.workers = [Worker() for _ in range(jobs)]

    def map_tasks(self, tasks: list[Task]) -> Iterator[Result]:
        """The results of tasks, as they come."""
        left = list(reversed(tasks))
        while left or any(w.task is not None for w in self.workers):
            for worker in self.workers:
                if worker.task is None and left:
                    worker.send(left.pop())
            busy = [w for w in self.workers if w.task is not None]
            wait([w.connection for w in busy], timeout=1.0)
            for worker in busy:
                result = worker.receive()
                if result is not None:
                    yield result

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.close()


def _serve(connection: Connection) -> None:
    """The life of a worker process: a task or a recipe comes in, what became of it goes out."""
    os.environ[DEFECTS] = "raise"  # whatever the compiler does with them for users
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the importers and interpreters print what they do not like
    with tempfile.TemporaryDirectory(prefix="tilewright-") as scratch:
        while True:
            try:
                asked = connection.recv()
            except EOFError:
                return
            if isinstance(asked, Task):
                connection.send(_check_task(asked, scratch, connection))
                continue
            recipe, config = asked
            try:
                connection.send(check_recipe(recipe, config, scratch))
            except BuildError as error:
                connection.send(str(error))


def _check_task(task: Task, scratch: str | Path, connection: Connection) -> Result:
    try:
        recipe, config, outcome = check_seed(task.frontend, task.seed, task.config, task.size, scratch, connection.send)
    except SeedError as error:
        return Result(task, Outcome(REFERENCE_REFUSED, str(error)), {}, 0, "")
    assembly = Assembly(recipe.frontend, recipe.seed, recipe.options)
    for step in recipe.steps:
        assembly.apply(step)
    failure = failure_class(outcome) if outcome.failed else ""
    return Result(task, outcome, dict(recipe.kinds()), int(assembly.net.macs), config.name, failure, recipe)
