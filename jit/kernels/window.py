"""Depthwise convolution and average pooling in GEMM's window mode.

Columns are pushed into the window once and shared by neighbouring outputs, and by the rows of a strip
(:mod:`tilewright.jit.plan.strips`). The first pushes of a row only fill the window; what they emit lands in acc
units that nothing reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Node, Task, Uop, prm_entries
from tilewright.jit.kernels.of_weights import of_weights
from tilewright.jit.kernels.weight_bits import weight_parts
from tilewright.jit.plan import strips
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.plan.ranges import split_into


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
        _, kw, _ = self.taps.shape
        #: those beyond a weight's bits take further passes over the same window
        self._parts = weight_parts(self.taps, self.config.weight_bits, self.name)
        self._columns, self._mode = min(self.strides[1], kw), strips.emit_mode(self.config)
        self._twins, self._odd = False, 0
        self._prime = -(-max(0, kw - self.strides[1]) // self.strides[1])
        self._shared = self.taps.shape[2] == 1
        self._uniform = all(r.uniform for r in self.requants.values())
        self._cut_rows(1)

    @property
    def may_have_twins(self) -> bool:
        """Whether a push may take two rows, if the input lies so."""
        kh, kw, _ = self.taps.shape
        shape = kh, kw, self._columns, self.strides[0]
        return (
            strips.has_twins(self.config) and self.dilation_y == 1
            and bool(strips.twin_mode(*shape, self.config.block_in) >= 0)
        )  # fmt: skip

    def allow_twins(self, height: int) -> None:
        """Nobody else reads the input, of so many rows: so its rows may lie in twos, a whole number of them."""
        if self.may_have_twins:
            self._twins, self._odd = True, (self.pad[0] + height + self.pad[2]) % 2

    def extents(self) -> tuple[int, ...]:
        kh, kw, _ = self.taps.shape
        return (
            t.WINDOW, self.height, self.width, self.out_units, kh, kw, 0, 0, self._twins, *self.strides,
            len(self._parts), 0, 0, self._uniform, self._shared, len(self.requants), self.dilation_y,
            self.vectors * self.config.out_units + sum(
                int(self._by_unit(part).any(axis=(0, 1)).sum()) for part in self._parts[1:]
            ),
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return self.strides[0], -self.pad[0], (self.taps.shape[0] - 1) * self.dilation_y + 1

    def needs(self, task: Task, index: int) -> tuple[int, int]:
        first, last = super().needs(task, index)
        return first, last + (strips.is_twin(self._mode) and (last - first + 1) % 2)

    def _cut_rows(self, rows: int, last: int = 0) -> None:
        """Strips of so many rows, the last one of ``last`` where it has weights of its own.

        ``_splits``: the rows of the kernel in each pass."""
        kh, kw, _ = self.taps.shape
        self._rows, self._last, self._passes = rows, last, max(1, strips.passes_of(
            kh, kw, self._columns, self.strides[0], rows, self.config.block_in, self._mode
        ))  # fmt: skip
        self._splits = split_into(kh, self._passes) * len(self._parts)
        key = ("used", self.config.weight_bits, self.config.lanes, self.out_units, self._passes)
        #: whether each unit has taps in a split that are not all zero: (splits, units)
        self._used = of_weights(self.taps, key, self._find_used)
        self.__dict__.pop("_weights", None)

    def _find_used(self) -> NDArray[np.bool_]:
        taps = [self._by_unit(self._parts[k // self._passes])[lo:hi] for k, (lo, hi) in enumerate(self._splits)]
        return np.stack([part.any(axis=(0, 1)) for part in taps])

    def _height(self, task: Task) -> int:
        """Rows of the strip that a task's weights are laid out for."""
        return self._last if self._last and task.rows == self._last else self._rows

    def _each(self, rows: int) -> int:
        """Weight entries of a pass for a unit, for strips of so many rows."""
        return strips.entries_of(self.strides[0], rows, self._mode)

    def _stack(self, rows: int) -> int:
        """Rows of a strip whose vectors lie side by side in acc."""
        return 2 if strips.in_pairs(rows, self._mode) else 1

    def _apart(self, rows: int) -> int:
        """Units of acc between rows of a strip that do not lie side by side."""
        units = self.config.out_units * self._stack(rows)
        return self.config.acc_bank_units * self._stack(rows) // (rows * units) * units

    def cut(self, row: Sequence[int]) -> None:
        if (row[t.N_ROWS], row[t.N_LAST], row[t.N_MODE]) != (self._rows, self._last, self._mode):
            self._mode = int(row[t.N_MODE])
            self._cut_rows(int(row[t.N_ROWS]), int(row[t.N_LAST]))
        super().cut(row)

    @cached_property
    def _weights(self) -> list[NDArray[np.int8]]:
        """Entries (units, entries of a unit, BLOCK_OUT, BLOCK_IN) for all strips, and for the last one's."""
        return [self._weight_entries(rows) for rows in (self._rows, self._last) if rows]

    @cached_property
    def _prm(self) -> list[NDArray[np.int32]]:
        return [prm_entries(r, self.config, self.vectors) for r in self.requants.values()]

    def constant_entries(self) -> tuple[int, int]:
        vectors = 1 if self._uniform else self.vectors
        used = sum(int(self._by_unit(part).any(axis=(0, 1)).sum()) for part in self._parts)
        return len(self._parts) if self._shared else used, vectors * len(self.requants)

    def constants(self, lo: int, hi: int) -> Chunk:
        prm, block = self._prm, (self.config.block_out, self.config.block_in)
        units = slice(None) if self._shared else slice(lo * self.config.out_units, hi * self.config.out_units)
        return Chunk(
            np.concatenate([w[units].reshape(-1, *block) for w in self._weights]),
            np.concatenate([p[:1] if self._uniform else p[lo:hi] for p in prm]),
            self._stack(self._rows),
        )

    @property
    def groups(self) -> int:
        """Emits per row: the outputs and the pushes that fill the window ahead of them."""
        return self.width + self._prime

    def _weight_entries(self, rows: int) -> NDArray[np.int8]:
        c, each, stack = self.config, self._each(rows), self._stack(rows)
        kh, kw, channels = self.taps.shape
        units = 1 if self._shared else self.out_units
        taps = np.zeros((len(self._parts), kh, kw, units * c.lanes), np.int8)
        for part, values in zip(taps, self._parts, strict=True):
            part[:, :, : None if self._shared else channels] = values
        entries = np.zeros((units, len(self._splits), each, c.block_out, c.block_in), np.int8)
        for s, (lo, hi) in enumerate(self._splits):
            shape, part = self._shape(hi - lo, rows), taps[s // self._passes].reshape(kh, kw, units, c.lanes)
            for row in range(each):
                slot = strips.emit_slot(row, *shape)
                for ky in range(lo, hi):
                    for kx in range(kw):
                        at = row * self.strides[0] + ky - lo
                        tap = strips.tap(slot, kw - 1 - kx, at, *shape[:-1], c.block_in, self._mode)
                        if stack == 1:
                            entries[:, s, row, : c.lanes, tap] = part[ky, kx]
                        else:  # the rows of a pair for even lanes, then for odd ones
                            for odd in range(2):
                                entries[:, s, odd, row : c.lanes : 2, tap] = part[ky, kx, :, odd::2]
        return entries.reshape(units, -1, c.block_out, c.block_in)

    def padding(self, index: int) -> tuple[int, int, int, int]:
        top, left, bottom, right = self.pad
        spare = self._prime * self.strides[1] - (self.taps.shape[1] - self._columns)
        return top, left + max(0, spare), bottom + self._odd, right

    def pad_value(self, index: int) -> int | None:
        return self.pad_constant if any(self.pad) else None

    def _shape(self, kernel: int, rows: int) -> tuple[int, int, int, int, int]:
        """What :mod:`~tilewright.jit.plan.strips` asks of a pass over ``kernel`` rows of it, for strips of ``rows``."""
        return kernel, self._columns, self.strides[0], rows, self._mode

    def _spans(self, split: int, task: Task) -> list[tuple[int, int]]:
        """Units of a task, [first, last), that run through a split: all through the first, which writes acc."""
        first, last = task.lo * self.config.out_units, task.hi * self.config.out_units
        used = self._used[split, first:last]
        if split == 0 or used.all():
            return [(first, last)]
        return [(first + a, first + b) for a, b, runs in _runs(used) if runs]

    def kernel_rows(self) -> NDArray[np.int64]:
        """Rows of the kernel with a tap that is not zero, of each unit of a pixel that is computed."""
        units = self.vectors * self.config.out_units
        return self._by_unit(self.taps)[..., :units].any(axis=1).sum(axis=0)

    def _by_unit(self, taps: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether taps (KH, KW, C) are not zero in some channel of each unit: (KH, KW, units)."""
        used = np.zeros((*taps.shape[:2], self.out_units * self.config.lanes), np.bool_)
        used[..., : None if self._shared else taps.shape[2]] = taps != 0
        return np.asarray(used.reshape(*taps.shape[:2], self.out_units, -1).any(axis=3))

    def gemm_cycles(self, task: Task) -> int:
        rows, height = [hi - lo for lo, hi in self._splits], self._height(task)
        units = [sum(end - unit for unit, end in self._spans(split, task)) for split in range(len(rows))]
        slots = [strips.step_slots(*self._shape(r, height)) * (1 + self._paced(r, height)) for r in rows]
        return self.groups * sum(n * s for n, s in zip(units, slots, strict=True))

    def _paced(self, kernel: int, rows: int) -> bool:
        return bool(strips.paced(kernel, self._columns, rows, self._mode))

    def _uops(self, source: Buffer, split: int, task: Task) -> list[Uop]:
        """A step of a task's rows of a strip; rows that only others read give way to the last one read."""
        (lo, hi), rows, height = self._splits[split], task.rows, self._height(task)
        shape, stride = self._shape(hi - lo, height), self.strides[0]
        last = strips.column_rows(rows, hi - lo, stride) - 1
        last -= last % source.step
        pushes = [
            (lo + min(row, last)) * self.dilation_y * source.stride + column * source.pixel
            for column, row in (strips.pushed(slot, *shape) for slot in range(strips.step_slots(*shape)))
        ]
        stack, each, apart = self._stack(height), self._each(height), self._apart(height)
        emits = {strips.emit_slot(row, *shape): row for row in range(0, rows, stack)}
        uops: list[Uop] = []
        for slot, push in enumerate(pushes):
            row = emits.get(slot, -1)
            entry = split * each + strips.entry_of(max(row, 0), stride, height, self._mode)
            uops.append((-1 if row < 0 else row // stack * apart, push, entry, int(split > 0)))
        return uops

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        tasks = {task.rows: task for task in self.tasks}.values()
        return [self._uops(buffers[0], split, task) for task in tasks for split in range(len(self._splits))]

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c = self.config
        source = e.buffer(self.inputs[0])
        units, first = (task.hi - task.lo) * c.out_units, task.lo * c.out_units
        start, stop = self.chunk_range(task)
        height, held = self._height(task), 1 if self._shared else (stop - start) * c.out_units
        stack, each, apart = self._stack(height), len(self._splits) * self._each(height), self._apart(height)
        weights = e.weight_base(task.chunk)
        if height != self._rows:  # behind those of the others
            weights += held * len(self._splits) * self._each(self._rows)
        column = self.taps.shape[1] - self._columns - self._prime * self.strides[1] - self.pad[1]
        for split, (lo, hi) in enumerate(self._splits):
            for unit, end in self._spans(split, task):
                entry = 0 if self._shared else (unit - start * c.out_units) * each
                e.gemm(
                    self._uops(source, split, task),
                    window=1, pair=int(stack == 2), twin=int(strips.is_twin(self._mode)),
                    pace=int(self._paced(hi - lo, height)),
                    outer=end - unit, inner=self.groups,
                    dst=acc + (unit - first) * stack, dst_outer=stack, dst_inner=units * stack,
                    src=source.offset(task.row * self.strides[0] - self.pad[0], column, unit),
                    src_outer=source.step, src_inner=self.strides[1] * source.pixel,
                    wgt=weights + entry, wgt_outer=0 if self._shared else each,
                    **source.wrap,
                )  # fmt: skip
        depth, step = 1 if self._uniform else stop - start, units * stack
        for row in range(task.rows):
            for x, end, count in _runs(self.counts[task.row + row]):
                entry = list(self.requants).index(count) * depth + (0 if self._uniform else task.lo - start)
                at = acc + row // stack * apart + row % stack + (self._prime + x) * step
                for out in e.outputs(self.output):
                    e.requantize(
                        self.requants[count], out,
                        outer=task.hi - task.lo, inner=end - x,
                        src=at, src_outer=c.out_units * stack, src_inner=step,
                        dst=out.offset(task.row + row, x, self.first_unit + first),
                        dst_outer=c.out_units * out.step, dst_inner=out.pixel,
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
