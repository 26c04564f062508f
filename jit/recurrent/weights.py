"""Where blocks of weights lie in wgt: what fits stays there, the rest passes through a ring at each use.

Rows are the blocks of one vector of results. What the ring has room for is loaded ahead of all work that is written
later, so the bus is busy while ALU is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Use:
    """Products with rows [begin, end) of a set, number ``which``."""

    which: int
    begin: int
    end: int


def stay(config: Config, blocks: int) -> bool:
    """Whether so many blocks are loaded once, and stay."""
    return blocks <= config.wgt_entries


class Weights:
    """Two sets of rows, ``entry`` and ``recurrent``, and the order in which a program uses them.

    Raises PlaceError where not even a ring of two rows fits.
    """

    def __init__(self, w: VectorWriter, entry: Rows, recurrent: Rows, uses: Sequence[Use]) -> None:
        self._w, self._sets = w, (entry, recurrent)
        free = w.config.wgt_entries
        everything = sum(len(rows) * rows.shape[1] for rows in self._sets)
        loaded = loaded_at_once(w.config)
        self._turns = [max(1, loaded // rows.shape[1]) for rows in self._sets]
        self._slot = max(turn * rows.shape[1] for turn, rows in zip(self._turns, self._sets))
        keep = free if stay(w.config, everything) else max(0, free - max(RING, 2 * self._slot))
        self.kept: list[int] = [0, 0]  #: rows of each set that stay
        self.first = [0, 0]  #: where they lie
        place = 0
        for which in (1, 0):
            rows = self._sets[which]
            self.first[which] = place
            self.kept[which] = min(len(rows), (keep - place) // rows.shape[1])
            place += self.kept[which] * rows.shape[1]
        for rows, kept, first in zip(self._sets, self.kept, self.first):  # in the order of their first use
            if kept:
                w.load_weights(first, rows[:kept].reshape(-1, *rows.shape[2:]))
        self._ring, self._slots = place, (free - place) // self._slot
        if not self.stay and self._slots < 2:
            raise PlaceError("a recurrent layer whose weights do not fit wgt; raise wgt_bytes")
        self._order = (group for use in uses for group in self._passing(use))
        self._loaded: list[int] = []
        self._next = 0
        passed = sum(group.size for use in uses for group in self._passing(use))
        kept = sum(rows[:count].size for rows, count in zip(self._sets, self.kept))
        self.bytes = (kept + passed) // entry[0, 0].size * w.config.wgt_entry_bytes  #: that cross the bus

    @property
    def stay(self) -> bool:
        """Whether all are loaded once."""
        return all(kept == len(rows) for kept, rows in zip(self.kept, self._sets))

    def _passing(self, use: Use) -> Iterator[Rows]:
        """What passes through the ring for a use, load by load."""
        turn = self._turns[use.which]
        for row in range(max(use.begin, self.kept[use.which]), use.end, turn):
            yield self._sets[use.which][row : min(row + turn, use.end)]

    def rows(self, use: Use) -> Iterator[tuple[int, int, int]]:
        """(first row, rows, place) of all of the next use, each loaded by then; to be used before the next is asked
        for."""
        which, kept = use.which, min(use.end, self.kept[use.which])
        if use.begin < kept:
            yield use.begin, kept - use.begin, self.first[which] + use.begin * self._sets[which].shape[1]
        self._fill()
        row = max(use.begin, kept)
        for group in self._passing(use):
            yield row, len(group), self._loaded.pop(0)
            row += len(group)
            self._fill()

    def _fill(self) -> None:
        for group in islice(self._order, self._slots - len(self._loaded)):
            place = self._ring + self._next % self._slots * self._slot
            self._w.load_weights(place, group.reshape(-1, *group.shape[2:]))
            self._loaded.append(place)
            self._next += 1
