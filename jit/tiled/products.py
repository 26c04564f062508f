"""Products of two activations in tiles: sums of blocks of weights that LOAD brings out of a tensor in DRAM.

As in :mod:`tilewright.jit.kernels.matmul`, the tensor that is read as weights lies in DRAM block of channels by block
of channels. What the zero point of ``b`` asks for is a pass of the same pixels over blocks of constants. What that of
``a`` asks for is alike for all pixels of a tile: it is computed once, into an accumulator ahead of the tile's, and ALU
adds it to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.kernels.base import SAME_BANK_CYCLES, Streamed
from tilewright.jit.kernels.matmul import MatMulNode
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.plan.ranges import split_evenly
from tilewright.jit.tiled import judge
from tilewright.jit.tiled.blocks import Blocks
from tilewright.jit.tiled.geometry import Cut, Patch, Piece, Tile, Window
from tilewright.jit.tiled.layers import GemmLayer, Run

_PIXELS, _ZERO_POINT = range(2)  #: sources: pixels of ``a``, and one that holds its negated zero point alone
_OUTSIDE = -1  #: a row above the image: what is loaded of it is padding


class _ZeroPointBlocks(Blocks):
    """Blocks [first, first + count) of a pixel, and for each the weights alike: ``value`` for ``depth`` channels."""

    def __init__(self, first: int, count: int, depth: int, value: int, config: Config) -> None:
        self._reads = np.arange(first, first + count)
        channels = np.arange(count * config.block_in).reshape(count, 1, config.block_in)
        shape = (count, config.block_out, config.block_in)
        self._weights = np.broadcast_to(np.where(channels < depth, value, 0), shape).astype(np.int8)

    def reads(self, source: int, vector: int) -> NDArray[np.int64]:
        return self._reads

    def entries(self, source: int, vector: int, blocks: Sequence[int], piece: Piece) -> NDArray[np.int8]:
        return self._weights[np.asarray(blocks) - self._reads[0]]


@dataclass(kw_only=True)
class ProductLayer(GemmLayer):
    """The products of one head; ``weights`` is the form in which ``b`` lies in DRAM, ``blocks`` are of its zero point.

    Pieces of the second source add what the zero point of ``a`` asks for.
    """

    node: MatMulNode
    weights: Blocked

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lead = int(self.node.offsets[0] != 0)

    @property
    def sources(self) -> list[str]:
        return self.node.inputs * (1 + self.lead)

    @property
    def flat(self) -> bool:
        return not self.lead

    @property
    def passes(self) -> int:
        return 1 + self.lead * SAME_BANK_CYCLES

    def patch(self, tile: Tile, piece: Piece) -> Patch:
        if piece.source == _PIXELS:
            return super().patch(tile, piece)
        return Patch(self.sources[0], _OUTSIDE, 0, 1, 1, piece.unit, piece.units, self.node.terms[0][0])

    def once(self, piece: Piece) -> bool:
        return piece.source == _ZERO_POINT

    def pieces(self, lo: int, hi: int, cut: Cut) -> list[Piece]:
        """Both sources of the same blocks one after the other, which multiply by the same weights."""
        first, step = int(self.reads(0, lo)[0]), self.config.in_units
        return [
            Piece(source, 0, 1, 0, 1, (first + a) * step, (first + b) * step)
            for a, b in split_evenly(self.node.blocks, cut.blocks)
            for source in range(len(self.sources))
        ]

    def held_as(self, piece: Piece) -> Piece:
        return piece._replace(source=_PIXELS)

    def streamed(self, lo: int, hi: int, piece: Piece) -> Streamed:
        """Vectors beyond the last pixel of ``b`` hold no channel; they multiply by what there is."""
        step, last = self.config.in_units, self.weights.vectors
        block = self.node.head * self.node.blocks + piece.unit // step - int(self.reads(0, lo)[0])
        return Streamed(self.weights.name, block, piece.units // step, min(lo, last - 1), min(hi, last))

    def weight_patches(self, lo: int, hi: int, piece: Piece) -> list[Patch]:
        part, form, c = self.streamed(lo, hi, piece), self.weights, self.config
        stack, block = divmod(part.block, form.blocks)
        left, right = part.lo * c.block_out, min(part.hi * c.block_out, form.width)
        units = part.blocks * c.in_units
        return [Patch(form.tensor, stack, left, 1, right - left, block * c.in_units, units, 0)]

    def runs(self, lo: int, hi: int, pieces: Sequence[Piece], index: int) -> tuple[list[Run], NDArray[np.int8]]:
        """Constants come first, the weights that are streamed behind them."""
        piece, step, last = pieces[index], self.config.in_units, self.weights.vectors
        blocks = tuple(range(piece.unit // step, piece.unit_end // step))
        constants = self.blocks.entries(0, lo, blocks, piece)
        (_, first_times), (_, second_times) = self.node.terms
        constants = constants if second_times else constants[:0]
        begins = all(other.source != piece.source for other in pieces[:index])
        entry, real = len(constants), max(lo, min(hi, last))
        product = [
            Run(first, stop - first, blocks, 0, entry, apart, begins)
            for first, stop, apart in ((lo, real, len(blocks)), (real, hi, 0)) if first < stop
        ]  # fmt: skip
        if piece.source == _ZERO_POINT:
            again = [replace(run, begins=False) for run in product]
            return product + again * (first_times - 1), constants
        return product + [Run(lo, hi - lo, blocks, 0, 0, 0, False)] * second_times, constants

    @cached_property
    def array_cycles(self) -> int:
        return self.node.width * self.vectors * self.node.blocks * (1 + self.node.terms[1][1])

    def _numbers(self) -> dict[judge.Layer, int]:
        return {**super()._numbers(), judge.Layer.BESIDE: int(self.node.offsets[1] != 0)}


def product_layer(node: MatMulNode, vectors: int, weights: Blocked) -> ProductLayer:
    """A node of one head (:meth:`MatMulNode.by_head`)."""
    c, (row, unit) = node.config, node.source_of(0)
    blocks = _ZeroPointBlocks(unit // c.in_units, node.blocks, node.depth, node.terms[1][0], c)
    return ProductLayer(
        node=node, config=c, window=Window(top=-row), requants={0: node.whole_requant}, vectors=vectors,
        first_unit=node.first_unit, blocks=blocks, weights=weights,
    )  # fmt: skip
