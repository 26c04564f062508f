"""A campaign against the readers: processes that may die or hang, counts, and the files that were not survived."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.readers.child import FAILED, HANG_SECONDS
from tilewright.files import make_directory
from tilewright.interrupts import unheard
from tilewright.progress import Progress, silent

SILENCE_SECONDS = 3000.0  #: without an answer: a case that waits for ever; one that computes for ever ends by itself


@dataclass
class Result:
    """What became of the cases of one format: counts by outcome, refusals by error, failures by seed."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    next_seed: int = 0

    @property
    def cases(self) -> int:
        """How many there were."""
        return sum(self.outcomes.values())

    def add(self, seed: int, outcome: str, message: str) -> None:
        """Count one."""
        self.outcomes[outcome] += 1
        self.next_seed = seed + 1
        if outcome == FAILED:
            self.failures[seed] = message
        elif message:
            self.errors[message] += 1


def attack(name: str, first: int, cpu_seconds: float, folder: Path, progress: Progress = silent) -> Result:
    """Damaged files of a format until its processes have had ``cpu_seconds``; failing files stay in ``folder``."""
    make_directory(folder)
    result = Result(name, next_seed=first)
    spent = 0.0
    while spent < cpu_seconds:
        spent += _process(result, cpu_seconds - spent, folder, progress)
    return result


def command(*arguments: str) -> list[str]:
    """What starts a process."""
    return [sys.executable, "-m", "tests.fuzz.readers.child", *arguments]


def _process(result: Result, seconds: float, folder: Path, progress: Progress) -> float:
    """One process to its end; about how much time it has had."""
    asked = command(result.name, str(result.next_seed), str(seconds), str(folder))
    begin, open_case, due = time.monotonic(), -1, time.monotonic() + SILENCE_SECONDS
    hung, rest = False, b""
    with unheard():
        started = subprocess.Popen(asked, stdout=subprocess.PIPE, bufsize=0)
    with started as process:
        assert process.stdout is not None
        try:
            while not hung:
                hung = not select.select([process.stdout], [], [], max(0.0, due - time.monotonic()))[0]
                if hung:
                    process.kill()
                    break
                received = os.read(process.stdout.fileno(), 1 << 16)
                if not received:
                    break
                due = time.monotonic() + SILENCE_SECONDS
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    seed, _, said = line.decode(errors="replace").partition(" ")
                    outcome, _, message = said.partition(" ")
                    open_case = -1 if outcome else int(seed)
                    if outcome:
                        result.add(int(seed), outcome, message)
                        failed = len(result.failures)
                        progress(f"{result.name}: {result.cases:,} files, {failed} failed", result.cases, 0)
        except BaseException:
            process.kill()
            raise
        code = process.wait()
    if open_case >= 0:
        result.add(open_case, FAILED, _end(code, hung))
    elif code:
        result.add(result.next_seed, FAILED, f"the process ended between cases: {code}")
    return min(seconds, time.monotonic() - begin) if code else seconds


def _end(code: int, hung: bool) -> str:
    """Why a process ended in the middle of a case."""
    if hung:
        return f"no answer in {SILENCE_SECONDS:g} s"
    if code == -signal.SIGPROF:
        return f"no answer in {HANG_SECONDS:g} s of processor time"
    return f"the process ended: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
