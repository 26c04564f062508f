"""A LOAD's or STORE's tile cut into tiles of units that lie elsewhere than side by side, or are padding."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.spec import Fields

PAD, SKIPPED = -1, -2  #: of a unit that holds padding alone, and of one that another core stores


class Tile(NamedTuple):
    """Rows of units side by side: where they are in a memory of the core, and number and step of their first in shared
    memory; of what is not there ``first`` is :data:`PAD` or :data:`SKIPPED`."""

    sram: int
    sram_row: int
    rows: int
    cols: int
    first: int
    stride: int

    def joined(self, run: Tile) -> Tile | None:
        """This one with another row; None where it is none of its."""
        across, along = run.sram - self.sram, run.first - self.first
        if self.rows > 1:
            across, along = across - self.rows * self.sram_row, along - self.rows * self.stride
            fits = across == along == 0
        else:
            fits = across >= 0 and along >= 0
        if not fits or run.cols != self.cols:
            return None
        if self.rows > 1:
            return self._replace(rows=self.rows + 1)
        return self._replace(rows=2, sram_row=across, stride=along)


def tiles_of(row: Fields, units: NDArray[np.int64], first: int, stride: int) -> list[Tile]:
    """What the tile of an instruction becomes that moves unit ``first`` and on of a place, rows ``stride`` units apart.

    ``units``: for each unit of the place its number in shared memory, :data:`PAD` or :data:`SKIPPED`.
    """
    found: list[Tile] = []
    growing: dict[int, Tile] = {}  #: by kind
    for r in range(row.rows):
        line = units[first + r * stride :][: row.cols]
        apart = np.diff(line) != np.where(line[1:] >= 0, 1, 0)
        breaks = (np.flatnonzero(apart | ((line[1:] >= 0) & (line[:-1] < 0))) + 1).tolist()
        for begin, end in pairwise([0, *breaks, len(line)]):
            sram = row.sram + r * row.sram_row + begin * row.sram_col
            run = Tile(sram, 0, 1, end - begin, int(line[begin]), 0)
            kind = min(run.first, 0)
            longer = growing[kind].joined(run) if kind in growing else None
            if longer is None and kind in growing:
                found.append(growing[kind])
            growing[kind] = run if longer is None else longer
    return [*found, *growing.values()]
