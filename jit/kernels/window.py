"""Depthwise convolution and average pooling in GEMM's window mode.

Columns are pushed into the window once and shared by neighbouring outputs. The first pushes of a row only
fill the window; what they emit lands in acc units that nothing reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import (
    Chunk,
    Emit,
    Node,
    Task,
    Uop,
    int8_parts,
    is_uniform,
    partition,
    prm_entries,
    split_evenly,
)
from tilewright.jit.layout import Buffer


@dataclass(kw_only=True)
class WindowNode(Node):
    """``taps`` is int8 (KH, KW, C), or (KH, KW, 1) where all channels share them (pooling).

    ``requants``: one requantisation, or for padded average pools one per count of valid elements, chosen by
    ``counts`` (output height, output width).
    """

    taps: NDArray[np.int8]
    requants: dict[int, Requant]
    counts: NDArray[np.int64]
    strides: tuple[int, int]
    dilation_y: int
    pad: tuple[int, int, int, int]
    pad_constant: int
    _splits: list[tuple[int, int]] = field(default_factory=list)
    _parts: list[NDArray[np.int8]] = field(default_factory=list)
    _columns: int = 0
    _prime: int = 0

    def __post_init__(self) -> None:
        c = self.config
        kh, kw, _ = self.taps.shape
        self._parts = int8_parts(self.taps)  # those beyond int8 take a second pass over the same window
        self._columns = min(self.strides[1], kw)
        if kw > c.block_in:
            self.limit = f"kernel width {kw} exceeds the window of BLOCK_IN = {c.block_in} taps"
            return
        self._splits = split_evenly(kh, c.block_in // kw) * len(self._parts)
        self._prime = -(-max(0, kw - self.strides[1]) // self.strides[1])
        vectors = self.out_units // c.out_units
        room = c.acc_bank_units // (self.groups * c.out_units)
        if room < 1:
            self.limit = (
                f"a row of {self.width} outputs needs {self.groups * c.out_units} acc units, a bank has "
                f"{c.acc_bank_units}"
            )
            return
        self._shared = self.taps.shape[2] == 1
        self._uniform = all(is_uniform(r) for r in self.requants.values())
        counts = len(self.requants)
        if counts > c.prm_entries:
            self.limit = f"{counts} prm entries for counts of valid elements exceed the {c.prm_entries} of prm"
            return
        limit = vectors if self._uniform else max(1, c.prm_entries // (4 * counts))
        per_vector = 0 if self._shared else c.out_units * len(self._splits)
        if not self._shared:
            limit = max(1, min(limit, c.wgt_entries // 2 // per_vector))
        row_units = self.out_units * (self.width + self.strides[0] * self.strides[1] * self.width)
        plan = partition(
            self.height, vectors, chunk_limit=limit, part_limit=room, vector_weights=per_vector, row_units=row_units,
            whole_units=self.height * row_units, config=c,
        )  # fmt: skip
        self.tasks, self._ranges = plan.tasks, plan.ranges
        weights, prm = self._weight_entries(), [prm_entries(r, c, vectors) for r in self.requants.values()]
        chunks = {
            (a, b): Chunk(
                weights if self._shared else weights[a * per_vector : b * per_vector],
                np.concatenate([p[:1] if self._uniform else p[a:b] for p in prm]),
            )
            for a, b in plan.ranges
        }
        self.chunks = [chunks[r] for r in plan.ranges]

    @property
    def groups(self) -> int:
        """Emits per row: the outputs and the pushes that fill the window ahead of them."""
        return self.width + self._prime

    def _weight_entries(self) -> NDArray[np.int8]:
        c = self.config
        kh, kw, channels = self.taps.shape
        units = 1 if self._shared else self.out_units
        taps = np.zeros((len(self._parts), kh, kw, units * c.lanes), np.int8)
        for part, values in zip(taps, self._parts, strict=True):
            part[:, :, : None if self._shared else channels] = values
        passes = len(self._splits) // len(self._parts)
        entries = np.zeros((units, len(self._splits), c.block_out, c.block_in), np.int8)
        for s, (lo, hi) in enumerate(self._splits):
            for ky in range(lo, hi):
                for kx in range(kw):
                    slot = (kw - 1 - kx) * (hi - lo) + (hi - 1 - ky)
                    entries[:, s, : c.lanes, slot] = taps[s // passes, ky, kx].reshape(units, c.lanes)
        return entries.reshape(-1, c.block_out, c.block_in)

    def padding(self, index: int) -> tuple[int, int, int, int]:
        top, left, bottom, right = self.pad
        spare = self._prime * self.strides[1] - (self.taps.shape[1] - self._columns)
        return top, left + max(0, spare), bottom, right

    def pad_value(self, index: int) -> int | None:
        return self.pad_constant if any(self.pad) else None

    def needs(self, task: Task, index: int) -> tuple[int, int]:
        first = task.row * self.strides[0] - self.pad[0]
        return first, first + (self.taps.shape[0] - 1) * self.dilation_y

    def acc_units(self, task: Task) -> int:
        return self.groups * (task.hi - task.lo) * self.config.out_units

    def _paced(self, rows: int) -> bool:
        return self.config.dsp_packing and rows * self._columns < 2

    def gemm_cycles(self, task: Task) -> int:
        pushes = sum((hi - lo) * self._columns * (1 + self._paced(hi - lo)) for lo, hi in self._splits)
        return self.groups * (task.hi - task.lo) * self.config.out_units * pushes

    def alu_cycles(self, task: Task) -> int:
        return (task.hi - task.lo) * self.width

    def _uops(self, source: Buffer, split: int) -> list[Uop]:
        lo, hi = self._splits[split]
        uops: list[Uop] = [
            (-1, ky * self.dilation_y * source.stride + column * source.units, split, int(split > 0))
            for column in range(self._columns)
            for ky in range(lo, hi)
        ]
        uops[-1] = (0, *uops[-1][1:])
        return uops

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        return [self._uops(buffers[0], split) for split in range(len(self._splits))]

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        source = e.buffer(self.inputs[0])
        units, first = (task.hi - task.lo) * c.out_units, task.lo * c.out_units
        start, stop = self._ranges[task.chunk]
        chunk_first = start * c.out_units
        column = self.taps.shape[1] - self._columns - self._prime * self.strides[1] - self.pad[1]
        for split, (lo, hi) in enumerate(self._splits):
            e.gemm(
                self._uops(source, split),
                window=1, pace=int(self._paced(hi - lo)),
                outer=units, inner=self.groups,
                dst=acc, dst_outer=1, dst_inner=units,
                src=source.offset(task.row * self.strides[0] - self.pad[0], column, first), src_outer=1,
                src_inner=self.strides[1] * source.units,
                wgt=e.weight_base(task.chunk) + (0 if self._shared else (first - chunk_first) * len(self._splits)),
                wgt_outer=0 if self._shared else len(self._splits),
                **source.wrap,
            )  # fmt: skip
        depth = 1 if self._uniform else stop - start
        for x, end, count in _runs(self.counts[task.row]):
            entry = list(self.requants).index(count) * depth + (0 if self._uniform else task.lo - start)
            for out in e.outputs(self.output):
                e.requantize(
                    self.requants[count], out,
                    outer=task.hi - task.lo, inner=end - x,
                    src=acc + (self._prime + x) * units, src_outer=c.out_units, src_inner=units,
                    dst=out.offset(task.row, x, self.first_unit + first), dst_outer=c.out_units, dst_inner=out.units,
                    prm=e.prm_base(task.chunk) + entry, prm_outer=0 if self._uniform else 1,
                )  # fmt: skip


def _runs(counts: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """(start, stop, value) of the runs of equal values in a row."""
    edges = [0, *(np.nonzero(np.diff(counts))[0] + 1).tolist(), len(counts)]
    return [(a, b, int(counts[a])) for a, b in pairwise(edges)]


def valid_counts(size: int, out: int, kernel: int, stride: int, before: int) -> NDArray[np.int64]:
    """Valid (unpadded) elements under a pooling window, per output position along one axis."""
    start = np.arange(out) * stride - before
    return np.minimum(start + kernel, size) - np.maximum(start, 0)
