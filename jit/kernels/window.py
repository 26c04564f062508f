"""Depthwise convolution and average pooling in GEMM's window mode.

Columns are pushed into the window once and shared by neighbouring outputs. The first pushes of a row only
fill the window; what they emit lands in acc units that nothing reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
    prm_entries,
    split_evenly,
)
from tilewright.jit.layout import Buffer
from tilewright.jit.plan import tables as t


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

    def __post_init__(self) -> None:
        kh, kw, _ = self.taps.shape
        self._parts = int8_parts(self.taps)  # those beyond int8 take a second pass over the same window
        self._columns = min(self.strides[1], kw)
        self._splits = split_evenly(kh, self.config.block_in // kw) * len(self._parts)
        self._prime = -(-max(0, kw - self.strides[1]) // self.strides[1])
        self._shared = self.taps.shape[2] == 1
        self._uniform = all(is_uniform(r) for r in self.requants.values())

    def extents(self) -> tuple[int, ...]:
        kh, kw, _ = self.taps.shape
        return (
            t.WINDOW, self.height, self.width, self.out_units, kh, kw, 0, 0, 0, *self.strides, len(self._parts), 0, 0,
            self._uniform, self._shared, len(self.requants), 0, self.out_units + sum(
                int(self._by_unit(part).any(axis=(0, 1)).sum()) for part in self._parts[1:]
            ),
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return self.strides[0], -self.pad[0], (self.taps.shape[0] - 1) * self.dilation_y + 1

    @cached_property
    def _constants(self) -> tuple[NDArray[np.int8], list[NDArray[np.int32]]]:
        vectors = self.out_units // self.config.out_units
        return self._weight_entries(), [prm_entries(r, self.config, vectors) for r in self.requants.values()]

    def constant_entries(self) -> tuple[int, int]:
        vectors = 1 if self._uniform else self.out_units // self.config.out_units
        return len(self._splits) if self._shared else int(self._used.sum()), vectors * len(self.requants)

    def constants(self, lo: int, hi: int) -> Chunk:
        weights, prm = self._constants
        each = self.config.out_units * len(self._splits)
        return Chunk(
            weights if self._shared else weights[lo * each : hi * each],
            np.concatenate([p[:1] if self._uniform else p[lo:hi] for p in prm]),
        )

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

    @cached_property
    def _used(self) -> NDArray[np.bool_]:
        """Whether each unit has taps in a split that are not all zero: (splits, units)."""
        passes = len(self._splits) // len(self._parts)
        taps = [self._by_unit(self._parts[k // passes])[lo:hi] for k, (lo, hi) in enumerate(self._splits)]
        return np.stack([part.any(axis=(0, 1)) for part in taps])

    def _spans(self, split: int, task: Task) -> list[tuple[int, int]]:
        """Units of a task, [first, last), that run through a split: all through the first, which writes acc."""
        first, last = task.lo * self.config.out_units, task.hi * self.config.out_units
        used = self._used[split, first:last]
        if split == 0 or used.all():
            return [(first, last)]
        return [(first + a, first + b) for a, b, runs in _runs(used) if runs]

    def kernel_rows(self) -> NDArray[np.int64]:
        """Rows of the kernel with a tap that is not zero, of each unit of a pixel."""
        return self._by_unit(self.taps).any(axis=1).sum(axis=0)

    def _by_unit(self, taps: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether taps (KH, KW, C) are not zero in some channel of each unit: (KH, KW, units)."""
        used = np.zeros((*taps.shape[:2], self.out_units * self.config.lanes), np.bool_)
        used[..., : None if self._shared else taps.shape[2]] = taps != 0
        return np.asarray(used.reshape(*taps.shape[:2], self.out_units, -1).any(axis=3))

    def gemm_cycles(self, task: Task) -> int:
        rows = [hi - lo for lo, hi in self._splits]
        units = [sum(end - unit for unit, end in self._spans(split, task)) for split in range(len(rows))]
        pushes = sum(n * r * self._columns * (1 + self._paced(r)) for n, r in zip(units, rows, strict=True))
        return self.groups * pushes

    def _paced(self, rows: int) -> bool:
        return self.config.dsp_packing and rows * self._columns < 2

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
        start, stop = self.chunk_range(task)
        chunk_first = start * c.out_units
        column = self.taps.shape[1] - self._columns - self._prime * self.strides[1] - self.pad[1]
        for split, (lo, hi) in enumerate(self._splits):
            for unit, end in self._spans(split, task):
                entry = 0 if self._shared else (unit - chunk_first) * len(self._splits)
                e.gemm(
                    self._uops(source, split),
                    window=1, pace=int(self._paced(hi - lo)),
                    outer=end - unit, inner=self.groups,
                    dst=acc + unit - first, dst_outer=1, dst_inner=units,
                    src=source.offset(task.row * self.strides[0] - self.pad[0], column, unit), src_outer=1,
                    src_inner=self.strides[1] * source.units,
                    wgt=e.weight_base(task.chunk) + entry, wgt_outer=0 if self._shared else len(self._splits),
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


def _runs(counts: NDArray[np.integer | np.bool_]) -> list[tuple[int, int, int]]:
    """(start, stop, value) of the runs of equal values in a row."""
    edges = [0, *(np.nonzero(np.diff(counts))[0] + 1).tolist(), len(counts)]
    return [(a, b, int(counts[a])) for a, b in pairwise(edges)]


def valid_counts(size: int, out: int, kernel: int, stride: int, before: int) -> NDArray[np.int64]:
    """Valid (unpadded) elements under a pooling window, per output position along one axis."""
    start = np.arange(out) * stride - before
    return np.minimum(start + kernel, size) - np.maximum(start, 0)
