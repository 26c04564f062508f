"""Waiting for PYNQ's interrupts from ordinary code.

PYNQ's ``Interrupt`` is a coroutine whose wake-ups arrive in the event loop in which the interrupt controller was first
used. A notebook's loop is busy running the notebook's cell, so all waiting is done in one loop of our own, in a thread
that lives as long as the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(loop,), name="tilewright interrupts", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)  # where PYNQ looks for it
    loop.run_forever()


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        future.cancel()  # where the wait itself was interrupted; nothing to do for one that is done


class InterruptLine:
    """One interrupt pin of the loaded overlay. Raises what PYNQ raises if there is none of that name."""

    def __init__(self, pynq: Any, pin: str) -> None:
        async def make() -> Any:
            return pynq.Interrupt(pin)

        self._interrupt = _run(make())

    def wait(self, seconds: float) -> bool:
        """Whether the interrupt came within ``seconds``. It may come early: the caller looks at STATUS."""

        async def wait() -> bool:
            try:
                await asyncio.wait_for(self._interrupt.wait(), seconds)
            except asyncio.TimeoutError:  # noqa: UP041 (not TimeoutError on Python 3.10)
                return False
            return True

        return _run(wait())
