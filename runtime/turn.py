"""Whose turn on a device it is: what several threads run on it goes one after another, never one within another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.errors import TilewrightError

_here = threading.local()  #: ``run``: what this thread is in the middle of


class NestedRunError(TilewrightError):
    """A run is begun inside another by the same thread, from its ``progress`` for example; names both."""


class Turn:
    """Held from writing inputs to reading outputs, by one thread at a time.

    A device can do one thing at a time, and so can a thread: one that is inside a run on any device gets no turn on
    any other. Of two threads each of which held one device and waited for the other's, neither would go on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, run: str) -> Iterator[None]:
        """Wait for the turn, and have it; ``run``: what for. Raises :class:`NestedRunError` instead of waiting for
        itself."""
        check_no_run(run)
        with self._lock:
            _here.run = run
            try:
                yield
            finally:
                _here.run = None


def check_no_run(run: str) -> None:
    """Raise :class:`NestedRunError` if this thread is in the middle of a run that ``run`` would be inside of."""
    outer = getattr(_here, "run", None)
    if outer is not None:
        raise NestedRunError(
            f"{run}: a run of {outer} has not ended, and this one is inside of it (called from its progress?); let it "
            "end first, or run this one in a thread of its own that nothing inside of the run waits for"
        )
