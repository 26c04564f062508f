"""A server for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.remote.serving import Running, serving


@pytest.fixture
def running() -> Iterator[Running]:
    with serving() as found:
        yield found
