"""What lies where in a memory, by key: loaded once as long as there is room; what is needed last makes way first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from typing import NamedTuple

_NEVER = float("inf")


class Wanted(NamedTuple):
    """A block of ``size`` entries that must lie within ``region`` (start, stop), whole ``slot``s behind its start."""

    key: Hashable
    size: int
    region: tuple[int, int]
    slot: int = 1

    def up(self, entry: int) -> int:
        """The first place from an entry on."""
        return self.region[0] + -(-max(0, entry - self.region[0]) // self.slot) * self.slot


class Residency:
    """Blocks of one memory. ``next_use``: when a key is wanted again, as a number that grows with time.

    Of the places whose blocks are wanted again equally late, the next one around the region is taken, so that the
    oldest block goes first (Belady's rule, with turns for ties). ``state`` is another number whenever blocks were
    placed, kept or released: in the same state there is as little room as before.
    """

    def __init__(self, next_use: Callable[[Hashable], float] = lambda _: 0.0) -> None:
        self._next_use = next_use
        self._held: dict[Hashable, tuple[int, int]] = {}
        #: of the blocks held, which do not overlap, in their order
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._keys: list[Hashable] = []
        self._turn: dict[tuple[int, int], int] = {}
        self._kept: Counter[Hashable] = Counter()
        self.state = 0

    def keep(self, keys: Iterable[Hashable]) -> None:
        """These blocks stay until they are released as often as they were kept."""
        self.state += 1
        self._kept.update(keys)

    def release(self, keys: Iterable[Hashable]) -> None:
        """These blocks, kept before, may go."""
        self.state += 1
        for key in keys:
            self._kept[key] -= 1
            if not self._kept[key]:
                del self._kept[key]

    def take(self, wanted: Sequence[Wanted], must: bool = False) -> tuple[dict[Hashable, int], list[Hashable]] | None:
        """A place for every block: its first entry by key, and the keys of those that are not there yet.

        None if there is no room beside blocks that are kept; with ``must`` everything else then makes way and all
        blocks are placed anew, which needs their sum to fit.
        """
        places = {block.key: self._held[block.key][0] for block in wanted if block.key in self._held}
        if len(places) == len(wanted):
            return places, []
        stay = places if must else (*self._kept, *places)
        kept = [self._held[key] for key in stay if key in self._held]
        missing = [block for block in wanted if block.key not in places]
        for block in missing:
            start = self._find(block, kept)
            if start is None:
                return self._anew(wanted) if must else None
            places[block.key] = start
            kept.append((start, start + block.size))
        for block in missing:
            self._hold(block, places[block.key])
        return places, [block.key for block in missing]

    def _anew(self, wanted: Sequence[Wanted]) -> tuple[dict[Hashable, int], list[Hashable]]:
        self._held.clear()
        for ordered in (self._starts, self._stops, self._keys):
            ordered.clear()
        ends: dict[tuple[int, int], int] = {}
        places: dict[Hashable, int] = {}
        for block in wanted:
            start = block.up(ends.get(block.region, block.region[0]))
            if start + block.size > block.region[1]:
                raise AssertionError("a cut was chosen that does not fit")
            ends[block.region] = start + block.size
            places[block.key] = start
        for block in wanted:
            self._hold(block, places[block.key])
        return places, [block.key for block in wanted]

    def _hold(self, block: Wanted, start: int) -> None:
        stop = start + block.size
        self.state += 1
        there = self._between(start, stop)
        for key in self._keys[there]:
            del self._held[key]
        self._starts[there], self._stops[there], self._keys[there] = [start], [stop], [block.key]
        self._held[block.key] = (start, stop)
        self._turn[block.region] = stop

    def _between(self, start: int, stop: int) -> slice:
        """Which of the blocks held lie at least partly in [start, stop)."""
        first = bisect_right(self._stops, start)
        return slice(first, bisect_left(self._starts, stop, first))

    def _find(self, block: Wanted, kept: Sequence[tuple[int, int]]) -> int | None:
        low, high = block.region
        gaps, end = [], low
        for a, b in sorted(span for span in kept if span[1] > low and span[0] < high):
            if a - end >= block.size:
                gaps.append((end, a))
            end = max(end, b)
        if high - end >= block.size:
            gaps.append((end, high))
        if not gaps:
            return None
        turn = block.up(self._turn.get(block.region, low))
        best: tuple[float, int] | None = None
        for start in self._places(block, turn, [block.up(a) for a, _ in gaps]):
            stop = start + block.size
            if not any(a <= start and stop <= b for a, b in gaps):
                continue
            soonest = min(map(self._next_use, self._keys[self._between(start, stop)]), default=_NEVER)
            if best is None or soonest > best[0]:
                best = soonest, start
            if soonest == _NEVER:
                break
        return None if best is None else best[1]

    def _places(self, block: Wanted, turn: int, others: Iterable[int]) -> Iterator[int]:
        """Where the block may begin: behind others in its region, those from ``turn`` on first, or at ``others``."""
        low, high = block.region
        begins = sorted(others)
        there, middle = self._between(low, high), bisect_left(begins, turn)
        later = bisect_right(self._stops, turn, there.start, there.stop)
        yield turn
        yield from merge(begins[middle:], map(block.up, self._stops[later : there.stop]))
        yield from merge(begins[:middle], map(block.up, self._stops[there.start : later]))
