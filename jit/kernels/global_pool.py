"""Pooling over the whole image: dense GEMM with an identity block, summing all pixels of a channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, Uop, prm_entries
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import Buffer


@dataclass(kw_only=True)
class GlobalPoolNode(Node):
    """``requant(sum over all pixels)`` -> (1, 1, 1, C); the input has ``in_height`` x ``in_width`` pixels."""

    requant: Requant
    in_height: int
    in_width: int

    def __post_init__(self) -> None:
        self._uniform = self.requant.uniform

    def extents(self) -> tuple[int, ...]:
        return (
            t.GLOBAL, self.height, self.width, self.out_units, self.in_height, self.in_width, 0, 0, 0, 1, 1, 1, 0, 0,
            self._uniform, 0, 1, 0, 0,
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return 1, 0, self.in_height

    def constant_entries(self) -> tuple[int, int]:
        vectors = 1 if self._uniform else self.vectors
        return max(self.config.in_units, self.config.out_units), vectors

    def constants(self, lo: int, hi: int) -> Chunk:
        prm = prm_entries(self.requant, self.config, self.vectors)
        return Chunk(self._identity(), prm[:1] if self._uniform else prm)

    def _identity(self) -> NDArray[np.int8]:
        """Blocks that copy one input vector's lanes to where the output vector holds them."""
        c = self.config
        entries = np.zeros((max(c.in_units, c.out_units), c.block_out, c.block_in), np.int8)
        lanes = np.arange(c.lanes)
        for k, entry in enumerate(entries):
            if c.out_units > 1:
                entry[k * c.lanes + lanes, lanes] = 1
            else:
                entry[lanes, k * c.lanes + lanes] = 1
        return entries

    def _uops(self, source: Buffer, first: bool) -> list[Uop]:
        pairs = [(x, k) for x in range(self.in_width) for k in range(self.config.out_units)]
        return [(0, x * source.units + k, k, int(not first or n > 0)) for n, (x, k) in enumerate(pairs)]

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        return [self._uops(buffers[0], first) for first in (True, False)[: self.in_height]]

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        source = e.buffer(self.inputs[0])
        block = max(c.in_units, c.out_units)
        whole, rest = divmod(self.vectors * c.out_units, block)
        for row in range(self.in_height):
            for first, count, units in ((0, whole, c.in_units), (whole, 1, rest)):
                if count * units:
                    e.gemm(
                        self._uops(source, row == 0),
                        outer=count, inner=units,
                        dst=acc + first * block, dst_outer=block, dst_inner=1 if c.in_units > 1 else 0,
                        src=source.offset(row, 0, first * block), src_outer=block,
                        wgt=e.weight_base(0), wgt_inner=1,
                        **source.wrap,
                    )  # fmt: skip
        for out in e.outputs(self.output):
            e.requantize(
                self.requant, out,
                outer=self.vectors, src=acc, src_outer=c.out_units,
                dst=out.offset(0, 0, self.first_unit), dst_outer=c.out_units * out.step,
                prm=e.prm_base(0), prm_outer=0 if self._uniform else 1,
            )  # fmt: skip
