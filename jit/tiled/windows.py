"""Depthwise convolutions and average pools in GEMM's window mode, tile by tile.

As in :mod:`tilewright.jit.kernels.window`, neighbouring outputs share the columns that they push. What comes out
while the window fills at the left edge of a tile lands in ``lead`` accumulators per row that nothing reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.kernels.base import Uop
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.plan.ranges import split_evenly
from tilewright.jit.tiled import judge
from tilewright.jit.tiled.geometry import Cut, Patch, Piece, Window
from tilewright.jit.tiled.layers import TiledLayer


@dataclass(kw_only=True)
class WindowLayer(TiledLayer):
    """``taps``: int8 (KH, KW, C), or (KH, KW, 1) for all channels alike.

    The kernel of ``window`` is as wide as what an output needs with the columns that fill the window before it.
    """

    taps: NDArray[np.int8]

    def __post_init__(self) -> None:
        super().__post_init__()
        width, stride = self.taps.shape[1], self.window.strides[1]
        self.step = min(stride, width)  #: columns pushed per output
        self.lead = -(-max(0, width - stride) // stride)
        reach = self.lead * stride + self.step
        self.window = replace(
            self.window, kernel=(self.taps.shape[0], reach), dilation=(self.window.dilation[0], 1),
            left=self.window.left + reach - width,
        )  # fmt: skip
        self.shared = self.taps.shape[2] == 1

    @property
    def flat(self) -> bool:
        return False

    @property
    def most_rows(self) -> int:
        """Kernel rows that one window holds."""
        return self.config.block_in // self.taps.shape[1]

    def pieces(self, lo: int, hi: int, cut: Cut) -> list[Piece]:
        units = (lo * self.config.out_units, hi * self.config.out_units)
        rows = split_evenly(self.window.kernel[0], min(cut.kernel_rows, self.most_rows))
        return [Piece(0, a, b, 0, self.window.kernel[1], *units) for a, b in rows]

    def weights(self, lo: int, hi: int, piece: Piece) -> NDArray[np.int8]:
        """One block for each unit of the vectors [lo, hi), or one for all."""
        c, width = self.config, self.taps.shape[1]
        units = 1 if self.shared else (hi - lo) * c.out_units
        first = 0 if self.shared else lo * c.out_units * c.lanes
        count = piece.ky_end - piece.ky
        taps = np.zeros((count, width, units * c.lanes), np.int8)
        part = self.taps[piece.ky : piece.ky_end, :, first : first + units * c.lanes]
        taps[:, :, : part.shape[2]] = part
        if self.shared:
            taps[:] = part
        entries = np.zeros((units, c.block_out, c.block_in), np.int8)
        for ky in range(count):
            for kx in range(width):
                slot = (width - 1 - kx) * count + (count - 1 - ky)
                entries[:, : c.lanes, slot] = taps[ky, kx].reshape(units, c.lanes)
        return entries

    def uops(self, piece: Piece, patch: Patch) -> Sequence[Uop]:
        """The pushes of one output; the last one emits."""
        rows, dilation = piece.ky_end - piece.ky, self.window.dilation[0]
        uops: list[Uop] = [
            (-1, ky * dilation * patch.stride + column * patch.units, 0, int(piece.ky > 0))
            for column in range(self.step)
            for ky in range(rows)
        ]
        uops[-1] = (0, *uops[-1][1:])
        return uops

    def paced(self, rows: int) -> bool:
        """Whether emits must be kept apart, for so many kernel rows."""
        return self.config.dsp_packing and rows * self.step < 2

    @cached_property
    def array_cycles(self) -> int:
        rows = self.node.height * self.vectors * self.config.out_units
        return rows * (self.node.width + self.lead) * self.taps.shape[0] * self.step

    def _numbers(self) -> dict[judge.Layer, int]:
        return {
            judge.Layer.KIND: judge.WINDOW, judge.Layer.SHARED: self.shared, judge.Layer.MOST_ROWS: self.most_rows,
            judge.Layer.STEP: self.step,
        }  # fmt: skip


def window_layer(node: WindowNode, vectors: int) -> WindowLayer | None:
    """The node in window mode; None if its kernel is wider than the window."""
    if node.taps.shape[1] > node.config.block_in:
        return None
    window = Window(
        (node.taps.shape[0], node.taps.shape[1]), node.strides, (node.dilation_y, 1), node.pad[0], node.pad[1],
        node.pad_constant,
    )  # fmt: skip
    return WindowLayer(
        node=node, config=node.config, window=window, requants=node.requants, counts=node.counts, vectors=vectors,
        first_unit=node.first_unit, taps=node.taps,
    )  # fmt: skip
