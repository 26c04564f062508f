"""Products of two activations: a dense GEMM whose weights are a tensor that came through DRAM.

A block of weights is BLOCK_OUT x BLOCK_IN bytes, a row for each output: just what BLOCK_OUT neighbouring pixels of a
tensor hold in BLOCK_IN of their channels. So a tensor that is stored block of channels by block of channels
(:class:`Blocked`) *is* a row of blocks of weights, and LOAD brings them to wgt as it does constants. What the zero
points of both sides ask for beside the product is two more GEMMs: the other side's blocks times a pixel that holds
nothing but the negated zero point, which is padding of the ring, and the pixels times a block of constants. The former
is alike for all pixels; where that is cheaper it is computed once, and ALU adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import (
    SAME_BANK_CYCLES,
    Chunk,
    Emit,
    Lattice,
    Node,
    Streamed,
    Task,
    Uop,
    uniform_prm,
)
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.plan.ranges import split_evenly


def int8_terms(value: int) -> tuple[int, int]:
    """(x, n) with ``n * x == value`` and x an int8: 128, the negative of the least zero point, is twice 64."""
    return (value, 1) if value < 128 else (64, 2)


@dataclass(kw_only=True)
class MatMulNode(Node):
    """``requant(sum (a - offsets[0]) * (b - offsets[1]))``: ``parts`` rows of ``out`` to a head, from ``head`` on.

    ``inputs`` is ``a`` alone; ``weights`` names the blocked form of ``b``. ``depth``: channels that are summed;
    ``blocks`` of BLOCK_IN of them. ``in_rows``: whether the heads of ``a`` lie one below the other, else one behind the
    other in its channels. ``waits``: ``b`` is made on the chip; then all rows of ``a`` that are made before it stay.
    """

    weights: str
    depth: int
    blocks: int
    head: int
    parts: int
    in_rows: bool
    in_height: int
    in_width: int
    in_units: int
    waits: bool
    offsets: tuple[int, int]
    requant: Requant

    def by_head(self) -> list[MatMulNode]:
        """The node as one for each head, whose weights are its own. A head is a row then."""
        count, shape = self.height // self.parts, (1, self.parts, self.width, self.out.shape[3])
        return [
            replace(
                self, name=f"{self.name}.{k}" if count > 1 else self.name, inputs=[*self.inputs], head=self.head + k,
                out=replace(self.out, shape=shape), lattice=Lattice(count, k),
            )
            for k in range(count)
        ]  # fmt: skip

    @cached_property
    def terms(self) -> list[tuple[int, int]]:
        """Of each side, what stands for its zero point and how often; 0 times where that is 0."""
        return [int8_terms(-offset) if offset else (0, 0) for offset in self.offsets]

    @property
    def _room(self) -> int:
        """Vectors of a row that a bank of acc holds with one accumulator more for each."""
        return self.config.acc_bank_units // ((self.width + 1) * self.config.out_units)

    @property
    def _adds(self) -> bool:
        """Whether what the zero point of ``a`` asks for, alike for all pixels, is computed once and added by ALU."""
        return self.blocks * self.terms[0][1] > SAME_BANK_CYCLES and self._room > 0

    @property
    def _passes(self) -> int:
        """GEMMs of each pixel over its blocks."""
        return 1 + self.terms[1][1] + (0 if self._adds else self.terms[0][1])

    @property
    def product_blocks(self) -> int:
        """Blocks of weights that a pixel of the result meets, without what the zero points ask for."""
        return self.vectors * self.blocks

    @property
    def whole_requant(self) -> Requant:
        """With the product of the zero points in the bias."""
        bias = wrap_int32(self.requant.bias.astype(np.int64) + self.depth * self.offsets[0] * self.offsets[1])
        return replace(self.requant, bias=bias.astype(np.int32))

    def extents(self) -> tuple[int, ...]:
        each = self.blocks * self._passes
        return (
            t.CONV, self.height, self.width, self.out_units, 1, 1, self.in_units, self.in_width, self.padding(0)[3],
            1, 1, 1, 0, 0, 0, 0, 1, self.blocks + len(self._offset_blocks), each * self.vectors,
        )  # fmt: skip

    def reads(self, index: int) -> tuple[int, int, int]:
        if self.waits or (not self.in_rows and self.height > self.parts):
            return 0, 0, self.in_height
        return 1, self.head * self.parts if self.in_rows else 0, 1

    def needs(self, task: Task, index: int) -> tuple[int, int]:
        row = self.source_of(task.row)[0]
        return row, row

    def source_of(self, row: int) -> tuple[int, int]:
        """The row of ``a`` that a row of the result is made of, and where in each pixel."""
        head, part = self.head + row // self.parts, row % self.parts
        if self.in_rows:
            return head * self.parts + part, 0
        return part, head * self.blocks * self.config.in_units

    def padding(self, index: int) -> tuple[int, int, int, int]:
        return (0, 0, 0, int(self.offsets[0] != 0))

    def pad_value(self, index: int) -> int | None:
        return self.terms[0][0] if self.offsets[0] else None

    # -- cut -------------------------------------------------------------------------------------------

    def cut(self, row: Sequence[int]) -> None:
        """Every head has weights of its own, which stay for all its rows."""
        super().cut(row)
        self.tasks, self._chunks = [], []
        room = self._room if self._adds else self._row[t.N_ROOM]
        for number in range(self.height // self.parts):
            first = len(self._chunks)
            self._chunks += [
                replace(self.constants(lo, hi), streamed=self._streamed(number, lo, hi)) for lo, hi in self.ranges
            ]  # fmt: skip
            self.tasks += [
                Task(number * self.parts + part, lo + a, lo + b, first + piece, hi == self.vectors)
                for part in range(self.parts)
                for piece, (lo, hi) in enumerate(self.ranges)
                for a, b in split_evenly(hi - lo, room)
            ]  # fmt: skip

    @property
    def chunks(self) -> list[Chunk]:
        return self._chunks

    def _streamed(self, number: int, lo: int, hi: int) -> Streamed:
        return Streamed(self.weights, (self.head + number) * self.blocks, self.blocks, lo, hi)

    def constant_entries(self) -> tuple[int, int]:
        return len(self._offset_blocks), 1

    def constants(self, lo: int, hi: int) -> Chunk:
        r = self.whole_requant
        bias, multiplier, offset, shift = (int(values[0]) for values in (r.bias, r.multiplier, r.offset, r.shift))
        return Chunk(self._offset_blocks, uniform_prm(bias, multiplier, offset, shift, self.config))

    @cached_property
    def _offset_blocks(self) -> NDArray[np.int8]:
        """A block of the negated zero point of ``b``, and one for the last channels if they fill no block."""
        c, (value, times) = self.config, self.terms[1]
        found = np.full((1 + (self.depth % c.block_in > 0), c.block_out, c.block_in), value, np.int8)
        if len(found) > 1:
            found[1, :, self.depth % c.block_in :] = 0
        return found if times else found[:0]

    def gemm_cycles(self, task: Task) -> int:
        once = self.terms[0][1] if self._adds else 0
        return (task.hi - task.lo) * self.blocks * (self.width * self._passes + once)

    def alu_cycles(self, task: Task) -> int:
        return super().alu_cycles(task) + self._adds * SAME_BANK_CYCLES * self.width * (task.hi - task.lo)

    # -- emission --------------------------------------------------------------------------------------

    def _uops(self, entries: Sequence[int], begins: bool, times: int = 1) -> list[Uop]:
        """Over all blocks of a pixel, with these blocks of weights."""
        places = [(k * self.config.in_units, entry) for k, entry in enumerate(entries)] * times
        return [(0, src, entry, int(n > 0 or not begins)) for n, (src, entry) in enumerate(places)]

    def _sequences(self) -> list[list[Uop]]:
        """The product; the pixel of padding times ``b``; ``a`` times the block of constants."""
        own = range(self.blocks)
        offset = [len(self._offset_blocks) - 1 if k == self.blocks - 1 else 0 for k in own]
        return [
            self._uops(own, True), self._uops(own, self._adds, self.terms[0][1]),
            self._uops(offset, False, self.terms[1][1]),
        ]  # fmt: skip

    def uop_sets(self, buffers: Sequence[Buffer]) -> list[list[Uop]]:
        return [uops for uops in self._sequences() if uops]

    def emit(self, task: Task, e: Emit, acc: int) -> None:
        c, source = self.config, e.buffer(self.inputs[0])
        vectors, start = task.hi - task.lo, self.chunk_range(task)[0]
        pixel, constants = vectors * c.out_units, e.weight_base(task.chunk)
        row, unit = self.source_of(task.row)
        product, column, pixels = self._sequences()
        common = {
            "outer": vectors, "inner": self.width, "dst": acc, "dst_outer": c.out_units, "dst_inner": pixel,
            **source.wrap,
        }  # fmt: skip
        blocks = {
            "wgt": constants + len(self._offset_blocks) + (task.lo - start) * self.blocks, "wgt_outer": self.blocks
        }  # fmt: skip
        place = {"src": source.offset(row, 0, unit), "src_inner": source.units}
        e.gemm(product, **common, **place, **blocks)
        if pixels:
            e.gemm(pixels, **common, **place, wgt=constants)
        padding = source.offset(row, source.width, unit)
        if self._adds:
            behind = acc + self.width * pixel
            e.gemm(column, **common | {"inner": 1, "dst": behind}, src=padding, **blocks)
            e.add(
                outer=vectors, inner=self.width, dst=acc, dst_outer=c.out_units, dst_inner=pixel, src=behind,
                src_outer=c.out_units,
            )  # fmt: skip
        elif column:
            e.gemm(column, **common, src=padding, **blocks)
        for out in e.outputs(self.output):
            e.requantize(
                self.whole_requant, out,
                outer=vectors, inner=self.width, src=acc, src_outer=c.out_units, src_inner=pixel,
                dst=out.offset(task.row, 0, self.first_unit + task.lo * c.out_units),
                dst_outer=c.out_units * out.step, dst_inner=out.pixel, prm=e.prm_base(task.chunk),
            )  # fmt: skip
