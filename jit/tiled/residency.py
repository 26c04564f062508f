"""What lies where in a memory, by key: loaded once as long as there is room, replaced in turn."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple


class Wanted(NamedTuple):
    """A block of ``size`` entries that must lie within ``region`` (start, stop)."""

    key: Hashable
    size: int
    region: tuple[int, int]


Span = tuple[int, int]


class Residency:
    """Blocks of one memory. Places are taken in turn around each region, so that the oldest block goes first."""

    def __init__(self, align: int = 1) -> None:
        self._align = align
        self._held: dict[Hashable, Span] = {}
        self._next: dict[Span, int] = {}

    def take(
        self, wanted: Sequence[Wanted], pinned: Iterable[Span] = (), must: bool = False
    ) -> tuple[dict[Hashable, int], list[Hashable]] | None:
        """A place for every block: its first entry by key, and the keys of those that are not there yet.

        Blocks at ``pinned`` stay. None if there is no room beside those; with ``must`` everything else then makes
        way and all blocks are placed anew, which needs their sum to fit.
        """
        kept = list(pinned)
        places: dict[Hashable, int] = {}
        for block in wanted:
            if block.key in self._held:
                span = self._held[block.key]
                places[block.key] = span[0]
                kept.append(span)
        missing: list[Hashable] = []
        for block in wanted:
            if block.key in places:
                continue
            start = self._find(block, kept)
            if start is None:
                return self._anew(wanted) if must else None
            places[block.key] = start
            kept.append((start, start + block.size))
            missing.append(block.key)
        sizes = {block.key: block for block in wanted}
        for key in missing:
            self._hold(sizes[key], places[key])
        return places, missing

    def _anew(self, wanted: Sequence[Wanted]) -> tuple[dict[Hashable, int], list[Hashable]]:
        self._held.clear()
        self._next.clear()
        places: dict[Hashable, int] = {}
        for block in wanted:
            start = self._next.get(block.region, self._up(block.region[0]))
            assert start + block.size <= block.region[1], "a cut was chosen that does not fit"
            places[block.key] = start
            self._hold(block, start)
        return places, [block.key for block in wanted]

    def _hold(self, block: Wanted, start: int) -> None:
        stop = start + block.size
        self._held = {k: (a, b) for k, (a, b) in self._held.items() if b <= start or a >= stop}
        self._held[block.key] = (start, stop)
        self._next[block.region] = self._up(stop)

    def _find(self, block: Wanted, kept: Sequence[Span]) -> int | None:
        low, high = block.region
        first = self._next.get(block.region, self._up(low))
        for start in [first, self._up(low), *sorted(self._up(stop) for _, stop in kept)]:
            stop = start + block.size
            if low <= start and stop <= high and all(b <= start or a >= stop for a, b in kept):
                return start
        return None

    def _up(self, entry: int) -> int:
        return -(-entry // self._align) * self._align
