"""A pytest plugin for ``coverage run``: lines are put down to the tests that reach them, and tests' seconds are kept.

``python -m coverage run --data-file=MAP ... -m pytest -p tests.campaigns.contexts ...`` writes ``MAP`` and beside it
``MAP-seconds.json``. What a test's processes reach is the test's too, with ``--rcfile=tests/campaigns/coverage.ini``.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

CHILDREN = "COVERAGE_PROCESS_CONFIG"  #: where processes of a test find how to measure themselves
SECONDS: dict[str, float] = {}
FAILED: set[str] = set()


def measured() -> coverage.Coverage:
    """The measurement under way; RuntimeError if there is none."""
    current = coverage.Coverage.current()
    if current is None:
        raise RuntimeError("tests.campaigns.contexts is for coverage run")
    return current


def switch(context: str) -> None:
    """Put down what comes to a context, in this process and in those that it starts."""
    measured().switch_context(context)
    if CHILDREN in os.environ:
        of_children = copy.copy(measured().config)
        of_children.context = context or None
        os.environ[CHILDREN] = of_children.serialize()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--every N``: of each file the first of every N tests."""
    parser.addoption("--every", type=int, default=1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A map of fewer tests is made sooner, and its score is a lower bound."""
    every, seen = config.getoption("--every"), Counter[str]()
    kept = []
    for item in items:
        if seen[item.location[0]] % every == 0:
            kept.append(item)
        seen[item.location[0]] += 1
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """The context is the test's name, from the first of its fixtures to the last."""
    switch(item.nodeid)
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        SECONDS[item.nodeid] = time.perf_counter() - began
        switch("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What fails is no witness of anything."""
    if report.failed:
        FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Keep the seconds of what passed beside the data."""
    for test in FAILED:
        SECONDS.pop(test, None)
    Path(f"{measured().config.data_file}-seconds.json").write_text(json.dumps(SECONDS, indent=0))
