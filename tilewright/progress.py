"""How long work reports how far it is: one kind of callback for steps of any kind, one for inferences."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[str, int, int], None]  #: called with what is being done, steps done, and of how many (0: unknown)
Advance = Callable[[int], None]  #: called with the number of inferences newly finished


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


def on_error_stream(subject: str) -> Progress:
    """Progress as lines on the error stream, each beginning with ``subject``."""

    def report(what: str, done: int, total: int) -> None:
        print(f"{subject}: {what} ({done}/{total})" if total else f"{subject}: {what}", file=sys.stderr, flush=True)

    return report
