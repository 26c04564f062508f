"""Where blocks of weights lie in wgt: what fits stays there, the rest passes through a ring at each use.

Rows are the blocks of one vector of results. What the ring has room for is loaded ahead of all work that is written
later, so the bus is busy while ALU is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.errors import PlaceError
from tilewright.jit.recurrent.vectors import VectorWriter

Rows = NDArray[np.int8]  #: (rows, blocks, BLOCK_OUT, BLOCK_IN)
LOADED = 64  #: blocks of a load at most, if a row is no longer
RING = 256  #: blocks of the ring at least, where not all stay


def loaded_at_once(config: Config) -> int:
    """Blocks of a load, where a row is no longer: of a small wgt a quarter."""
    return max(1, min(LOADED, config.wgt_entries // 4))


class Weights:
    """Two sets of rows, used by turns: ``entry`` once every ``ahead`` steps, then ``recurrent`` at each.

    Raises PlaceError where not even a ring of two rows fits.
    """

    def __init__(self, w: VectorWriter, entry: Rows, recurrent: Rows, steps: int, ahead: int) -> None:
        self._w, sets = w, (entry, recurrent)
        self._count = [len(rows) for rows in sets]
        free = w.config.wgt_entries
        everything = sum(len(rows) * rows.shape[1] for rows in sets)
        loaded = loaded_at_once(w.config)
        turns = [max(1, loaded // rows.shape[1]) for rows in sets]
        self._slot = max(turn * rows.shape[1] for turn, rows in zip(turns, sets))
        keep = free if everything <= free else max(0, free - max(RING, 2 * self._slot))
        self.kept: list[int] = [0, 0]  #: rows of each set that stay
        self.first = [0, 0]  #: where they lie
        place = 0
        for which in (1, 0):
            rows = sets[which]
            self.first[which] = place
            self.kept[which] = min(len(rows), (keep - place) // rows.shape[1])
            if self.kept[which]:
                w.load_weights(place, rows[: self.kept[which]].reshape(-1, *rows.shape[2:]))
            place += self.kept[which] * rows.shape[1]
        self._ring, self._slots = place, (free - place) // self._slot
        passing = [[rows[a : a + n] for a in range(k, len(rows), n)] for rows, k, n in zip(sets, self.kept, turns)]
        if any(passing) and self._slots < 2:
            raise PlaceError("a recurrent layer whose weights do not fit wgt; raise wgt_bytes")
        self._order = self._passing(passing, steps, ahead)
        self._loaded: list[tuple[int, int]] = []
        self._next = 0
        often = (-(-steps // ahead), steps)
        passed = sum((len(rows) - k) * rows.shape[1] * times for rows, k, times in zip(sets, self.kept, often))
        self.bytes = (place + passed) * w.config.wgt_entry_bytes  #: that cross the bus

    @staticmethod
    def _passing(groups: Sequence[Sequence[Rows]], steps: int, ahead: int) -> Iterator[Rows]:
        for step in range(steps):
            if step % ahead == 0:
                yield from groups[0]
            yield from groups[1]

    @property
    def stay(self) -> bool:
        """Whether all are loaded once."""
        return self.kept == self._count

    def rows(self, which: int) -> Iterator[tuple[int, int, int]]:
        """(first row, rows, place) of all of a set, each loaded by then; to be used before the next is asked for."""
        row = self.kept[which]
        if row:
            yield 0, row, self.first[which]
        self._fill()
        while row < self._count[which]:
            count, place = self._loaded.pop(0)
            yield row, count, place
            row += count
            self._fill()

    def _fill(self) -> None:
        for group in islice(self._order, self._slots - len(self._loaded)):
            place = self._ring + self._next % self._slots * self._slot
            self._w.load_weights(place, group.reshape(-1, *group.shape[2:]))
            self._loaded.append((len(group), place))
            self._next += 1
