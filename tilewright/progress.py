"""How long work reports how far it is: one kind of callback for steps of any kind, one for inferences."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from multiprocessing import parent_process

Progress = Callable[[str, int, int], None]  #: called with what is being done, steps done, and of how many (0: unknown)
Advance = Callable[[int], None]  #: called with the number of inferences newly finished


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


_listeners: list[Progress] = []  #: who hears of kernels that are compiled


@contextlib.contextmanager
def hearing(listener: Progress) -> Iterator[None]:
    """While in here, ``listener`` hears of kernels that are compiled."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def compiling(done: int, there: int) -> None:
    """So many kernels of those there are have been compiled. Where nobody listens, the first is a line of its own."""
    if _listeners:
        _listeners[-1]("first run: compiling kernels", done, there)
    elif done == 1 and parent_process() is None:
        print("tilewright: first run: compiling kernels, for up to a minute", file=sys.stderr, flush=True)


def on_error_stream(subject: str) -> Progress:
    """Progress as lines on the error stream, each beginning with ``subject``."""

    def report(what: str, done: int, total: int) -> None:
        print(f"{subject}: {what} ({done}/{total})" if total else f"{subject}: {what}", file=sys.stderr, flush=True)

    return report
