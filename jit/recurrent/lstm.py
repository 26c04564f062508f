"""All time steps of an LSTM as one program: states in act and acc, weights in wgt as far as they fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.config import Config
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import Uop
from tilewright.jit.recurrent.cell import Scratch, activate
from tilewright.jit.recurrent.form import LayerWriter, RecurrentProgram
from tilewright.jit.recurrent.ops import Lstm
from tilewright.jit.recurrent.scaling import INT32, pieces_of, saturate, scale
from tilewright.jit.recurrent.vectors import Run, VectorWriter
from tilewright.jit.recurrent.weights import Weights
from tilewright.jit.writer import INPUT, OUTPUT

ORDER = (0, 1, 3, 2)  #: of gates: sigmoids first
AHEAD = 4  #: of half of acc, what the entry parts of gates take that are made at once
STATES = 4  #: hidden states that act holds: the last, the next, and those that STORE may still read
TURNS = 2  #: of inputs that act holds, each for as many steps as entry parts are made at once


class LstmWriter(LayerWriter[Lstm]):
    """Of a graph that is a single :class:`~tilewright.jit.recurrent.ops.Lstm`."""

    def __init__(self, graph: Graph, config: Config) -> None:
        super().__init__("an LSTM", graph, config)
        op, c, steps = self.op, self.c, self.steps
        if op.cell_bits not in (11, 12):
            raise PlaceError(f"an LSTM whose cell has {op.cell_bits} bits of fraction, not 11 or 12")
        self.order = op.order(steps)
        self.parts = [[parts[k] for k in ORDER] for parts in (op.entry, op.recurrent)]
        self.pieces = [pieces_of(parts) for parts in self.parts]
        n = self.n = self.vectors(op.units)  # hidden states are inputs
        self.widths = [-(-part.weight.shape[1] // c.block_in) for part, *_ in self.parts]
        self.pixel = self.widths[0] * c.in_units  #: units of an input
        half, vectors = c.acc_units // 2, n * c.out_units
        fitting = (c.act_units - (STATES + 3 * 4) * vectors) // (TURNS * self.pixel + 4 * vectors)
        self.ahead = max(1, min(steps, half // AHEAD // (4 * vectors), fitting))
        low, high = (self.places(k * half, k * half + half, c.out_units, "acc") for k in range(2))
        self.gates, self.result = low.take(4 * n), low.take(4 * n)
        self.entries, self.x = high.take(4 * n * self.ahead), high.take(4 * n * self.ahead)
        low.take(max(0, self.entries.count - 8 * n))  # the gates' and what follows are scratch of the entries
        self.biases = [high.take(4 * n) if any(p.bias.any() for p in parts) else None for parts in self.parts]
        self.cell, self.cell_x = high.take(n), low.take(n)
        strips = self.places(0, c.act_units, c.out_units, "act")
        self.states = strips.take(STATES * n)
        self.sign = strips.take(4 * n * self.ahead)
        self.quarters, self.top, self.index = (strips.take(4 * n) for _ in range(3))
        # bytes of cells lie where nothing is while the function of cells, on n vectors, is computed
        self.given, self.taken = ([s.part(k * n, k * n + n) for k in (1, 2)] for s in (self.quarters, self.index))
        inputs = self.places(strips.take(0).first, c.act_units, 1, "act")  # behind what ALU writes, in whole vectors
        self.inputs = inputs.take(min(steps, TURNS * self.ahead) * self.pixel)

    def written(self) -> RecurrentProgram:
        """The program."""
        c, w, n = self.c, self.w, self.n
        for parts, bias in zip(self.parts, self.biases, strict=True):
            if bias is not None:
                w.load_acc(bias, np.concatenate([self.filled(part.bias, n) for part in parts]).astype(np.int32))
        self._load(0)
        entry, recurrent = (np.concatenate([self.blocks(part.weight, n) for part in parts]) for parts in self.parts)
        self.weights = Weights(w, entry, recurrent, self.steps, self.ahead)
        self._load_states(0)
        for step in range(self.steps):
            if step % self.ahead == 0:
                self._load(step + self.ahead)
                self._entries(step, min(self.ahead, self.steps - step))
            self._step(step)
            self.move(w.store_tile, self._state(step, after=True), OUTPUT, int(self.order[step]) * n * c.out_units)
            if self._ends(step):
                self._store_states(step)
        array = self.steps * 4 * n * sum(self.widths)
        return self.finished(self.pixel, n * c.out_units, n * c.out_units, self.weights.bytes, array)

    def _input(self, step: int) -> int:
        """Where the input of a step lies."""
        return self.inputs.first + step % (TURNS * self.ahead) * self.pixel

    def _load(self, first: int) -> None:
        """The inputs of the turn of steps that begins with ``first``, if there is one."""
        pixels = self.order[first : first + self.ahead]
        for part in np.split(pixels, np.flatnonzero(np.diff(pixels) != 1) + 1) if len(pixels) else ():
            run = Run(self._input(first), len(part) * self.pixel, 1)
            self.move(self.w.load_tile, run, INPUT, int(part[0]) * self.pixel)
            first += len(part)

    def _ends(self, step: int) -> bool:
        """Whether a step is the last of its sequence."""
        return (step + 1) % self.op.steps == 0

    def _state(self, step: int, after: bool = False) -> Run:
        """The hidden state before a step, or after it, in units. Those before and between sequences are two."""
        count = self.n * self.c.out_units
        number = step + step // self.op.steps + after
        return Run(self.states.first + number % STATES * count, count, 1)

    def _load_states(self, step: int) -> None:
        """Those of the sequence that begins with a step."""
        parts = [self._state(step), *self.given]
        self._move_states(self.w.load_tile, parts, step, INPUT, self.steps * self.pixel)

    def _store_states(self, step: int) -> None:
        """Those of the sequence that ends with a step."""
        parts = [self._state(step, after=True), *self.taken]
        self._move_states(self.w.store_tile, parts, step, OUTPUT, self.steps * self.n * self.c.out_units)

    def _move_states(self, move: Callable[..., None], parts: list[Run], step: int, segment: int, first: int) -> None:
        count, sequences = self.n * self.c.out_units, self.steps // self.op.steps
        for k, part in enumerate(parts):
            place = first + (k * sequences + step // self.op.steps) * count
            self.move(move, Run(part.first, count, 1), segment, place)

    def _sums(self, which: int, source: int, sums: Run) -> None:
        """Products of inputs from ``source`` on, or of states, for each turn of ``sums``."""
        c, blocks, bias = self.c, self.widths[which], self.biases[which]
        if bias is not None:
            self.w.alu(AluOp.MOV, sums, Run(bias.first, sums.count, c.out_units, sums.outer, 0))
        for row, rows, place in self.weights.rows(which):
            self.w.gemm(
                self._uops(which), outer=rows, inner=sums.outer, dst=sums.first + row * c.out_units,
                dst_outer=c.out_units, dst_inner=sums.step * c.out_units, src=source, src_inner=blocks * c.in_units,
                wgt=place, wgt_outer=blocks, wrap_base=0, wrap_size=c.act_units,
            )  # fmt: skip

    def _uops(self, which: int) -> list[Uop]:
        """Those of a row of products."""
        added = int(self.biases[which] is not None)
        return [(0, k * self.c.in_units, k, int(k > 0) | added) for k in range(self.widths[which])]

    def _scaled(self, which: int, sums: Run, near: Run, far: Run) -> None:
        """Those of each gate as int16, saturated if need be."""
        pieces, n = self.pieces[which], self.n
        scale(self.w, [sums.part(k * n, k * n + n) for k in range(4)], pieces, near, far, self.sign)
        if which == 0:
            saturate(self.w, sums, max(p.most for p in pieces))

    def _entries(self, first: int, count: int) -> None:
        """The entry parts of some steps."""
        sums = Run(self.entries.first, 4 * self.n, self.c.out_units, count, 4 * self.n)
        self._sums(0, self._input(first), sums)
        if first == 0 and self.weights.stay:  # else those that pass by are waited for more
            self._prepare(sums)
        self._scaled(0, sums, self.x, self.gates)

    def _prepare(self, sums: Run) -> None:
        """Load the constants of what follows while there is other work, not where each is waited for."""
        for part in self.w.pieces(self._uops(1)):
            self.w.resident(tuple(part))
        w, self.w = self.w, VectorWriter(self.c)
        self._scaled(0, sums, self.x, self.gates)
        for step in (0, self.steps - 1):
            self._cell(step)
        w.prepare(self.w.constants)
        self.w = w

    def _step(self, step: int) -> None:
        self._sums(1, self._state(step).first, self.gates)
        self._cell(step)

    def _cell(self, step: int) -> None:
        """A step from its recurrent sums on."""
        w, n, gates = self.w, self.n, self.gates
        high, low = self.taken
        if step % self.op.steps == 0:  # while GEMM is busy
            w.widen(self.cell, self.given[0], 256, combine=Combine.WRITE)
            w.widen(self.cell, self.given[1], 1, 128)
        self._scaled(1, gates, self.result, self.x)
        w.alu(AluOp.ADD, gates, self.entries.part(step % self.ahead * 4 * n, (step % self.ahead + 1) * 4 * n))
        saturate(w, gates, INT32)
        x = self.x.part(0, 4 * n)
        activate(w, gates, Scratch(gates, self.result, x, *self._strips(4 * n)), 3 * n)
        if self._ends(step) and step + 1 < self.steps:
            self._load_states(step + 1)
        self._update()
        if self._ends(step):
            w.narrow(high, self.cell, 8, offset=-128)
        hidden, output = x.part(n, 2 * n), self.result.part(2 * n, 3 * n)
        scratch = Scratch(x.part(0, n), hidden, self.cell_x, *self._strips(n))
        activate(w, self.cell, scratch, 0, 15 - self.op.cell_bits)
        w.alu(AluOp.MUL, hidden, output)
        if self._ends(step):
            w.widen(self.cell, high, -256)
        w.narrow(
            Run(self._state(step, after=True).first, n, self.c.out_units), hidden, self.op.shift,
            multiplier=self.op.multiplier, rounding=Rounding.DOUBLE, zero_point=self.op.zero_point,
        )  # fmt: skip
        if self._ends(step):
            w.narrow(low, self.cell, zero_point=-128)

    def _update(self) -> None:
        """The cell, from the gates."""
        w, n = self.w, self.n
        entry, forget, fresh = (self.result.part(k * n, k * n + n) for k in (0, 1, 3))
        w.alu(AluOp.MUL, self.cell, forget)
        w.alu(AluOp.MUL, entry, fresh)
        signs = self._strips(2 * n)[0]
        products = (
            (self.cell, signs.part(0, n), 15), (entry, signs.part(n, 2 * n), 30 - self.op.cell_bits),
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
        w.alu(AluOp.MAX, self.cell, self.op.cell_range[0])
        w.alu(AluOp.MIN, self.cell, self.op.cell_range[1])

    def _strips(self, vectors: int) -> list[Run]:
        return [run.part(0, vectors) for run in (self.sign, self.quarters, self.top, self.index)]
