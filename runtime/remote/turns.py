"""Whose turn it is: one client has the device, the others wait in the order in which they came."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from tilewright.runtime.device_base import DeviceError

NOTICE_SECONDS = 1.0  #: how often a waiting client hears that it is still waiting

Notice = Callable[[str], None]  #: called with who has the device, for how long, and one's place in the queue


class TakenError(DeviceError):
    """The device is another client's for longer than this one would wait; names it, and both times."""


class Turns:
    """The device's one holder and the queue behind it. Safe for use by several threads at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._holder, self._since = "", 0.0

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._changed:
            return len(self._waiting)

    def take(self, peer: str, seconds: float, notice: Notice) -> None:
        """Wait until the device is ``peer``'s, a name that no other client has.

        ``notice`` is called once in a while, without a lock; what it raises ends the waiting. Raises
        :class:`TakenError` after ``seconds``.
        """
        begin = time.monotonic()
        with self._changed:
            self._waiting.append(peer)
        try:
            while not self._taken(peer, begin + seconds - time.monotonic()):
                waited = time.monotonic() - begin
                if waited >= seconds:
                    raise TakenError(f"the device is taken: {self.told(peer)}; waited {waited:.0f} s for it")
                notice(self.told(peer))
        finally:
            with self._changed:
                self._waiting.remove(peer)
                self._changed.notify_all()

    def _taken(self, peer: str, seconds: float) -> bool:
        """Wait for the turn, at most until the next notice is due."""
        with self._changed:
            free = self._changed.wait_for(
                lambda: not self._holder and self._waiting[0] == peer, max(0.0, min(seconds, NOTICE_SECONDS))
            )
            if free:
                self._holder, self._since = peer, time.monotonic()
            return free

    def give_back(self) -> None:
        """The holder has finished; the client that came first is next."""
        with self._changed:
            self._holder = ""
            self._changed.notify_all()

    def told(self, peer: str) -> str:
        """What a client that waits is told: who has the device, for how long, and its own place in the queue."""
        with self._changed:
            place = f"place {self._waiting.index(peer) + 1} of {len(self._waiting)} in the queue"
            if not self._holder:  # given back this very moment, to the first of the queue
                return f"{self._waiting[0]} is about to have it, {place}"
            return f"{self._holder} has had it for {time.monotonic() - self._since:.0f} s, {place}"
