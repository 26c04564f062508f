"""What the proofs share: queues whose memories they may look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def open_ram(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Queues are built on :class:`~tests.hw.formal.opened.OpenRam` while the test runs."""
    from tests.hw.formal.opened import OpenRam
    from tilewright.hw.rtl import queue

    OpenRam.made.clear()
    monkeypatch.setattr(queue, "AsyncRam", OpenRam)
    yield
    OpenRam.made.clear()
