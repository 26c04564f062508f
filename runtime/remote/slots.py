"""How many connections there may be at once: in all, and from one address, so that one peer cannot take them all."""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter


class Slots:
    """``total`` places of which each origin has at most ``each``. Safe for use by several threads at once."""

    def __init__(self, total: int, each: int) -> None:
        self.total, self.each = total, each
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, origin: str) -> str:
        """Take a place; why there is none, or nothing."""
        with self._lock:
            if sum(self._taken.values()) >= self.total:
                return f"{self.total} connections are open"
            if self._taken[origin] >= self.each:
                return f"{self.each} connections from {origin} are open"
            self._taken[origin] += 1
            return ""

    def give_back(self, origin: str) -> None:
        """The place is free again."""
        with self._lock:
            self._taken[origin] -= 1
            self._taken += Counter()  # drops those that have none


def origin_of(host: str) -> str:
    """Who counts as one peer: an IPv4 address, or the /64 network that one IPv6 subscriber has whole."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
