"""Changed sources are tried in forks of a process that has collected the tests."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaigns import copied
from tests.campaigns.copied import Copy, NotForkedError, UnknownTestsError, Warm
from tests.conftest import REPOSITORY

SOURCE = """
from time import sleep
def outer(limit):
    return lambda x: x < limit
below = outer(3)
class Kept:
    def twice(self, x):
        while x < 0:
            pass
        while x > 9:
            sleep(1)
        return 2 * x
"""
TESTS = """
from source import Kept, below
def test_below(): assert below(2) and not below(3)
def test_twice(): assert Kept().twice(4) == 8
def test_wrong(): assert Kept().twice(4) == 9
"""

LONG = """
from source import Kept
def test_long(): Kept().twice(10)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Two files, collected once."""
    root = tmp_path_factory.mktemp("copy")
    (root / "tests").mkdir()
    (root / "source.py").write_text(SOURCE)
    (root / "tests" / "test_source.py").write_text(TESTS)
    (root / "tests" / "test_long.py").write_text(LONG)
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{root}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(root), "tests"]
    warm = Warm.start(command, root, environment, 1, {})
    copy = Copy(root, root, 1, warm)
    yield copy
    copy.end()
    assert copy.warm is None
    assert warm.process.returncode == 0


@pytest.mark.parametrize(
    ("before", "after", "by"),
    [
        ("x < limit", "x <= limit", "tests/test_source.py::test_below"),
        ("2 * x", "2 + x", "tests/test_source.py::test_twice"),
        ("x < 0", "x > 0", "exit code -24 of tests/test_source.py::test_twice"),  # SIGXCPU: no end
        ("2 * x", "x * 2", None),
    ],
)
def test_what_notices_a_change(copy: Copy, before: str, after: str, by: str | None) -> None:
    """One that fails unchanged too is no witness."""
    path = copy.root / "source.py"
    assert copy.kill(path, SOURCE.replace(before, after), ["tests/test_source.py::*"]) == by
    assert path.read_text() == SOURCE


@pytest.mark.parametrize(
    "after",
    ["return lambda x: x < 3", "return (lambda y: lambda x: x < y)(limit)"],
    ids=["fewer free names", "one function more"],
)
def test_a_change_that_no_fork_can_have_is_no_kill(copy: Copy, after: str) -> None:
    """It once ended the fork before its first test, which counted as noticed."""
    path = copy.root / "source.py"
    with pytest.raises(NotForkedError, match="of the functions themselves"):
        copy.kill(path, SOURCE.replace("return lambda x: x < limit", after), ["tests/test_source.py::test_below"])
    assert path.read_text() == SOURCE
    assert copy.kill(path, SOURCE, ["tests/test_source.py::test_below"]) is None


def test_a_test_that_sleeps_is_ended(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It spends no processor time, so the limit is on the time that it takes."""
    assert copy.warm is not None
    monkeypatch.setattr(copied, "LEAST", 2)
    monkeypatch.setattr(copy.warm, "usual", {"tests/test_source.py::test_twice": 0.01})
    path, began = copy.root / "source.py", time.monotonic()
    by = copy.kill(path, SOURCE.replace("x > 9", "x > 0"), ["tests/test_source.py::test_twice"])
    assert by == "exit code -14 of tests/test_source.py::test_twice"  # SIGALRM
    assert 1.5 < time.monotonic() - began < 60
    assert path.read_text() == SOURCE


def test_a_test_that_hangs_unchanged_too_is_no_witness(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does whose caches are empty."""
    assert copy.warm is not None
    monkeypatch.setattr(copied, "LEAST", 1)
    monkeypatch.setattr(copy.warm, "usual", {"tests/test_long.py::test_long": 0.01})
    changed = SOURCE.replace("x < 0", "x < -1")
    assert copy.warm.run(copy.root / "source.py", SOURCE, ["tests/test_long.py::test_long"], 1e9) == (
        "tests/test_long.py::test_long",
        "exit code -14",
    )
    assert copy.kill(copy.root / "source.py", changed, ["tests/test_long.py::test_long"]) is None


def test_a_test_that_lacks_what_it_makes_once_is_tried_again(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here what it lacked is there after it has run unchanged."""
    name, path = "tests/test_source.py::test_twice", copy.root / "source.py"
    ran: list[str] = []

    def run(self: Warm, file: Path, before: str, tests: list[str], enough: float) -> tuple[str, str] | None:
        ran.append("unchanged" if path.read_text() == SOURCE else "changed")
        return None if "unchanged" in ran else (name, "exit code -14")

    monkeypatch.setattr(Warm, "run", run)
    assert replace(copy, sound={}).kill(path, SOURCE + "#", [name]) is None
    assert ran == ["changed", "unchanged", "changed"]


def test_a_test_that_is_not_there_is_no_witness(copy: Copy) -> None:
    """pytest ends with an exit code for it, as it does for a test that fails."""
    alone, known = copy.alone(), "tests/test_source.py::test_below"
    changed = SOURCE.replace("x < limit", "x <= limit")
    assert alone.kill(copy.root / "source.py", changed, [known]) == known
    with pytest.raises(UnknownTestsError, match="test_of_before"):
        alone.kill(copy.root / "source.py", changed, ["tests/test_source.py::test_of_before", known])
    assert (copy.root / "source.py").read_text() == SOURCE


def test_a_slow_test_is_waited_for_longer() -> None:
    assert [copied.patience(seconds) for seconds in (None, 0.01, 4.0, 100.0)] == [600, 60, 80, 600]


def test_no_other_test_begins_after_enough(copy: Copy) -> None:
    assert copy.warm is not None
    tests = copy.warm.of("tests/test_source.py::*")
    assert copy.warm.run(copy.root / "source.py", SOURCE, tests, enough=1e9) == (
        "tests/test_source.py::test_wrong",
        "",
    )
    assert copy.warm.run(copy.root / "source.py", SOURCE, tests, enough=-1.0) is None


def test_names_and_beginnings(copy: Copy) -> None:
    assert copy.warm is not None
    names = [f"tests/test_source.py::test_{name}" for name in ("below", "twice", "wrong")]
    assert copy.warm.of("tests/test_source.py::*") == names
    assert copy.warm.of(names[1]) == names[1:2]
    assert copy.warm.of("tests/test_source.py::test_none") == []
