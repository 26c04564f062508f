"""Dense convolution (and fully connected, matmul): one batch-reduce GEMM over kernel positions and input blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, Uop, prm_entries
from tilewright.jit.layout import Buffer
from tilewright.jit.plan import tables as t


@dataclass(kw_only=True)
class ConvNode(Node):
    """``weight`` is int8 (OC, KH, KW, IC) over the inputs' channels as stored.

    Several inputs are slices of one tensor's channels; ``in_units`` has the units a pixel of each spans.
    """

    weight: NDArray[np.int8]
    requant: Requant
    strides: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int, int, int]
    pad_constant: int
    in_units: list[int]
    in_width: int

    def extents(self) -> tuple[int, ...]:
        _, kh, kw, _ = self.weight.shape
        return (
            t.CONV, self.height, self.width, self.out_units, kh, kw, sum(self.in_units), self.in_width,
            self.pad[1] + self.pad[3], *self.strides, 1, 0, 0, 0, 0, 1,
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return self.strides[0], -self.pad[0], (self.weight.shape[1] - 1) * self.dilation[0] + 1

    @property
    def _per_vector(self) -> int:
        """Weight blocks of one output vector."""
        return self.weight.shape[1] * self.weight.shape[2] * sum(self.in_units) // self.config.in_units

    @cached_property
    def _constants(self) -> Chunk:
        return Chunk(
            self.weight_blocks(), prm_entries(self.requant, self.config, self.out_units // self.config.out_units)
        )

    def constant_entries(self) -> tuple[int, int]:
        return self.filled_blocks, self.out_units // self.config.out_units

    def constants(self, lo: int, hi: int) -> Chunk:
        whole, each = self._constants, self._per_vector
        return Chunk(whole.weights[lo * each : hi * each], whole.prm[lo:hi])

    def weight_blocks(self) -> NDArray[np.int8]:
        """Blocks [output vector][input][ky][kx][input vector] of (BLOCK_OUT, BLOCK_IN)."""
        c = self.config
        oc, kh, kw, _ = self.weight.shape
        vectors, per_vector = self.out_units // c.out_units, kh * kw * sum(self.in_units) // c.in_units
        blocks = np.zeros((vectors, per_vector, c.block_out, c.block_in), np.int8)
        channel = entry = 0
        for units in self.in_units:
            channels = units * c.lanes
            part = self.weight[..., channel : channel + channels]
            full = np.zeros((vectors * c.block_out, kh, kw, channels), np.int8)
            full[:oc, :, :, : part.shape[3]] = part
            split = full.reshape(vectors, c.block_out, kh, kw, units // c.in_units, c.block_in)
            count = kh * kw * units // c.in_units
            blocks[:, entry : entry + count] = split.transpose(0, 2, 3, 4, 1, 5).reshape(
                vectors, count, *blocks.shape[2:]
            )
            channel, entry = channel + channels, entry + count
        return blocks.reshape(-1, c.block_out, c.block_in)

    @cached_property
    def filled_blocks(self) -> int:
        """Blocks (BLOCK_OUT, BLOCK_IN) of weights that are not all zero: of a grouped layer, those of its groups."""
        c, first, blocks = self.config, 0, 0
        for units in self.in_units:
            part = self.weight[..., first : first + units * c.lanes] != 0
            first += units * c.lanes
            rows = np.add.reduceat(part, np.arange(0, part.shape[0], c.block_out), axis=0)
            if part.shape[-1]:
                columns = np.arange(0, part.shape[-1], c.block_in)
                blocks += int(np.count_nonzero(np.add.reduceat(rows, columns, axis=-1)))
        return blocks

    def padding(self, index: int) -> tuple[int, int, int, int]:
        return self.pad

    def pad_value(self, index: int) -> int | None:
        return self.pad_constant if any(self.pad) else None

    def _uops(self, source: Buffer, index: int) -> list[Uop]:
        _, kh, kw, _ = self.weight.shape
        step = self.config.in_units
        offsets = [
            (ky * self.dilation[0]) * source.stride + kx * self.dilation[1] * source.units + unit
            for ky in range(kh)
            for kx in range(kw)
            for unit in range(0, self.in_units[index], step)
        ]
        return [(0, offset, k, int(index > 0 or k > 0)) for k, offset in enumerate(offsets)]

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        return [self._uops(buffer, index) for index, buffer in enumerate(buffers)]

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        vectors, start = task.hi - task.lo, task.lo - self.chunk_range(task)[0]
        pixel = vectors * c.out_units
        entry = e.weight_base(task.chunk) + start * self._per_vector
        for index, name in enumerate(self.inputs):
            source = e.buffer(name)
            uops = self._uops(source, index)
            e.gemm(
                uops,
                outer=vectors, inner=self.width,
                dst=acc, dst_outer=c.out_units, dst_inner=pixel,
                src=source.offset(task.row * self.strides[0] - self.pad[0], -self.pad[1]),
                src_inner=self.strides[1] * source.units,
                wgt=entry, wgt_outer=self._per_vector,
                **source.wrap,
            )  # fmt: skip
            entry += len(uops)
        for out in e.outputs(self.output):
            e.requantize(
                self.requant, out,
                outer=vectors, inner=self.width,
                src=acc, src_outer=c.out_units, src_inner=pixel,
                dst=out.offset(task.row, 0, self.first_unit + task.lo * c.out_units), dst_outer=c.out_units,
                dst_inner=out.units,
                prm=e.prm_base(task.chunk) + start, prm_outer=1,
            )  # fmt: skip
