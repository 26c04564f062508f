"""One run at a time on a device, whichever thread asks for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tilewright.errors import TilewrightError


class BusyError(TilewrightError):
    """A run was asked for from within another run on the same device."""


class Turn:
    """Held from a run's first segment to its last, as a device has one set of registers and one thread that waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    @contextmanager
    def taken(self, what: str) -> Iterator[None]:
        """Wait until no other thread has it. Raises :class:`BusyError`, naming ``what``, for the thread that has it
        already, which would wait for itself."""
        me = threading.get_ident()
        if self._holder == me:
            raise BusyError(
                f"{what}: a run on this device has not ended, and it is what asks for this one; run it after"
            )
        with self._lock:
            self._holder = me
            try:
                yield
            finally:
                self._holder = None


def refuse_copy(what: str, instead: str, error: type[TilewrightError]) -> NoReturn:
    """Say that ``what`` is of one process and cannot be copied or pickled, and what to do ``instead``."""
    raise error(f"{what}: belongs to this process and its device, so it cannot be copied or pickled; {instead}")
