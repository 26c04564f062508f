"""First-fit allocation of address ranges, as the schedule creates and frees buffers."""

from __future__ import annotations


class Pool:
    """Free ranges of one memory. Addresses count units or entries."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._free: list[tuple[int, int]] = [(0, depth)]
        self._next = 0

    @property
    def free(self) -> int:
        """Total free entries (perhaps in several pieces)."""
        return sum(stop - start for start, stop in self._free)

    def ranges(self) -> list[tuple[int, int]]:
        """The free ranges, ``(start, stop)``, ascending."""
        return list(self._free)

    def take(self, size: int, align: int = 1) -> int | None:
        """Reserve ``size`` entries, the first at a multiple of ``align``, behind those that were taken last.

        If there is no room, in the first range that has; None without. What was free for longest comes first: who used
        it last is done.
        """
        for first in (self._next, 0):
            for low, high in self._free:
                start = -(-max(low, first) // align) * align
                if start + size <= high:
                    self.reserve(start, size)
                    self._next = start + size
                    return start
        return None

    def reserve(self, start: int, size: int) -> None:
        """Reserve a range that is free."""
        if not self.is_free(start, size):
            raise AssertionError(f"{size} units from {start} are not free")
        self._cut(start, size)

    def release(self, start: int, size: int) -> None:
        """Give a range back; neighbours merge."""
        merged = []
        low, high = start, start + size
        for a, b in self._free:
            if b < low or a > high:
                merged.append((a, b))
            else:
                low, high = min(low, a), max(high, b)
        merged.append((low, high))
        self._free = sorted(merged)

    def is_free(self, start: int, size: int) -> bool:
        """Whether the whole range is free."""
        return any(a <= start and start + size <= b for a, b in self._free)

    def _cut(self, start: int, size: int) -> None:
        result = []
        for a, b in self._free:
            if a <= start and start + size <= b:
                if a < start:
                    result.append((a, start))
                if start + size < b:
                    result.append((start + size, b))
            else:
                result.append((a, b))
        self._free = result
