"""How long things take on this machine's CPU: measured once, and kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.files import FileError, cache_root, make_directory, read_text, write_atomic

RUNS, LONG_ENOUGH = 5, 0.2  #: the least of so many runs counts, or of those that were done after so many seconds


class HostTimes:
    """Nanoseconds by a key that says all that the time depends on but the machine. ``path``: where they are kept."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        if path is None:
            with contextlib.suppress(TilewrightError):  # no home: measured anew in each process
                self._path = cache_root() / "host-times" / f"{_machine()}.json"
        self._known: dict[str, int] = {}
        # none yet, or damaged: measured again
        with contextlib.suppress(FileError, ValueError, TypeError, AttributeError):
            self._known = {k: int(v) for k, v in json.loads(read_text(self._path or Path())).items()}

    def of(self, key: str, prepare: Callable[[], Callable[[], object]]) -> int:
        """The time of a call of what ``prepare`` gives, which is called only if the time is not known."""
        if key not in self._known:
            call = prepare()
            call()
            begin = time.perf_counter_ns()
            least = 1 << 62
            for _ in range(RUNS):
                start = time.perf_counter_ns()
                call()
                least = min(least, time.perf_counter_ns() - start)
                if time.perf_counter_ns() - begin > LONG_ENOUGH * 1e9:
                    break
            self._known[key] = least
        return self._known[key]

    def keep(self) -> None:
        """Write what is known; a folder that cannot be written only costs the next process the measurement."""
        if self._path is not None:
            with contextlib.suppress(OSError, TilewrightError):
                make_directory(self._path.parent)
                write_atomic(self._path, json.dumps(self._known, indent=0, sort_keys=True) + "\n")


def _machine() -> str:
    """A file name for this machine: its name and its kind of processor."""
    described = f"{platform.node()} {platform.machine()} {platform.processor()}"
    return hashlib.sha256(described.encode()).hexdigest()[:16]
