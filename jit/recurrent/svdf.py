"""An SVDF as one program: the products of inputs and of states on the array, what is between them on ALU.

Numbers of int16 are two bytes, ``256 high + low + 128``, and so are weights over time, ``256 high + low``. The products
of bytes add up by their weight, 2^16, 2^8 and 1, and the sums by Horner's rule, all of it modulo 2^32.

Products over time are those of window mode: the numbers of a filter are pushed, and a block has the weights of each
lane. Filters lie rank by rank, each with a lane for each unit, so that ranks add up in the same accumulators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import wrap_int32
from tilewright.isa.functions import AluOp, Rounding
from tilewright.jit.emit.writer import INPUT, OUTPUT
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import Uop
from tilewright.jit.recurrent.form import LayerWriter, RecurrentProgram
from tilewright.jit.recurrent.ops import Svdf
from tilewright.jit.recurrent.scaling import pieces_of, saturate, scale
from tilewright.jit.recurrent.vectors import Run
from tilewright.jit.recurrent.weights import Use, Weights

Number = TypeVar("Number", bound=np.generic)


class SvdfWriter(LayerWriter[Svdf]):
    """Of a graph that is a single :class:`~tilewright.jit.recurrent.ops.Svdf`."""

    def __init__(self, graph: Graph, config: Config) -> None:
        super().__init__("an SVDF", graph, config)
        op, c = self.op, self.c
        self.units = -(-len(op.bias) // c.block_out)  #: vectors of results
        self.filters = op.rank * self.units
        self.width = -(-op.feature.weight.shape[1] // c.block_in)  #: blocks of an input
        self.pieces = pieces_of([op.feature]) if op.state_bits == 16 else []
        half = c.acc_units // 2
        low, high = (self.places(k * half, k * half + half, c.out_units, "acc") for k in range(2))
        self.fresh, self.near, self.far = low.take(self.filters), low.take(self.filters), high.take(self.filters)
        self.levels = [(low, high, low)[k].take(self.units) for k in range(1 if op.state_bits == 8 else 3)]
        self.biases = high.take(self.filters), high.take(self.units)
        inputs = self.places(0, c.act_units, c.in_units, "act")
        self.input = inputs.take(self.width)
        behind = -(-self.width * c.in_units // c.out_units) * c.out_units
        strips = self.places(behind, c.act_units, c.out_units, "act")
        self.planes = [strips.take(op.memory * self.filters) for _ in range(op.state_bits // 8)]  #: high bytes first
        self.sign, self.result = strips.take(self.filters), strips.take(self.units)
        #: instructions over time: which digit of the weights, rank, first and last of the numbers
        steps = range(0, op.memory, c.block_in)
        self.digits = _digits(op.time)
        self.turns = [
            (d, k, first, min(first + c.block_in, op.memory))
            for d in range(len(self.digits)) for k in range(op.rank) for first in steps
        ]  # fmt: skip

    def written(self) -> RecurrentProgram:
        """The program."""
        c, w, op, result = self.c, self.w, self.op, self.units * self.c.out_units
        known = (self._by_rank(op.feature.bias), self.filled(self._constants(), self.units))
        for run, values in zip(self.biases, known, strict=True):
            w.load_acc(run, wrap_int32(values).astype(np.int32))
        feature = self.blocks(self._by_rank(op.feature.weight), self.filters)
        time = np.stack([self._over_time(*turn) for turn in self.turns])
        self.uses = Use(0, 0, len(feature)), Use(1, 0, len(time))
        self.weights = Weights(w, feature, time, self.uses * self.steps)
        pixel = self.width * c.in_units
        for step in range(self.steps):
            self.move(w.load_tile, Run(self.input.first, pixel, 1), INPUT, step * pixel)
            self._move_states(w.load_tile, step, INPUT, 0, self.steps * pixel)
            self._feature()
            self._time()
            self.move(w.store_tile, Run(self.result.first, result, 1), OUTPUT, step * result)
            self._move_states(w.store_tile, step, OUTPUT, 1, self.steps * result)
        pushes = sum(last - first for *_, first, last in self.turns) * len(self.planes) * result
        array = self.steps * (self.filters * self.width + pushes)
        return self.finished(pixel, result, result, self.weights.bytes, array)

    def _constants(self) -> NDArray[np.int64]:
        """The bias, and what the bytes of states that are stored as others add: (units,)."""
        op = self.op
        moved = 128 if op.state_bits == 16 else -op.state_zero_point
        return op.bias + moved * op.time.astype(np.int64).sum(axis=1).reshape(-1, op.rank).sum(axis=1)

    def _by_rank(self, values: NDArray[Number]) -> NDArray[Number]:
        """Values of filters (filters, ...) as they lie: vectors for each rank."""
        ranks = [self.filled(values[k :: self.op.rank], self.units) for k in range(self.op.rank)]
        return np.concatenate(ranks)

    def _over_time(self, digit: int, rank: int, first: int, last: int) -> NDArray[np.int8]:
        """Blocks of weights (units of ``lanes``, BLOCK_OUT, BLOCK_IN): each lane's, the last number's first."""
        c = self.c
        _, values = self.digits[digit]
        taps = self.filled(values[rank :: self.op.rank, first:last][:, ::-1], self.units)
        blocks = np.zeros((self.units * c.out_units, c.block_out, c.block_in), np.int8)
        blocks[:, : c.lanes, : last - first] = taps.reshape(-1, c.lanes, last - first)
        return blocks

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
        for row, rows, place in self.weights.rows(self.uses[0]):
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
        units, span = self.units * c.out_units, self.filters * c.out_units
        for number, count, place in self.weights.rows(self.uses[1]):
            for turn, (digit, rank, first, last) in enumerate(self.turns[number : number + count]):
                pushes: list[Uop] = [(-1, k * span, 0, 1) for k in range(last - first - 1)]
                for level, plane in zip(self.levels[self.digits[digit][0] :], self.planes[::-1]):
                    w.gemm(
                        [*pushes, (0, len(pushes) * span, 0, 1)], window=1, pace=int(not pushes), outer=units, inner=1,
                        dst=level.first, dst_outer=1, src=plane.first + first * span + rank * units, src_outer=1,
                        wgt=place + turn * units, wgt_outer=1, wrap_base=0, wrap_size=c.act_units,
                    )  # fmt: skip
        for run, below in zip(above, [*above[1:], total]):
            w.alu(AluOp.SHR, run, -8)
            w.alu(AluOp.ADD, below, run)
        w.narrow(
            self.result.part(0, self.units), total, op.shift, multiplier=op.multiplier, rounding=Rounding.DOUBLE,
            zero_point=op.zero_point,
        )  # fmt: skip


def _digits(time: NDArray[np.int8 | np.int16]) -> list[tuple[int, NDArray[np.int8]]]:
    """(k, digits) of int8, whose sum, times 256^k, are weights over time."""
    low = ((time.astype(np.int64) + 128) & 255) - 128
    high = (time.astype(np.int64) - low) >> 8  # up to 128
    parts = [(0, low), (1, high.clip(max=127)), (1, high - high.clip(max=127))]
    return [(k, part.astype(np.int8)) for k, part in parts if k == 0 or part.any()]
