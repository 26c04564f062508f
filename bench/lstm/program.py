"""All time steps of an LSTM as one program: states in act and acc, weights in wgt as far as they fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.lstm.cell import Scratch, activate
from bench.lstm.litert import Lstm, Part
from bench.lstm.scaling import INT32, pieces_of, saturate, scale
from bench.lstm.vectors import Run, VectorWriter
from bench.lstm.weights import Weights
from tilewright.config import Config
from tilewright.isa.functions import AluOp, Rounding
from tilewright.isa.program import Program, Segment, whole_pages
from tilewright.jit.writer import INPUT, OUTPUT
from tilewright.sim import Functional, initial_segments

ORDER = (0, 1, 3, 2)  #: of gates: sigmoids first
AHEAD = 4  #: of half of acc, what the entry parts of gates take that are made at once


@dataclass(frozen=True)
class Sequence:
    """A program for ``steps`` steps from a reset state, and what ALU issues for a vector of units in a step."""

    program: Program
    lstm: Lstm
    steps: int
    vectors: float
    bytes_a_step: float  #: of weights that cross the bus at each step

    def run(self, x: NDArray[np.int8]) -> NDArray[np.int8]:
        """Hidden states (time, units) of (time, inputs), on the simulator."""
        c, buffers = self.program.config, initial_segments(self.program)
        padded = np.zeros((self.steps, -(-x.shape[1] // c.block_in) * c.block_in), np.int8)
        padded[:, : x.shape[1]] = x
        buffers[INPUT][: padded.size] = padded.view(np.uint8).reshape(-1)
        Functional(self.program).run(buffers)
        width = -(-self.lstm.units // c.block_out) * c.block_out
        return buffers[OUTPUT][: self.steps * width].view(np.int8).reshape(self.steps, width)[:, : self.lstm.units]


def sequence(lstm: Lstm, steps: int, config: Config) -> Sequence:
    """The program. Raises ValueError where something does not fit the chip or has no form there, and says what."""
    return _Writer(lstm, steps, config).sequence()


class _Places:
    """Units handed out one after another."""

    def __init__(self, first: int, stop: int, span: int, what: str) -> None:
        self._next, self._stop, self._span, self._what = first, stop, span, what

    def take(self, vectors: int) -> Run:
        run = Run(self._next, vectors, self._span)
        self._next += vectors * self._span
        if self._next > self._stop:
            raise ValueError(f"an LSTM's {self._what} do not fit the chip")
        return run


class _Writer:
    def __init__(self, lstm: Lstm, steps: int, config: Config) -> None:
        c = self.c = config
        self.lstm, self.steps = lstm, steps
        if c.block_in > c.block_out or c.batch != 1 or c.weight_bits != 8:
            raise ValueError("an LSTM needs BLOCK_IN of at most BLOCK_OUT, batch 1 and weights of 8 bits")
        if lstm.cell_bits not in (11, 12):
            raise ValueError(f"an LSTM whose cell has {lstm.cell_bits} bits of fraction, not 11 or 12")
        self.parts = [[parts[k] for k in ORDER] for parts in (lstm.entry, lstm.recurrent)]
        n = self.n = -(-lstm.units // c.block_out)
        self.blocks = [-(-part.weights.shape[1] // c.block_in) for part, *_ in self.parts]
        half = c.acc_units // 2
        self.ahead = max(1, min(steps, half // c.out_units // AHEAD // (4 * n)))
        low, high = (_Places(k * half, k * half + half, c.out_units, "sums") for k in range(2))
        self.gates, self.result = low.take(4 * n), low.take(4 * n)
        self.entries, self.x = high.take(4 * n * self.ahead), high.take(4 * n * self.ahead)
        low.take(max(0, self.entries.count - 8 * n))  # the gates' and what follows are scratch of the entries
        self.biases = [high.take(4 * n) if any(p.bias.any() for p in parts) else None for parts in self.parts]
        self.cell, self.cell_x = high.take(n), low.take(n)
        act = _Places(0, c.act_units, 1, "inputs and states")
        self.inputs = act.take(steps * self.blocks[0] * c.in_units)
        self.states = act.take((steps + 1) * n * c.out_units)
        strips = _Places(act.take(0).first, c.act_units, c.out_units, "states")
        self.sign = strips.take(4 * n * self.ahead)
        self.quarters, self.top, self.index = (strips.take(4 * n) for _ in range(3))
        self.w = VectorWriter(c)

    def sequence(self) -> Sequence:
        c, w, n = self.c, self.w, self.n
        w.begin(0, "LSTM")
        wrap = {"wrap_base": 0, "wrap_size": c.act_units}
        for parts, bias in zip(self.parts, self.biases, strict=True):
            if bias is not None:
                w.load_acc(bias, np.concatenate([self._padded(part.bias) for part in parts]).astype(np.int32))
        tile = {"sram_col": 1, **wrap}
        w.load_tile({**tile, "sram": self.inputs.first, "cols": self.inputs.count, "segment": INPUT}, None)
        entry, recurrent = (np.concatenate([self._weights(part) for part in parts]) for parts in self.parts)
        self.weights = Weights(w, entry, recurrent, self.steps, self.ahead)
        w.fill_tile(self.lstm.state_zero_point, {**tile, "sram": self.states.first, "cols": n * c.out_units})
        w.alu(AluOp.MOV, self.cell, 0)
        for step in range(self.steps):
            if step % self.ahead == 0:
                self._entries(step, min(self.ahead, self.steps - step))
            self._step(step)
            fields = {"sram": self._state(step + 1).first, "cols": n * c.out_units, "segment": OUTPUT}
            w.store_tile({**tile, **fields, "offset": step * n * c.out_units * c.act_unit_bytes // c.beat_bytes}, None)
        program = w.program(
            [
                Segment("input", "input", whole_pages(self.inputs.count * c.act_unit_bytes)),
                Segment("output", "output", whole_pages(self.steps * n * c.out_units * c.act_unit_bytes)),
            ],
            {},
        )
        return Sequence(program, self.lstm, self.steps, w.vectors / (self.steps * n), self.weights.bytes_a_step)

    def _padded(self, values: NDArray[Any]) -> NDArray[Any]:
        """(units,) or (units, inputs) with units filled up to whole vectors."""
        padding = [(0, self.n * self.c.block_out - len(values))] + [(0, 0)] * (values.ndim - 1)
        return np.pad(values, padding)

    def _weights(self, part: Part) -> NDArray[np.int8]:
        """Blocks (vectors, blocks of inputs, BLOCK_OUT, BLOCK_IN)."""
        c, padded = self.c, self._padded(part.weights)
        padded = np.pad(padded, [(0, 0), (0, -padded.shape[1] % c.block_in)])
        return padded.reshape(self.n, c.block_out, -1, c.block_in).transpose(0, 2, 1, 3)

    def _state(self, step: int) -> Run:
        """The hidden state before a step."""
        span = self.c.out_units
        return Run(self.states.first + step * self.n * span, self.n, span)

    def _sums(self, which: int, source: int, sums: Run) -> None:
        """Products of inputs from ``source`` on, or of states, for each turn of ``sums``."""
        c, blocks, bias = self.c, self.blocks[which], self.biases[which]
        if bias is not None:
            self.w.alu(AluOp.MOV, sums, Run(bias.first, sums.count, c.out_units, sums.outer, 0))
        uops = [(0, k * c.in_units, k, int(k > 0 or bias is not None)) for k in range(blocks)]
        for row, rows, place in self.weights.rows(which):
            self.w.gemm(
                uops, outer=rows, inner=sums.outer, dst=sums.first + row * c.out_units, dst_outer=c.out_units,
                dst_inner=sums.step * c.out_units, src=source, src_inner=blocks * c.in_units, wgt=place,
                wgt_outer=blocks, wrap_base=0, wrap_size=c.act_units,
            )  # fmt: skip

    def _scaled(self, which: int, sums: Run, near: Run, far: Run) -> None:
        """Those of each gate as int16, saturated if need be."""
        pieces, n = pieces_of(self.parts[which]), self.n
        scale(self.w, [sums.part(k * n, k * n + n) for k in range(4)], pieces, near, far, self.sign)
        if which == 0:
            saturate(self.w, sums, max(p.most for p in pieces))

    def _entries(self, first: int, count: int) -> None:
        """The entry parts of some steps."""
        sums = Run(self.entries.first, 4 * self.n, self.c.out_units, count, 4 * self.n)
        self._sums(0, self.inputs.first + first * self.blocks[0] * self.c.in_units, sums)
        self._scaled(0, sums, self.x, self.gates)

    def _step(self, step: int) -> None:
        w, n, gates = self.w, self.n, self.gates
        self._sums(1, self._state(step).first, gates)
        self._scaled(1, gates, self.result, self.x)
        w.alu(AluOp.ADD, gates, self.entries.part(step % self.ahead * 4 * n, (step % self.ahead + 1) * 4 * n))
        saturate(w, gates, INT32)
        x = self.x.part(0, 4 * n)
        activate(w, gates, Scratch(gates, self.result, x, *self._strips(4 * n)), 3 * n)
        self._update()
        hidden, output = x.part(n, 2 * n), self.result.part(2 * n, 3 * n)
        scratch = Scratch(x.part(0, n), hidden, self.cell_x, *self._strips(n))
        activate(w, self.cell, scratch, 0, 15 - self.lstm.cell_bits)
        w.alu(AluOp.MUL, hidden, output)
        w.narrow(
            self._state(step + 1), hidden, self.lstm.shift, multiplier=self.lstm.multiplier,
            rounding=Rounding.DOUBLE, zero_point=self.lstm.zero_point,
        )  # fmt: skip

    def _update(self) -> None:
        """The cell, from the gates."""
        w, n = self.w, self.n
        entry, forget, fresh = (self.result.part(k * n, k * n + n) for k in (0, 1, 3))
        w.alu(AluOp.MUL, self.cell, forget)
        w.alu(AluOp.MUL, entry, fresh)
        signs = self._strips(2 * n)[0]
        products = (
            (self.cell, signs.part(0, n), 15), (entry, signs.part(n, 2 * n), 30 - self.lstm.cell_bits),
        )  # fmt: skip
        for run, sign, _ in products:
            w.narrow(sign, run, lo=-1, hi=0)
        for run, sign, _ in products:
            w.widen(run, sign, 1)
        for run, _, shift in products:
            w.alu(AluOp.ADD, run, 1 << shift - 1)
        for run, _, shift in products:
            w.alu(AluOp.SHR, run, shift)
        w.alu(AluOp.ADD, self.cell, entry)
        w.alu(AluOp.MAX, self.cell, self.lstm.cell_range[0])
        w.alu(AluOp.MIN, self.cell, self.lstm.cell_range[1])

    def _strips(self, vectors: int) -> list[Run]:
        return [run.part(0, vectors) for run in (self.sign, self.quarters, self.top, self.index)]
