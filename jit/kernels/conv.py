"""Dense convolution (and fully connected, matmul): one batch-reduce GEMM over kernel positions and input blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, Uop, prm_entries
from tilewright.jit.kernels.of_weights import of_weights
from tilewright.jit.kernels.runs import Run, block_places, runs_of
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.cut import STREAM_ENTRIES
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.plan.ranges import split_evenly

#: cycles that an instruction more must save, and how many times the micro-ops of all blocks a layer may take for it
GEMM_COST, MOST_UOPS = 8, 4


class _Work(NamedTuple):
    """Which blocks each vector computes, and the runs; ``starts``: blocks before each vector and of all, ``most``: of
    one vector."""

    filled: NDArray[np.bool_]
    runs: list[Run]
    starts: list[int]
    most: int

    @classmethod
    def of(cls, filled: NDArray[np.bool_], runs: list[Run]) -> _Work:
        """With what follows from ``filled``."""
        counts = filled.sum(axis=1)
        return cls(filled, runs, [0, *np.cumsum(counts).tolist()], int(counts.max()))


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
            self.pad[1] + self.pad[3], *self.strides, 1, 0, 0, 0, 0, 1, self._work.most, self.starts[-1],
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return self.strides[0], -self.pad[0], (self.weight.shape[1] - 1) * self.dilation[0] + 1

    @cached_property
    def _nonzero(self) -> NDArray[np.bool_]:
        c = self.config
        key = ("nonzero", c.block_in, c.block_out, c.lanes, self.vectors, *self.in_units)
        return of_weights(self.weight, key, self._find_nonzero)

    def _find_nonzero(self) -> NDArray[np.bool_]:
        """Of each vector which blocks have weights that are not zero, in the order of :meth:`weight_blocks`."""
        c, kernel = self.config, self.weight.shape[1:3]
        rows = np.bitwise_or.reduceat(self.weight, np.arange(0, self.weight.shape[0], c.block_out), axis=0)
        result, first = [], 0
        for units in self.in_units:
            part = rows[..., first : first + units * c.lanes]
            full = np.zeros((self.vectors, *kernel, units * c.lanes), np.int8)
            full[: len(part), :, :, : part.shape[3]] = part
            result.append(full.reshape(len(full), -1, c.block_in).any(axis=2))
            first += units * c.lanes
        return np.concatenate(result, axis=1)

    @property
    def filled_blocks(self) -> int:
        """Blocks (BLOCK_OUT, BLOCK_IN) of weights that are not all zero: of a grouped layer, those of its groups."""
        return int(self._nonzero.sum())

    @cached_property
    def _work(self) -> _Work:
        c = self.config
        key = ("work", c.block_in, c.block_out, c.lanes, self.vectors, self.width, *self.in_units)
        return of_weights(self.weight, key, self._find_work)

    def _find_work(self) -> _Work:
        """Which blocks each vector computes, and the runs: the nonzero ones, or all where that saves too little."""
        c, kernel, filled = self.config, self.weight.shape[1:3], self._nonzero.copy()
        places = block_places(kernel, [units // c.in_units for units in self.in_units])
        filled[~filled.any(axis=1), 0] = True  # acc must be written even where all weights are zero
        runs = runs_of(places, filled)
        saved = self.width * int(filled.size - filled.sum())
        uops = sum(len(run.blocks) for run in runs)
        if saved < GEMM_COST * (len(runs) - 1) or uops > MOST_UOPS * len(places):
            return _Work.of(np.ones_like(filled), [Run(0, len(filled), places)])
        return _Work.of(filled, runs)

    @property
    def runs(self) -> list[Run]:
        """Which vectors one instruction does."""
        return self._work.runs

    @property
    def starts(self) -> list[int]:
        """Blocks computed before each vector, and of all vectors."""
        return self._work.starts

    @cached_property
    def _constants(self) -> Chunk:
        blocks = self.weight_blocks()
        filled = self._work.filled.ravel()
        return Chunk(blocks if filled.all() else blocks[filled], prm_entries(self.requant, self.config, self.vectors))

    def constant_entries(self) -> tuple[int, int]:
        return self.filled_blocks, self.vectors

    def constants(self, lo: int, hi: int) -> Chunk:
        return Chunk(self._constants.weights[self.starts[lo] : self.starts[hi]], self._constants.prm[lo:hi])

    def cut(self, row: Sequence[int]) -> None:
        """A layer of one pixel over slices takes each as it comes: its weights cross the bus while others are made."""
        super().cut(row)
        c, vectors, inputs = self.config, self.vectors, self.runs[0].inputs
        streams = (self.height, self.width) == (1, 1) and len(self.ranges) > 1 and len(inputs) > 1
        alike = len(self.runs) == 1 and vectors * c.out_units <= c.acc_bank_units
        self.by_inputs = streams and alike and c.acc_banks > 2
        if not self.by_inputs:
            return
        constants, each = self._constants, len(self.runs[0].blocks)
        by_vector = constants.weights.reshape(vectors, each, c.block_out, c.block_in)
        self.ranges = split_evenly(vectors, max(1, STREAM_ENTRIES * len(inputs) // each))
        self.tasks, self._chunks = [], []
        for source, entry, _, blocks in inputs:
            last = source == inputs[-1][0]
            for lo, hi in self.ranges:
                weights = by_vector[lo:hi, entry : entry + len(blocks)].reshape(-1, c.block_out, c.block_in)
                self.tasks.append(Task(0, lo, hi, len(self._chunks), last and hi == vectors, source, last))
                self._chunks.append(Chunk(weights, constants.prm[lo:hi] if last else constants.prm[:0]))

    def gemm_cycles(self, task: Task) -> int:
        if task.source >= 0:
            return len(self._chunks[task.chunk].weights)
        return (self.starts[task.hi] - self.starts[task.lo]) * self.width

    def alu_cycles(self, task: Task) -> int:
        return super().alu_cycles(task) if task.finishes else 0

    def weight_blocks(self) -> NDArray[np.int8]:
        """Blocks [output vector][input][ky][kx][input vector] of (BLOCK_OUT, BLOCK_IN)."""
        c = self.config
        oc, kh, kw, _ = self.weight.shape
        vectors, per_vector = self.vectors, kh * kw * sum(self.in_units) // c.in_units
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

    def padding(self, index: int) -> tuple[int, int, int, int]:
        return self.pad

    def pad_value(self, index: int) -> int | None:
        return self.pad_constant if any(self.pad) else None

    def _uops(self, source: Buffer, blocks: list[list[int]], entry: int) -> list[Uop]:
        """Over the blocks of one input; ``entry`` of the vector's blocks come before them."""
        row, column, unit = self.dilation[0] * source.stride, self.dilation[1] * source.units, self.config.in_units
        offsets = [ky * row + kx * column + block * unit for ky, kx, block in blocks]
        return [(0, offset, k, int(entry > 0 or k > 0)) for k, offset in enumerate(offsets)]

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        return [self._uops(buffers[i], blocks, entry) for run in self.runs for i, entry, _, blocks in run.inputs]

    def sums(
        self, e: Emit, sources: Sequence[Buffer], *, row: int, lo: int, hi: int, width: int, wgt: int, acc: int,
        pixel: int, source: int = -1,
    ) -> None:  # fmt: skip
        """Emit the GEMMs of the vectors [lo, hi) over the first ``width`` pixels of a row, of one source or all (-1).

        ``wgt`` is where vector 0 would have its weights, ``acc`` where vector ``lo`` goes, pixels ``pixel`` units
        apart.
        """
        c = self.config
        step = c.in_units
        for run in self.runs:
            first, last = max(run.lo, lo), min(run.hi, hi)
            if first >= last:
                continue
            weights = wgt + self.starts[first]
            for index, entry, block, blocks in run.inputs:
                if source not in (-1, index):
                    continue
                buffer = sources[index]
                place = block + (first - run.lo) * run.shift
                e.gemm(
                    self._uops(buffer, blocks, entry),
                    outer=last - first, inner=width,
                    dst=acc + (first - lo) * c.out_units, dst_outer=c.out_units, dst_inner=pixel,
                    src=buffer.offset(row * self.strides[0] - self.pad[0], -self.pad[1], place * step),
                    src_outer=run.shift * step, src_inner=self.strides[1] * buffer.units,
                    wgt=weights if self.by_inputs else weights + entry,
                    wgt_outer=len(blocks if self.by_inputs else run.blocks),
                    **buffer.wrap,
                )  # fmt: skip

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        vectors, start = task.hi - task.lo, self.chunk_range(task)[0]
        pixel = vectors * c.out_units
        if self.by_inputs:  # all vectors lie side by side until the last input
            acc += task.lo * c.out_units
        self.sums(
            e, [e.buffer(name) for name in self.inputs], row=task.row, lo=task.lo, hi=task.hi, width=self.width,
            wgt=e.weight_base(task.chunk) - self.starts[start], acc=acc, pixel=pixel, source=task.source,
        )  # fmt: skip
        if task.finishes:
            self.finish(task, e, acc, pixel)

    def finish(self, task: Task, e: Emit, acc: int, pixel: int) -> None:
        """Emit what a task makes of its sums, which begin at ``acc``, pixels ``pixel`` units apart."""
        c = self.config
        vectors, start = task.hi - task.lo, self.chunk_range(task)[0]
        for out in e.outputs(self.output):
            e.requantize(
                self.requant, out,
                outer=vectors, inner=self.width,
                src=acc, src_outer=c.out_units, src_inner=pixel,
                dst=out.offset(task.row, 0, self.first_unit + task.lo * c.out_units),
                dst_outer=c.out_units * out.step, dst_inner=out.pixel,
                prm=e.prm_base(task.chunk) + task.lo - start, prm_outer=1,
            )  # fmt: skip
