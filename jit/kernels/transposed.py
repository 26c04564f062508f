"""Transposed convolution: as many convolutions of the image as it is, as there are places between its pixels.

Of an image spread by s, output rows p, p + s, ... look at the same kernel rows, those that meet pixels and not what
lies between them, and so do columns. Each of these s x s *phases* is an ordinary convolution with part of the kernel;
together they multiply each weight with each pixel once. In acc a row has its phases of columns beside each other, as
so many times its channels; REQUANTIZE puts them where they belong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Chunk, Emit, Lattice, Node, Task, Uop
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import Buffer
from tilewright.runtime.steps import TensorSpec


class Phase(NamedTuple):
    """Along one axis: outputs ``first``, ``first + spread``, ..., so many ``outputs``, whose first reads ``taps``
    neighbouring inputs from ``at`` on, with kernel positions ``tap``, ``tap + spread``, ..."""

    first: int
    outputs: int
    at: int
    tap: int
    taps: int


def phases_of(size: int, kernel: int, spread: int, before: int) -> list[Phase]:
    """Of an axis with ``size`` outputs; a kernel that is no shorter than ``spread``, ``before`` pixels of padding."""
    found = []
    for first in range(min(spread, size)):
        tap = (before - first) % spread
        found.append(
            Phase(
                first, -(-(size - first) // spread), (first - before + tap) // spread, tap, -(-(kernel - tap) // spread)
            )
        )
    return found


def written_out(weight: NDArray[np.integer], dilation: tuple[int, int], spread: tuple[int, int]) -> NDArray[np.integer]:
    """(OC, KH, KW, IC) with the zeros of a dilation in spread axes, and no fewer kernel positions than phases."""
    for axis, (apart, step) in enumerate(zip(dilation, spread, strict=True), 1):
        if step > 1:
            shape = list(weight.shape)
            shape[axis] = max((shape[axis] - 1) * apart + 1, step)
            wide = np.zeros(shape, weight.dtype)
            places = [slice(None)] * 4
            places[axis] = slice(0, (weight.shape[axis] - 1) * apart + 1, apart)
            wide[tuple(places)] = weight
            weight = wide
    return weight


@dataclass(kw_only=True)
class TransposedNode(Node):
    """``weight``: int8 (OC, KH, KW, IC) over the inputs' channels as stored, of :func:`written_out`; ``dilation``: of
    the axes that are not spread. ``pad``: (top, left) of the spread image; negative where pixels are left out.
    """

    weight: NDArray[np.int8]
    requant: Requant
    spread: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    pad_constant: int
    in_units: list[int]
    in_size: tuple[int, int]

    def __post_init__(self) -> None:
        kernel = self.weight.shape[1:3]
        sides = zip((self.height, self.width), kernel, self.spread, self.pad, strict=True)
        self.rows, self.columns = (phases_of(*side) for side in sides)

    @property
    def vectors(self) -> int:
        """Those of a pixel of each phase of columns, one phase's behind another's."""
        return len(self.columns) * self.pixel_vectors

    def for_tiles(self) -> list[ConvNode]:
        """The node as several that write the result in DRAM. Where all columns read alike, as under kernels of the
        stride's size, and a pixel takes array and bus less than its burst waits, neighbouring pixels are one of more
        channels, stored in one piece."""
        c, alike = self.config, len({(across.at, across.taps) for across in self.columns}) == 1
        taps = max(down.taps for down in self.rows) * self.columns[0].taps
        array = taps * sum(self.in_units) // c.in_units * self.pixel_vectors
        short = max(array, self.out_units * c.act_unit_bytes // c.beat_bytes) * c.outstanding < c.dram_latency
        if not (alike and short) or len(self.columns) == 1 or self.width % self.spread[1]:
            return self.by_pixel()
        step = self.spread[1]
        return [
            replace(phase, inputs=[*self.inputs], lattice=Lattice(self.spread[0], down.first, step, 0, step))
            for phase, down in zip(self._by_row(self.out_units * c.lanes), self.rows, strict=True)
        ]  # fmt: skip

    def by_pixel(self) -> list[ConvNode]:
        """The phases one by one: convolutions that each write some rows and columns of the result."""
        return [
            ConvNode(
                name=f"{self.name}.{down.first}.{across.first}", layer=self.layer, config=self.config,
                inputs=[*self.inputs], output=self.output, first_unit=self.first_unit,
                out=replace(self.out, shape=(1, down.outputs, across.outputs, self.out.shape[3])),
                weight=self._kernel(down, across), requant=self._requant(down, across), strides=(1, 1),
                dilation=self._apart, pad=(-down.at, -across.at, 0, 0), pad_constant=self.pad_constant,
                in_units=self.in_units, in_width=self.in_size[1],
                lattice=Lattice(self.spread[0], down.first, self.spread[1], across.first),
            )
            for down in self.rows for across in self.columns
        ]  # fmt: skip

    @cached_property
    def by_row(self) -> list[ConvNode]:
        """For each phase of rows the convolution whose channels are those of all phases of columns."""
        return self._by_row(self.pixel_vectors * self.config.block_out)

    def _by_row(self, lanes: int) -> list[ConvNode]:
        """Each phase of columns has so many channels, its own and zeros."""
        channels = self.weight.shape[0]
        left, right = self._reach
        found = []
        for down in self.rows:
            shape = (len(self.columns), lanes, down.taps, right - left, self.weight.shape[3])
            weight, prm = np.zeros(shape, np.int8), np.zeros((4, len(self.columns), lanes), np.int32)
            for k, across in enumerate(self.columns):
                first, step = across.at - left, self._apart[1]
                weight[k, :channels, :, first : first + (across.taps - 1) * step + 1 : step] = self._kernel(
                    down, across
                )
                part = self._requant(down, across)
                prm[:, k, :channels] = part.bias, part.multiplier, part.shift, part.offset
            bias, multiplier, shift, offset = prm.reshape(4, -1)
            found.append(
                ConvNode(
                    name=self.name, layer=self.layer, config=self.config, inputs=self.inputs, output=self.output,
                    out=TensorSpec(self.output, (1, down.outputs, self.columns[0].outputs, bias.size)),
                    weight=weight.reshape(-1, *shape[2:]), strides=(1, 1), dilation=(self._apart[0], 1),
                    requant=replace(self.requant, bias=bias, multiplier=multiplier, shift=shift, offset=offset),
                    pad=(-down.at, -left, 0, 0), pad_constant=self.pad_constant, in_units=self.in_units,
                    in_width=self.in_size[1],
                )
            )  # fmt: skip
        return found

    @property
    def _apart(self) -> tuple[int, int]:
        """Distances of a phase's taps in the image."""
        down, across = (1 if step > 1 else d for step, d in zip(self.spread, self.dilation, strict=True))
        return down, across

    @property
    def _reach(self) -> tuple[int, int]:
        """The first column that a row's first pixels of all phases read, and the one behind the last."""
        step = self._apart[1]
        return min(c.at for c in self.columns), max(c.at + (c.taps - 1) * step + 1 for c in self.columns)

    def _kernel(self, down: Phase, across: Phase) -> NDArray[np.int8]:
        return self.weight[:, down.tap :: self.spread[0], across.tap :: self.spread[1]]

    def _requant(self, down: Phase, across: Phase) -> Requant:
        """With what the pixels between those of the image add where a phase's other kernel positions lie."""
        sums = (w.sum(axis=(1, 2, 3), dtype=np.int64) for w in (self.weight, self._kernel(down, across)))
        bias = self.requant.bias + self.pad_constant * np.subtract(*sums)
        return replace(self.requant, bias=wrap_int32(bias).astype(np.int32))

    # -- what a planner asks ---------------------------------------------------------------------------

    def extents(self) -> tuple[int, ...]:
        blocks = np.sum([np.diff(phase.starts) for phase in self.by_row], axis=0)
        _, left, _, right = self.padding(0)
        return (
            t.CONV, self.height, self.columns[0].outputs, len(self.columns) * self.out_units,
            max(phase.taps for phase in self.rows), self._reach[1] - self._reach[0], sum(self.in_units),
            self.in_size[1], left + right, 1, 1, len(self.columns), 0, 0, 0, 0, len(self.rows), int(blocks.max()),
            int(blocks.sum()),
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        return 1, -self.pad[0], (self.weight.shape[1] - 1) * self._apart[0] + 1

    def every(self, index: int) -> int:
        return self.spread[0]

    def padding(self, index: int) -> tuple[int, int, int, int]:
        first, last = self.rows_read(0, self.height - 1, index)
        left, right = self._reach
        right += self.columns[0].outputs - 1
        height, width = self.in_size
        return max(0, -first), max(0, -left), max(0, last - height + 1), max(0, right - width)

    def pad_value(self, index: int) -> int | None:
        return self.pad_constant if any(self.padding(index)) else None

    def constant_entries(self) -> tuple[int, int]:
        filled = sum(node.filled_blocks for node in self.by_pixel())
        return filled, sum(node.constant_entries()[1] for node in self.by_row)

    def constants(self, lo: int, hi: int) -> Chunk:
        parts = [phase.constants(lo, hi) for phase in self.by_row]
        return Chunk(np.concatenate([p.weights for p in parts]), np.concatenate([p.prm for p in parts]))

    def gemm_cycles(self, task: Task) -> int:
        starts = self.by_row[task.row % self.spread[0]].starts
        return sum((starts[hi] - starts[lo]) * width for lo, hi, width in self._parts(task))

    def _parts(self, task: Task) -> Iterator[tuple[int, int, int]]:
        """Vectors of a task by phases of columns of as many pixels, which come first where one more fits the row."""
        counts = [phase.outputs for phase in self.columns]
        longer = counts.count(counts[0])
        for first, last in ((0, longer), (longer, len(counts))):
            lo, hi = max(task.lo, first * self.pixel_vectors), min(task.hi, last * self.pixel_vectors)
            if lo < hi:
                yield lo, hi, counts[first]

    # -- emission --------------------------------------------------------------------------------------

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        return [uops for phase in self.by_row for uops in phase.uop_sets(buffers)]

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c, down = self.config, task.row % self.spread[0]
        lo, hi = self.chunk_range(task)
        before = sum(phase.starts[hi] - phase.starts[lo] for phase in self.by_row[:down])
        phase, pixel = self.by_row[down], (task.hi - task.lo) * c.out_units
        weights, prm = e.weight_base(task.chunk) + before - phase.starts[lo], e.prm_base(task.chunk) + down * (hi - lo)
        sources = [e.buffer(name) for name in self.inputs]
        for first, last, width in self._parts(task):
            phase.sums(
                e, sources, row=task.row // self.spread[0], lo=first, hi=last, width=width, wgt=weights,
                acc=acc + (first - task.lo) * c.out_units, pixel=pixel,
            )  # fmt: skip
        for out in e.outputs(self.output):
            for k, across in enumerate(self.columns):
                begin = k * self.pixel_vectors
                first, last = max(task.lo, begin), min(task.hi, begin + self.pixel_vectors)
                if first >= last:
                    continue
                e.requantize(
                    self.requant, out,
                    outer=last - first, inner=across.outputs,
                    src=acc + (first - task.lo) * c.out_units, src_outer=c.out_units, src_inner=pixel,
                    dst=out.offset(task.row, across.first, self.first_unit + (first - begin) * c.out_units),
                    dst_outer=c.out_units * out.step, dst_inner=self.spread[1] * out.pixel,
                    prm=prm + first - lo, prm_outer=1,
                )  # fmt: skip
