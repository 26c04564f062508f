"""A copy of the repository in which a source is changed and tested."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import REPOSITORY

HANG = 1800  #: time of a process, on a busy machine
LONGEST = 600  #: time of one test in a fork, where it is not known how long it takes
LEAST, TIMES = 60, 20  #: seconds, and times as long as it takes unchanged, after which a test in a fork has hung
MODELS = os.environ.get("TILEWRIGHT_MODELS", str(REPOSITORY.parent / "shared" / "models"))


def patience(usual: float | None) -> int:
    """Seconds after which a test that takes ``usual`` seconds unchanged (None: not known) has hung."""
    return LONGEST if usual is None else min(LONGEST, max(LEAST, int(TIMES * usual)))


#: pytest's exit code of a command line that it cannot follow
USAGE = 4


class UnknownTestsError(Exception):
    """Tests that are asked for are not there: what they notice says nothing of a change."""


class NotForkedError(Exception):
    """A fork cannot have the change: a new process can."""


@dataclass
class Warm:
    """A process that has collected all tests of some folders (:mod:`tests.campaigns.warm`)."""

    process: subprocess.Popen[bytes]
    requests: int
    answers: int
    limit: int
    usual: Mapping[str, float]
    names: list[str] = field(default_factory=list)

    @classmethod
    def start(
        cls, command: list[str], root: Path, environment: dict[str, str], limit: int, usual: Mapping[str, float]
    ) -> Warm:
        """Begin collecting; a source that is changed from here on must not be imported by it."""
        their_requests, requests = os.pipe()
        answers, their_answers = os.pipe()
        process = subprocess.Popen(
            [*command, "-p", "tests.campaigns.warm", f"--requests={their_requests}", f"--answers={their_answers}"],
            cwd=root, env=environment, pass_fds=(their_requests, their_answers), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(their_requests)
        os.close(their_answers)
        warm = cls(process, requests, answers, limit, usual)
        names = warm._answer()
        assert isinstance(names, list)
        warm.names = names
        return warm

    def of(self, test: str) -> list[str]:
        """The test of that name, or those that begin with what stands before a ``*``."""
        if test.endswith("*"):
            return [name for name in self.names if name.startswith(test[:-1])]
        return [test] if test in self.names else []

    def _answer(self) -> object:
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self.answers, 65536)
            if not read:
                raise RuntimeError("the process that has collected the tests has ended")
            line += read
        return json.loads(line)

    def run(self, file: Path, before: str, tests: list[str], enough: float) -> tuple[str, str] | None:
        """As :meth:`Copy.run`, in a fork; ``enough``: seconds of processor time after which no other test begins.

        Raises NotForkedError.
        """
        waits = [patience(self.usual.get(test)) for test in tests]
        asked = {"file": str(file), "before": before, "tests": tests, "seconds": self.limit, "enough": enough}
        asked["waits"] = waits
        os.write(self.requests, json.dumps(asked).encode() + b"\n")
        answer = self._answer()
        if answer is None:
            return None
        if isinstance(answer, str):
            raise NotForkedError(answer)
        assert isinstance(answer, list)
        return str(answer[0]), str(answer[1])

    def end(self) -> None:
        """No more requests."""
        os.close(self.requests)
        self.process.wait()
        os.close(self.answers)


@dataclass
class Copy:
    """A copy of the repository, changed and tested.

    ``kept``: folder of what tests cache; ``limit``: seconds of processor time of a test (of all that a new process
    runs), ``sound``: tests that failed, and
    whether they pass unchanged.
    """

    root: Path
    kept: Path
    limit: int
    warm: Warm | None = None
    sound: dict[str, bool] = field(default_factory=dict)

    def _command(self, interpreted: bool) -> tuple[list[str], dict[str, str]]:
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"TILEWRIGHT_CACHE": str(self.kept / "cache")}
        environment |= {"NUMBA_CACHE_DIR": str(self.kept / "numba"), "TILEWRIGHT_MODELS": MODELS}
        environment |= {"NUMBA_DISABLE_JIT": "1"} if interpreted else {}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
        return command + (["-p", "tests.campaigns.interpreted"] if interpreted else []), environment

    def alone(self) -> Copy:
        """The same, with a new process for each change, and time for what it compiles and all of its tests."""
        return replace(self, warm=None, sound={}, limit=20 * self.limit)

    def collect(self, folders: list[str], usual: Mapping[str, float], interpreted: bool = False) -> None:
        """From here on tests of these folders are tried in forks; ``usual``: seconds that they take unchanged."""
        command, environment = self._command(interpreted)
        self.warm = Warm.start([*command, *folders], self.root, environment, self.limit, usual)

    def end(self) -> None:
        """The process that has collected goes, before its folder does."""
        if self.warm is not None:
            self.warm.end()
            self.warm = None

    def run(self, tests: list[str], interpreted: bool = False) -> tuple[str, str] | None:
        """None if the tests pass; the one that failed, if one did, and what else became of the process, if it did not
        end as it should. Raises UnknownTestsError."""
        command, environment = self._command(interpreted)
        try:
            done = subprocess.run(
                [*command, *tests], cwd=self.root, env=environment, capture_output=True, text=True, timeout=HANG,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit)),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "", f"no end in {HANG} s"
        if done.returncode == 0:
            return None
        if done.returncode == USAGE and (missing := re.search(r"ERROR: not found: (.*)", done.stderr)):
            raise UnknownTestsError(missing[1])
        failed = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return (failed[1], "") if failed else ("", f"exit code {done.returncode}")

    def kill(
        self, path: Path, changed: str, tests: list[str], interpreted: bool = False, enough: float = 1e9
    ) -> str | None:
        """What notices a changed source; a test that fails without the change too is no witness, and left out.

        Raises NotForkedError if there is a process to fork and that cannot have the change.
        """
        text = path.read_text()
        if self.warm is not None:
            tests = list(dict.fromkeys(name for test in tests for name in self.warm.of(test)))
        tests = [test for test in tests if self.sound.get(test, True)]

        def tried(tests: list[str]) -> tuple[str, str] | None:
            return self.warm.run(path, text, tests, enough) if self.warm is not None else self.run(tests, interpreted)

        while tests:
            path.write_text(changed)
            try:
                found = tried(tests)
            finally:
                path.write_text(text)
            if found is None:
                return None
            by, how = found
            if not by:
                return how
            if by not in self.sound:
                self.sound[by] = tried([by]) is None
                if not self.sound[by]:
                    print(f"  {by}: does not pass unchanged, left out", flush=True)
                elif how:
                    continue  # once more: what it made and kept while it ran unchanged may be all that it lacked
            if self.sound[by]:
                return f"{how} of {by}" if how else by
            tests = [test for test in tests if test != by and self.sound.get(test, True)]
        return None
