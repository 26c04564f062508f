"""An SVDF as one program: the products of inputs and of states on the array, what is between them on ALU.

Numbers of int16 are two bytes, ``256 high + low + 128``, and so are weights over time, ``256 high + low``. The products
of bytes add up by their weight, 2^16, 2^8 and 1, and the sums by Horner's rule, all of it modulo 2^32. Weights over
time are blocks that take filters to the units that they belong to, so the array adds up ranks too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import wrap_int32
from tilewright.isa.functions import AluOp, Rounding
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import Uop
from tilewright.jit.recurrent.form import LayerWriter, RecurrentProgram
from tilewright.jit.recurrent.ops import Svdf
from tilewright.jit.recurrent.scaling import pieces_of, saturate, scale
from tilewright.jit.recurrent.vectors import Run
from tilewright.jit.recurrent.weights import Weights, loaded_at_once
from tilewright.jit.writer import INPUT, OUTPUT


@dataclass(frozen=True)
class _Sums:
    """Products that are added to a vector of units, number ``vector``: micro-ops from the block of filters ``first``
    on, and blocks of weights."""

    vector: int
    first: int
    uops: list[Uop]
    blocks: NDArray[np.int8]


class SvdfWriter(LayerWriter[Svdf]):
    """Of a graph that is a single :class:`~tilewright.jit.recurrent.ops.Svdf`."""

    def __init__(self, graph: Graph, config: Config) -> None:
        super().__init__("an SVDF", graph, config)
        op, c = self.op, self.c
        self.filters, self.units = self.vectors(op.filters), -(-len(op.bias) // c.block_out)
        self.width = -(-op.feature.weight.shape[1] // c.block_in)  #: blocks of an input
        self.pieces = pieces_of([op.feature]) if op.state_bits == 16 else []
        half = c.acc_units // 2
        low, high = (self.places(k * half, k * half + half, c.out_units, "acc") for k in range(2))
        self.fresh, self.near, self.far = low.take(self.filters), low.take(self.filters), high.take(self.filters)
        self.levels = [(low, high, low)[k].take(self.units) for k in range(1 if op.state_bits == 8 else 3)]
        self.biases = high.take(self.filters), high.take(self.units)
        strips = self.places(0, c.act_units, c.out_units, "act")
        self.planes = [strips.take(op.memory * self.filters) for _ in range(op.state_bits // 8)]  #: high bytes first
        self.sign, self.result = strips.take(self.filters), strips.take(self.vectors(len(op.bias)))
        inputs = self.places(strips.take(0).first, c.act_units, 1, "act")
        self.input = inputs.take(self.width * c.in_units)

    def written(self) -> RecurrentProgram:
        """The program."""
        c, w, op, result = self.c, self.w, self.op, self.units * self.c.out_units
        known = (self.filled(op.feature.bias, self.filters), self.filled(self._constants(), self.units))
        for run, values in zip(self.biases, known, strict=True):
            w.load_acc(run, wrap_int32(values).astype(np.int32))
        self.sums = [sums for k in range(self.units) for sums in self._sums(k)]
        self.most = max(len(sums.blocks) for sums in self.sums)
        padded = [np.pad(s.blocks, [(0, self.most - len(s.blocks)), (0, 0), (0, 0)]) for s in self.sums]
        self.weights = Weights(w, self.blocks(op.feature.weight, self.filters), np.stack(padded), self.steps, 1)
        for step in range(self.steps):
            self.move(w.load_tile, self.input, INPUT, step * self.input.count)
            self._move_states(w.load_tile, step, INPUT, 0, self.steps * self.input.count)
            self._feature()
            self._time()
            self.move(w.store_tile, Run(self.result.first, result, 1), OUTPUT, step * result)
            self._move_states(w.store_tile, step, OUTPUT, 1, self.steps * result)
        array = self.steps * (self.filters * self.width + sum(len(sums.uops) for sums in self.sums))
        return self.finished(self.input.count, result, self.filters * c.out_units, self.weights.bytes, array)

    def _constants(self) -> NDArray[np.int64]:
        """The bias, and what the bytes of states that are stored as others add: (units,)."""
        op = self.op
        moved = 128 if op.state_bits == 16 else -op.state_zero_point
        return op.bias + moved * op.time.astype(np.int64).sum(axis=1).reshape(-1, op.rank).sum(axis=1)

    def _sums(self, vector: int) -> list[_Sums]:
        """Those of a vector of units, in pieces that wgt can hold in turns."""
        op, c = self.op, self.c
        each = c.block_out * op.rank
        filters = np.arange(vector * each, min(vector * each + each, op.filters))
        first, stop = int(filters[0]) // c.block_in, int(filters[-1]) // c.block_in + 1
        parts: list[tuple[list[Uop], NDArray[np.int8]]] = []
        for weight, digit in _digits(op.time):
            for k in range(op.memory):
                taken = np.zeros((c.block_out, (stop - first) * c.block_in), np.int8)
                taken[filters // op.rank - vector * c.block_out, filters - first * c.block_in] = digit[filters, k]
                for b, block in enumerate(np.split(taken, stop - first, axis=1)):
                    place = k * self.filters * c.out_units + b * c.in_units
                    levels = self.levels[weight : weight + len(self.planes)][::-1]
                    uops = [(level.first, plane.first + place, 0, 1) for level, plane in zip(levels, self.planes)]
                    parts += [(uops, block)] if block.any() or not parts else []  # at least one
        size = loaded_at_once(c)
        return [_joined(vector, first, parts[k : k + size]) for k in range(0, len(parts), size)]

    def _move_states(self, move: Callable[..., None], step: int, segment: int, behind: int, first: int) -> None:
        """Those of a step: all but the last, or (``behind``) all but the first."""
        span = self.filters * self.c.out_units
        count = (self.op.memory - 1) * span
        for p, plane in enumerate(self.planes if count else ()):
            place = first + (p * self.steps + step) * count
            self.move(move, Run(plane.first + behind * span, count, 1), segment, place)

    def _feature(self) -> None:
        """The new numbers, behind those of the states."""
        w, c, op, fresh = self.w, self.c, self.op, self.fresh
        w.alu(AluOp.MOV, fresh, self.biases[0])
        uops: list[Uop] = [(0, k * c.in_units, k, 1) for k in range(self.width)]
        for row, rows, place in self.weights.rows(0):
            w.gemm(
                uops, outer=rows, inner=1, dst=fresh.first + row * c.out_units, dst_outer=c.out_units,
                src=self.input.first, wgt=place, wgt_outer=self.width, wrap_base=0, wrap_size=c.act_units,
            )  # fmt: skip
        last = [plane.part((op.memory - 1) * self.filters, op.memory * self.filters) for plane in self.planes]
        if op.state_bits == 8:
            w.narrow(
                last[0], fresh, op.feature.shift, multiplier=op.feature.multiplier, rounding=Rounding.DOUBLE,
                zero_point=op.state_zero_point,
            )  # fmt: skip
            return
        scale(w, [fresh], self.pieces, self.near, self.far, self.sign)
        saturate(w, fresh, self.pieces[0].most)
        w.narrow(last[0], fresh, 8, offset=-128)
        w.widen(fresh, last[0], -256)
        w.narrow(last[1], fresh, zero_point=-128)

    def _time(self) -> None:
        """The result, from the state with the new numbers."""
        w, c, op = self.w, self.c, self.op
        *above, total = self.levels[::-1]
        for run in above:
            w.alu(AluOp.MOV, run, 0)
        w.alu(AluOp.MOV, total, self.biases[1])
        for number, count, place in self.weights.rows(1):
            for k, sums in enumerate(self.sums[number : number + count]):
                w.gemm(
                    sums.uops, outer=1, inner=1, dst=sums.vector * c.out_units, src=sums.first * c.in_units,
                    wgt=place + k * self.most, wrap_base=0, wrap_size=c.act_units,
                )  # fmt: skip
        for run, below in zip(above, [*above[1:], total]):
            w.alu(AluOp.SHR, run, -8)
            w.alu(AluOp.ADD, below, run)
        w.narrow(
            self.result.part(0, self.units), total, op.shift, multiplier=op.multiplier, rounding=Rounding.DOUBLE,
            zero_point=op.zero_point,
        )  # fmt: skip


def _joined(vector: int, first: int, parts: list[tuple[list[Uop], NDArray[np.int8]]]) -> _Sums:
    """Blocks of weights one behind another, and micro-ops, accumulator by accumulator."""
    uops: list[Uop] = [(level, place, k, 1) for k, (each, _) in enumerate(parts) for level, place, _, _ in each]
    return _Sums(vector, first, sorted(uops, key=lambda uop: uop[0]), np.stack([block for _, block in parts]))


def _digits(time: NDArray[np.int8 | np.int16]) -> list[tuple[int, NDArray[np.int8]]]:
    """(k, digits) of int8, whose sum, times 256^k, are weights over time."""
    low = ((time.astype(np.int64) + 128) & 255) - 128
    high = (time.astype(np.int64) - low) >> 8  # up to 128
    parts = [(0, low), (1, high.clip(max=127)), (1, high - high.clip(max=127))]
    return [(k, part.astype(np.int8)) for k, part in parts if k == 0 or part.any()]
