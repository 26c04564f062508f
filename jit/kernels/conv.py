"""Dense convolution (and fully connected, matmul): one batch-reduce GEMM over kernel positions and input blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, Uop, partition, prm_entries
from tilewright.jit.layout import Buffer

#: weight entries of one chunk of a layer that has a single row: short enough that GEMM starts early
STREAM_ENTRIES = 32


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

    def __post_init__(self) -> None:
        c = self.config
        vectors = self.out_units // c.out_units
        per_vector = self.weight.shape[1] * self.weight.shape[2] * sum(self.in_units) // c.in_units
        acc_vectors = c.acc_bank_units // (self.width * c.out_units)
        if acc_vectors < 1:
            self.limit = (
                f"a row of {self.width} outputs needs {self.width * c.out_units} acc units, a bank has "
                f"{c.acc_bank_units}"
            )
            return
        if per_vector > c.wgt_entries:
            self.limit = f"{per_vector} weight blocks for one output block exceed the {c.wgt_entries} of wgt"
            return
        blocks, prm = self.weight_blocks(), prm_entries(self.requant, c, vectors)
        limit = STREAM_ENTRIES if self.height == 1 else c.wgt_entries // 2
        chunk_vectors = max(1, min(limit // per_vector, c.prm_entries // 4, vectors))
        row_units = self.in_width * sum(self.in_units) * self.strides[0] + self.width * self.out_units
        kh, kw = self.weight.shape[1:3]
        rows, columns = self.height * self.strides[0] + kh - 1, self.in_width + self.pad[1] + self.pad[3]
        framed = self.width + (2 if kw > 1 else 0)  # the next layer is likely to want padding too
        whole_units = rows * columns * sum(self.in_units) + self.height * framed * self.out_units
        plan = partition(
            self.height, vectors, chunk_limit=chunk_vectors, part_limit=acc_vectors, vector_weights=per_vector,
            row_units=row_units, whole_units=whole_units, config=c,
        )  # fmt: skip
        self.tasks, self._ranges, self._per_vector = plan.tasks, plan.ranges, per_vector
        chunks = {(a, b): Chunk(blocks[a * per_vector : b * per_vector], prm[a:b]) for a, b in plan.ranges}
        self.chunks = [chunks[r] for r in plan.ranges]

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

    def needs(self, task: Task, index: int) -> tuple[int, int]:
        first = task.row * self.strides[0] - self.pad[0]
        return first, first + (self.weight.shape[1] - 1) * self.dilation[0]

    def acc_units(self, task: Task) -> int:
        return self.width * (task.hi - task.lo) * self.config.out_units

    def gemm_cycles(self, task: Task) -> int:
        return (task.hi - task.lo) * self.width * self._per_vector

    def alu_cycles(self, task: Task) -> int:
        return (task.hi - task.lo) * self.width

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
        vectors, start = task.hi - task.lo, task.lo - self._ranges[task.chunk][0]
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
