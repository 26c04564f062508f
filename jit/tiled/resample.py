"""Rows and columns of an image in other places and proportions, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, cast

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding
from tilewright.isa.spec import Combine
from tilewright.jit.graph import Scale
from tilewright.jit.kernels.resample import ResampleNode, Run
from tilewright.jit.sampling import Taps
from tilewright.jit.tiled import judge
from tilewright.jit.tiled.geometry import Cut, Patch, Piece, Tile, Window
from tilewright.jit.tiled.layers import AluLayer


class Turn(NamedTuple):
    """One RESCALE: the product of weights, the first pixel that it reads, and the columns that it writes."""

    weight: int
    y: int
    x: int
    run: Run
    combine: Combine


@dataclass(kw_only=True)
class ResampleLayer(AluLayer):
    """``node`` over tiles. Its weights come to prm part by part: those of a whole row may be more than it holds."""

    @property
    def resampling(self) -> ResampleNode:
        return cast(ResampleNode, self.node)

    @property
    def flat(self) -> bool:
        return False

    @property
    def joins(self) -> bool:
        return False

    @property
    def scale_entries(self) -> int:
        """prm entries that are taken at once."""
        return max(1, self.config.prm_entries // 2)

    @property
    def passes(self) -> int:
        return self.resampling.most_taps + 1

    def scale(self, weight: int) -> Scale:
        """How pixels are rescaled by a product of weights."""
        return Scale(-self.resampling.offset << RESCALE_LEFT_SHIFT, weight, RESCALE_LEFT_SHIFT, Rounding.SINGLE)

    def patch(self, tile: Tile, piece: Piece) -> Patch:
        rows = [at for taps in self.resampling.row_taps[tile.top : tile.bottom] for at, _ in taps]
        columns = [at for taps in self.resampling.column_taps[tile.left : tile.right] for at, _ in taps]
        return Patch(
            self.sources[0], min(rows), min(columns), max(rows) - min(rows) + 1, max(columns) - min(columns) + 1,
            piece.unit, piece.units, 0,
        )  # fmt: skip

    def pieces(self, lo: int, hi: int, cut: Cut) -> list[Piece]:
        return [Piece(0, 0, 1, 0, 1, lo * self.config.out_units, hi * self.config.out_units)]

    def turns(self, row: int, tile: Tile) -> Iterator[list[Turn]]:
        """What is rescaled for a row of a tile, in order, in parts with as many weights as are taken at once."""
        node = self.resampling
        runs = node.runs.within(tile.left, tile.right)
        part: list[Turn] = []
        weights: set[int] = set()  # of the part
        for tap_y, (y, weight_y) in enumerate(node.row_taps[row]):
            for tap_x in range(max(len(run.taps) for run in runs)):  # all columns by turns: none waits for itself
                for run in (run for run in runs if tap_x < len(run.taps)):
                    x, weight_x = run.taps[tap_x]
                    turn = Turn(weight_y * weight_x, y, x, run, Combine.ADD if tap_y or tap_x else Combine.WRITE)
                    if turn.weight not in weights and len(weights) == self.scale_entries:
                        yield part
                        part, weights = [], set()
                    part.append(turn)
                    weights.add(turn.weight)
        yield part

    def _numbers(self) -> dict[judge.Layer, int]:
        return {judge.Layer.KIND: judge.ALU, judge.Layer.TERMS: self.resampling.most_taps, judge.Layer.WHOLE: 1}


def reach(node: ResampleNode) -> Window:
    """A window with whose strides the patch of no tile is larger than that of the node's."""
    kernels, strides = [], []
    for taps in (node.row_taps, node.column_taps):
        first, last = _ends(taps)
        strides.append(max([1, *(abs(b - a) for a, b in pairwise(first))]))
        kernels.append(max(2, *(b - a + 1 for a, b in zip(first, last, strict=True))))
    return Window((kernels[0], kernels[1]), (strides[0], strides[1]))


def _ends(taps: list[Taps]) -> tuple[list[int], list[int]]:
    return [min(at for at, _ in one) for one in taps], [max(at for at, _ in one) for one in taps]
