"""Which output vectors of a dense convolution one instruction can do, where blocks of zero weights are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass
class Run:
    """Output vectors [lo, hi) that one GEMM over each input can do: all read as many blocks, each vector's ``shift``
    blocks further on than those of the one before.

    ``blocks``: those of the first, one a row of (input, kernel row, kernel column, block of the pixel).
    """

    lo: int
    hi: int
    blocks: NDArray[np.int64]
    shift: int = 0

    @cached_property
    def inputs(self) -> list[tuple[int, int, int, list[list[int]]]]:
        """For each input that it reads: its number, how many of a vector's blocks come before, the first block of a
        pixel, and its blocks as (kernel row, kernel column, block from that first one)."""
        found = []
        for index in np.unique(self.blocks[:, 0]).tolist():
            numbers = np.flatnonzero(self.blocks[:, 0] == index)
            places = self.blocks[numbers, 1:]
            first = int(places[:, 2].min())
            found.append((index, int(numbers[0]), first, (places - (0, 0, first)).tolist()))
        return found

    def takes(self, blocks: NDArray[np.int64]) -> bool:
        """Let the next vector join if it can."""
        if blocks.shape != self.blocks.shape or (blocks[:, :3] != self.blocks[:, :3]).any():
            return False
        steps = np.unique(blocks[:, 3] - self.blocks[:, 3])
        count = self.hi - self.lo
        shift = int(steps[0]) if count == 1 else self.shift
        if shift < 0 or (steps != shift * count).any():
            return False
        self.hi, self.shift = self.hi + 1, shift
        return True


def block_places(kernel: tuple[int, int], blocks: Sequence[int]) -> NDArray[np.int64]:
    """All that a vector can read, in the order of its weights: rows as in :class:`Run`. ``blocks``: of each input."""
    shapes = [(1, *kernel, count) for count in blocks]
    return np.concatenate([np.argwhere(np.ones(shape)) + (k, 0, 0, 0) for k, shape in enumerate(shapes)])


def runs_of(places: NDArray[np.int64], filled: NDArray[np.bool_]) -> list[Run]:
    """The fewest runs over the vectors in order; ``filled``: which of ``places`` each vector reads."""
    runs: list[Run] = []
    for vector, reads in enumerate(filled):
        if not runs or not runs[-1].takes(places[reads]):
            runs.append(Run(vector, vector + 1, places[reads]))
    return runs
