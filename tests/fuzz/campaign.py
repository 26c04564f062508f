"""Many seeds, each in a worker process that may die or hang; results go to a file from which a run resumes."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import REFERENCE_REFUSED, REFUSED, TRACEBACK
from tests.fuzz.seeds import seed_config
from tests.fuzz.shrink import Shrunk, shrink, write_shrunk
from tests.fuzz.workers import Pool, Result, Task, Worker
from tilewright.files import FileError, read_bytes

RESULTS = "results.jsonl"


@dataclass
class Summary:
    """Counts over results: by outcome, and by kind of operator and outcome."""

    outcomes: Counter[str] = field(default_factory=Counter)
    operators: dict[str, Counter[str]] = field(default_factory=dict)
    failures: dict[str, list[int]] = field(default_factory=dict)
    macs: int = 0  #: on the accelerator, of networks that ran
    network_macs: int = 0  #: all of them
    on_host: int = 0  #: networks with operators on the CPU
    seconds: float = 0.0

    def add(self, result: Result) -> None:
        """Count one result."""
        kind = result.outcome.kind
        self.outcomes[kind] += 1
        self.seconds += result.outcome.seconds
        for name in result.operators:
            self.operators.setdefault(name, Counter())[kind] += 1
        if result.outcome.failed:
            self.failures.setdefault(result.failure, []).append(result.task.seed)
        if kind not in (REFUSED, TRACEBACK, REFERENCE_REFUSED):
            self.macs += result.outcome.macs
            self.network_macs += result.network_macs
            self.on_host += bool(result.outcome.host_operators)

    @property
    def failed(self) -> int:
        """Number of failures."""
        return sum(len(seeds) for seeds in self.failures.values())


def finished(folder: Path) -> dict[str, Result]:
    """Results that the folder holds, by task. A line that was cut short is dropped; raises FileError for others that
    are no results."""
    path = folder / RESULTS
    found: dict[str, Result] = {}
    if path.exists():
        for number, line in enumerate(read_bytes(path).splitlines(), 1):
            with contextlib.suppress(json.JSONDecodeError):  # the run was killed while it wrote this line
                values = json.loads(line)
                try:
                    result = Result.from_dict(values)
                except (KeyError, TypeError, AttributeError) as error:
                    raise FileError(f"{path}: line {number} is no result of tests.fuzz; give another folder") from error
                found[result.task.key] = result
    return found


def run_campaign(tasks: Iterable[Task], folder: Path, jobs: int = 1, shrink_seconds: float = 0.0) -> Iterator[Result]:
    """Run the tasks that the folder has no results of, in ``jobs`` processes; gives each result as it comes.

    With ``shrink_seconds``, the first failure of each class is shrunk into ``folder/minimal``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = finished(folder)
    waiting = [task for task in tasks if task.key not in known]
    shrunk = {(result.task.frontend, result.failure) for result in known.values()}
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((folder / RESULTS).open("a"))
        if file.tell() and not (folder / RESULTS).read_bytes().endswith(b"\n"):
            file.write("\n")  # after a line that was cut short
        pool = Pool(min(jobs, max(1, len(waiting))))
        stack.callback(pool.close)
        for result in pool.map_tasks(waiting):
            file.write(json.dumps(result.to_dict()) + "\n")
            file.flush()
            failure = (result.task.frontend, result.failure)
            if shrink_seconds and result.outcome.failed and failure not in shrunk:
                shrunk.add(failure)
                shrink_result(result, folder / "minimal", shrink_seconds)
            yield result


def shrink_result(result: Result, folder: Path, seconds: float) -> Shrunk:
    """Shrink the network of a failed result and write it; the candidates run in a process of their own."""
    assert result.recipe is not None
    task = result.task
    config = seed_config(task.config, task.frontend, task.seed)
    worker = Worker()
    try:
        found = shrink(result.recipe, config, result.outcome, seconds, worker.check)
    finally:
        worker.close()
    write_shrunk(found, folder, f"{task.frontend}-{task.seed}")
    return found
