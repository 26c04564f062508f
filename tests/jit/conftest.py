"""What several tests of the compiler ask for."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.jit import programs
from tilewright.jit.errors import PlaceError


@pytest.fixture
def tiles_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No schedule but the tiled one is tried."""

    def refused(*given: Any) -> None:
        raise PlaceError("left out")

    monkeypatch.setattr(programs, "_program", refused)


@pytest.fixture
def rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tiles are tried."""

    def refused(*given: Any) -> None:
        raise PlaceError("left out")

    monkeypatch.setattr(programs, "_tiled", refused)
