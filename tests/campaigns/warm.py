"""A pytest plugin that tries changed sources in forks of one process, which has imported and collected all tests.

``python -m pytest -p tests.campaigns.warm --requests FD --answers FD ...`` writes the names of all tests, then reads a
JSON object a line, ``file`` (the source that was changed on disk), ``before`` (its text before), ``tests`` (names, in
order), ``seconds`` (of processor time, for one test), ``waits`` (seconds after which each has hung: one that sleeps
spends no processor time) and ``enough`` (after which no other begins), and answers with the test that failed first and,
if it ended the process, how; null if nothing did, a sentence if no fork can have that change. A fork costs nothing, a
new process its imports: seconds each. In the fork, functions that are alive get their changed code. What was computed
while collecting stays, and so does what Numba compiled and kept: whoever asks tries what lives in a new process.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ends of two pipes."""
    parser.addoption("--requests", type=int)
    parser.addoption("--answers", type=int)


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside of it, in order."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


class NotSwappedError(Exception):
    """Functions that are alive cannot have the changed code: it has other functions inside, or other free names."""


def swap(file: Path, before: str) -> int:
    """Give functions of a file that are alive the code that the file has now; how many have another.

    Raises NotSwappedError before any has it, if one of them cannot.
    """
    old, new = (list(codes(compile(text, str(file), "exec", dont_inherit=True))) for text in (before, file.read_text()))
    if [(code.co_qualname, code.co_freevars) for code in old] != [(code.co_qualname, code.co_freevars) for code in new]:
        raise NotSwappedError(f"{file.name}: the change is of the functions themselves")
    changed = [(o, n) for o, n in zip(old, new, strict=True) if o != n]
    swapped, real = 0, os.path.realpath(file)
    for function in [f for f in gc.get_objects() if isinstance(f, FunctionType)]:
        of = function.__code__
        for one, other in changed:
            if of == one and os.path.realpath(of.co_filename) == real:
                function.__code__, swapped = other, swapped + 1
    return swapped


def first_failure(items: list[pytest.Item], seconds: int, enough: float, waits: list[int], writing: int) -> str | None:
    """Run tests until one fails; one that takes too long ends the process. Each name is written as its test begins."""
    for item, following, wait in zip(items, [*items[1:], None], waits, strict=True):
        spent = time.process_time()
        if spent > enough:
            break
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + seconds, resource.RLIM_INFINITY))
        signal.alarm(wait)
        os.write(writing, json.dumps(item.nodeid).encode() + b"\n")
        for report in runtestprotocol(item, log=False, nextitem=following):
            if report.failed:
                return item.nodeid
    return None


def in_fork(
    items: list[pytest.Item], file: Path, before: str, seconds: int, enough: float, waits: list[int]
) -> tuple[str, str] | str | None:
    """What fails first in a fork with the changed source, and the signal or exit code of a fork that it ends; a
    sentence alone if the fork cannot have the change."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            try:
                swap(file, before)
            except NotSwappedError as error:
                ended: dict[str, str | None] = {"not_swapped": str(error)}
            else:
                ended = {"failed": first_failure(items, seconds, enough, waits, writing)}
            os.write(writing, json.dumps(ended).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        said = [json.loads(line) for line in answer]
    status = os.waitpid(child, 0)[1]
    if said and isinstance(said[-1], dict):
        if "not_swapped" in said[-1]:
            return str(said[-1]["not_swapped"])
        return (said[-1]["failed"], "") if said[-1]["failed"] else None
    if not said:
        raise RuntimeError(f"a fork for {file} ended before its first test")
    return said[-1], f"exit code {os.waitstatus_to_exitcode(status)}"


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Answer requests until there are no more."""
    items = {item.nodeid: item for item in session.items}
    with (
        open(session.config.getoption("--requests"), encoding="utf-8") as requests,
        open(session.config.getoption("--answers"), "w", encoding="utf-8") as answers,
    ):
        print(json.dumps(list(items)), file=answers, flush=True)
        for line in requests:
            asked = json.loads(line)
            tests = [items[name] for name in asked["tests"]]
            file, waits = Path(asked["file"]), asked["waits"]
            by = in_fork(tests, file, asked["before"], asked["seconds"], asked["enough"], waits)
            print(json.dumps(by), file=answers, flush=True)
    return True
