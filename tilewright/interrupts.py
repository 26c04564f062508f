"""Ctrl-C that ends the process wherever it is, without a word too many and with nothing half-written.

Python raises KeyboardInterrupt between any two steps of the main thread. Libraries that compile are not made for that:
one in a destructor or in a callback of LLVM's is lost, one between a lock's taking and its giving back makes a process
that hangs. So where the interrupt falls into one of those, when it comes a second time, and when the first has ended
nothing for a while, the process is left: what was being written is removed, and it ends at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130  #: as shells have it: 128 and the signal's number
PATIENCE_SECONDS = 10.0  #: from the interrupt to the end of the process
MESSAGE = "interrupted"
#: modules whose state an exception in the middle would break, or which would lose it
_FRAGILE = frozenset({"importlib", "llvmlite", "numba", "weakref", "_frozen_importlib", "_frozen_importlib_external"})

_at_leave: list[Callable[[], None]] = []
_once = False  #: whether the interrupt has come


def at_leave(callback: Callable[[], None]) -> Callable[[], None]:
    """Decorator for what is called when the process is left in the middle of anything: it must wait for nobody."""
    _at_leave.append(callback)
    return callback


def install() -> None:
    """For a process that is the command: take the interrupt, unless it is not to hear of any (``nohup``)."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
        signal.signal(signal.SIGALRM, _interrupted)


def end(code: int) -> int:
    """The process is about to end with ``code``: an interrupt is no more of interest. One that was interrupted ends
    here, without waiting for threads."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if code == EXIT_INTERRUPTED:
            os._exit(code)
    return code


@contextlib.contextmanager
def unheard(*, spawned: bool = False) -> Iterator[None]:
    """Processes that are started in here do not hear of an interrupt: that of the terminal is for this one, which then
    ends them. One that comes meanwhile is taken at the end. ``spawned``: it is multiprocessing that starts them."""
    if spawned:
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # where it starts that process, the interrupt is let through afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupted(number: int, frame: FrameType | None) -> None:
    global _once
    if _once or _is_fragile(frame):
        _leave()
    _once = True
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    raise KeyboardInterrupt


def _is_fragile(frame: FrameType | None) -> bool:
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module in _FRAGILE or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _leave() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for callback in _at_leave:
        callback()
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\r\x1b[K\x1b[?25h")  # what a progress bar has left: its line, and no cursor
        os.write(2, f"tilewright: {MESSAGE}\n".encode())
    os._exit(EXIT_INTERRUPTED)
