"""All time steps of an LSTM as one program: states in act and acc, weights in wgt as far as they fit.

Steps come in turns, whose products with inputs (entry parts) are made at once, so that weights pass by once. With two
buffers of sums those of the next turn are made a part at each step of this one, so that weights pass by as ALU works.
The array and ALU do not work in one bank of acc at once; where sums and what ALU computes with lie apart
(:mod:`~tilewright.jit.recurrent.lstm_places`), the array makes the sums of the next turn while ALU works, and ALU
scales entry parts while the array multiplies by the hidden state. The output gate, which is not needed before, is
computed with the function of cells: in instructions of fewer than :data:`~tilewright.isa.timing.ALU_DISTANCE` vectors
ALU waits for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from tilewright.config import Config
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.jit.emit.writer import INPUT, OUTPUT
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import Uop
from tilewright.jit.recurrent.cell import Scratch, activate
from tilewright.jit.recurrent.form import LayerWriter, RecurrentProgram
from tilewright.jit.recurrent.lstm_places import STATES, TURNS, Kept, LstmPlaces
from tilewright.jit.recurrent.ops import Lstm
from tilewright.jit.recurrent.scaling import INT32, pieces_of, saturate, scale
from tilewright.jit.recurrent.vectors import Run, VectorWriter, finish
from tilewright.jit.recurrent.weights import Use, Weights, stay
from tilewright.sim.timing import simulate_timing

ORDER = (3, 0, 1, 2)  #: of gates: output, then input, forget and cell
BEHIND = 12  #: instructions of ALU's behind each of which a piece of the late products is written


class LstmWriter(LayerWriter[Lstm]):
    """Of a graph that is a single :class:`~tilewright.jit.recurrent.ops.Lstm`.

    ``buffers`` of sums of entry parts; ``apart``: in quarters of acc, else all in two halves of it. ``late``: what the
    hidden state adds to the output gate is multiplied while ALU works on the others, if weights pass by.
    """

    def __init__(self, graph: Graph, config: Config, buffers: int, apart: bool, late: bool) -> None:
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
        biased = [any(p.bias.any() for p in parts) for parts in self.parts]
        self.at = LstmPlaces(c, Kept(n, self.pixel, steps, biased), buffers, apart)
        self.late = late and not self._at_once and not stay(c, 4 * n * sum(self.widths))
        self.buffers, self.ahead, self.group = buffers, self.at.ahead, self.at.group

    @property
    def _at_once(self) -> bool:
        """Whether all gates take as long as three of them: ALU waits for itself."""
        return 4 * self.n <= ALU_DISTANCE

    def written(self) -> RecurrentProgram:
        """The program."""
        c, w, n = self.c, self.w, self.n
        for parts, bias in zip(self.parts, self.at.biases, strict=True):
            if bias is not None:
                w.load_acc(bias, np.concatenate([self.filled(part.bias, n) for part in parts]).astype(np.int32))
        for first in range(0, self.ahead * self.buffers, self.ahead):
            self._load(first)
        entry, recurrent = (np.concatenate([self.blocks(part.weight, n) for part in parts]) for parts in self.parts)
        self.weights = Weights(w, entry, recurrent, [use for step in range(self.steps) for _, use in self._uses(step)])
        self._load_states(0)
        for step in range(self.steps):
            self._step(step)
            self.move(w.store_tile, self._state(step, after=True), OUTPUT, int(self.order[step]) * n * c.out_units)
            if self._ends(step):
                self._store_states(step)
        array = self.steps * 4 * n * sum(self.widths)
        return self.finished(self.pixel, n * c.out_units, n * c.out_units, self.weights.bytes, array)

    def _input(self, step: int) -> int:
        """Where the input of a step lies."""
        return self.at.inputs.first + step % (TURNS * self.ahead) * self.pixel

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
        return Run(self.at.states.first + number % STATES * count, count, 1)

    def _load_states(self, step: int) -> None:
        """Those of the sequence that begins with a step."""
        parts = [self._state(step), *self.at.given]
        self._move_states(self.w.load_tile, parts, step, INPUT, self.steps * self.pixel)

    def _store_states(self, step: int) -> None:
        """Those of the sequence that ends with a step."""
        parts = [self._state(step, after=True), *self.at.taken]
        self._move_states(self.w.store_tile, parts, step, OUTPUT, self.steps * self.n * self.c.out_units)

    def _move_states(self, move: Callable[..., None], parts: list[Run], step: int, segment: int, first: int) -> None:
        count, sequences = self.n * self.c.out_units, self.steps // self.op.steps
        for k, part in enumerate(parts):
            place = first + (k * sequences + step // self.op.steps) * count
            self.move(move, Run(part.first, count, 1), segment, place)

    def _uses(self, step: int) -> list[tuple[int, Use]]:
        """The products of a step in order, each with the step of whose input or hidden state on they are: entry parts
        of this turn, if they were not made before; what the hidden state adds; some entry parts of the next turn."""
        rows, place = 4 * self.n, step % self.ahead
        uses = [(step, Use(1, self.n, rows)), (step, Use(1, 0, self.n))] if self.late else [(step, Use(1, 0, rows))]
        if place == 0 and (step == 0 or self.buffers == 1):
            uses.insert(0, (step, Use(0, 0, rows)))
        first = step - place + self.ahead
        if self.buffers > 1 and first < self.steps:
            uses.append((first, Use(0, rows * place // self.ahead, rows * (place + 1) // self.ahead)))
        return uses

    def _entries(self, first: int, count: int) -> Run:
        """Sums of the entry parts of some steps of a turn."""
        turn, place = divmod(first, self.ahead)
        begin = self.at.entries[turn % self.buffers].part(place * 4 * self.n, (place + count) * 4 * self.n).first
        return Run(begin, 4 * self.n, self.c.out_units, count, 4 * self.n)

    def _sums(self, step: int, use: Use) -> Run:
        """Where the sums of products from this step on lie."""
        return self.at.gates if use.which else self._entries(step, min(self.ahead, self.steps - step))

    def _begin(self, step: int, use: Use) -> None:
        """Give sums their biases."""
        bias, sums = self.at.biases[use.which], self._sums(step, use).part(use.begin, use.end)
        if bias is not None and sums.count:
            first = bias.part(use.begin, use.end).first
            self.w.alu(AluOp.MOV, sums, Run(first, sums.count, self.c.out_units, sums.outer, 0))

    def _multiply(self, step: int, use: Use) -> Iterator[None]:
        """Add the products with inputs, or with the hidden state, from this step on, load by load."""
        c, blocks, sums = self.c, self.widths[use.which], self._sums(step, use)
        source = self._state(step).first if use.which else self._input(step)
        for row, rows, place in self.weights.rows(use):
            self.w.gemm(
                self._uops(use.which), outer=rows, inner=sums.outer, dst=sums.first + row * c.out_units,
                dst_outer=c.out_units, dst_inner=sums.step * c.out_units, src=source, src_inner=blocks * c.in_units,
                wgt=place, wgt_outer=blocks, wrap_base=0, wrap_size=c.act_units,
            )  # fmt: skip
            yield

    def _uops(self, which: int) -> list[Uop]:
        """Those of a row of products."""
        added = int(self.at.biases[which] is not None)
        return [(0, k * self.c.in_units, k, int(k > 0) | added) for k in range(self.widths[which])]

    def _scaled(self, which: int, sums: Run, near: Run, far: Run, begin: int = 0) -> None:
        """Those of each gate from ``begin`` on as int16, saturated if need be."""
        n, gates = self.n, range(sums.count // self.n)
        pieces = self.pieces[which][begin : begin + len(gates)]
        scale(self.w, [sums.part(k * n, k * n + n) for k in gates], pieces, near, far, self.at.sign)
        if which == 0:
            saturate(self.w, sums, max(p.most for p in pieces))

    def _prepare(self) -> None:
        """Load the constants of what follows while there is other work, not where each is waited for."""
        for part in self.w.pieces(self._uops(1)):
            self.w.resident(tuple(part))
        w, self.w = self.w, VectorWriter(self.c)
        self._scale_entries(0)
        for step in (0, self.steps - 1):
            self._cell(step, iter(()))
        w.prepare(self.w.constants)
        self.w = w

    def _step(self, step: int) -> None:
        """A step: all biases first, as products that ALU's work is to hide wait for theirs."""
        uses = self._uses(step)
        for first, use in uses:
            self._begin(first, use)
        products = iter([self._multiply(first, use) for first, use in uses])
        for (_, use), multiplied in zip(uses, products):
            if use.which and step == 0 and self.weights.stay:  # else weights that pass by are waited for more
                self._prepare()
            finish(multiplied)
            if use.which and self.late:
                break
        if step % self.ahead == 0:  # inputs of this turn have been read
            self._load(step + self.ahead * self.buffers)
        if step % self.group == 0:
            self._scale_entries(step)
        self._cell(step, products)

    def _scale_entries(self, step: int) -> None:
        """Entry parts of as many steps as are scaled at once."""
        count = min(self.group, self.steps - step)
        near = self.at.near[step // self.ahead % self.buffers]
        self._scaled(0, self._entries(step, count), near, self.at.far)

    def _cell(self, step: int, products: Iterator[Iterator[None]]) -> None:
        """A step from its recurrent sums on, and meanwhile the ``products`` that are left: of the output gate first."""
        w, n, gates = self.w, self.n, self.at.gates
        high, low = self.at.taken
        if step % self.op.steps == 0:  # while GEMM is busy
            w.widen(self.at.cell, self.at.given[0], 256, combine=Combine.WRITE)
            w.widen(self.at.cell, self.at.given[1], 1, 128)
        if self.late:
            w.meanwhile(next(products), BEHIND)
        self._gates(step, int(self.late), 4)
        first = 0 if self._at_once else n
        others = gates.part(first, 4 * n), self.at.result.part(first, 4 * n), self.at.x.part(0, 4 * n - first)
        activate(w, others[0], Scratch(*others, *self._strips(4 * n - first)), 3 * n - first)
        if self._ends(step) and step + 1 < self.steps:
            self._load_states(step + 1)
        self._update()
        if self._ends(step):
            w.narrow(high, self.at.cell, 8, offset=-128)
        w.alu(AluOp.MOV, gates.part(n, 2 * n), self.at.cell)
        if self.late:
            w.finish()
            self._gates(step, 0, 1)
            w.meanwhile(itertools.chain.from_iterable(products), BEHIND)
        first = n - first
        last = gates.part(first, 2 * n), self.at.result.part(first, 2 * n), self.at.x.part(0, 2 * n - first)
        activate(w, last[0], Scratch(*last, *self._strips(2 * n - first)), n - first, 15 - self.op.cell_bits)
        output, hidden = self.at.result.part(0, n), self.at.result.part(n, 2 * n)
        w.alu(AluOp.MUL, hidden, output)
        if self._ends(step):
            w.widen(self.at.cell, high, -256)
        w.narrow(
            Run(self._state(step, after=True).first, n, self.c.out_units), hidden, self.op.shift,
            multiplier=self.op.multiplier, rounding=Rounding.DOUBLE, zero_point=self.op.zero_point,
        )  # fmt: skip
        if self._ends(step):
            w.narrow(low, self.at.cell, zero_point=-128)
        w.finish()

    def _gates(self, step: int, begin: int, end: int) -> None:
        """The arguments of some gates, from their sums."""
        n = self.n
        gates = self.at.gates.part(begin * n, end * n)
        self._scaled(1, gates, self.at.result, self.at.x, begin)
        self.w.alu(AluOp.ADD, gates, self._entries(step, 1).part(begin * n, end * n))
        saturate(self.w, gates, INT32)

    def _update(self) -> None:
        """The cell, from the gates."""
        w, n = self.w, self.n
        entry, forget, fresh = (self.at.result.part(k * n, k * n + n) for k in (1, 2, 3))
        w.alu(AluOp.MUL, self.at.cell, forget)
        w.alu(AluOp.MUL, entry, fresh)
        signs = self._strips(2 * n)[0]
        products = (
            (self.at.cell, signs.part(0, n), 15), (entry, signs.part(n, 2 * n), 30 - self.op.cell_bits),
        )  # fmt: skip
        for run, sign, _ in products:
            w.narrow(sign, run, lo=-1, hi=0)
        for run, sign, _ in products:
            w.widen(run, sign, 1)
        for run, _, shift in products:
            w.alu(AluOp.ADD, run, 1 << shift - 1)
        for run, _, shift in products:
            w.alu(AluOp.SHR, run, shift)
        w.alu(AluOp.ADD, self.at.cell, entry)
        w.alu(AluOp.MAX, self.at.cell, self.op.cell_range[0])
        w.alu(AluOp.MIN, self.at.cell, self.op.cell_range[1])

    def _strips(self, vectors: int) -> list[Run]:
        return [run.part(0, vectors) for run in (self.at.sign, self.at.quarters, self.at.top, self.at.index)]


def lstm_program(graph: Graph, config: Config) -> RecurrentProgram:
    """The fastest of the programs that fit. Raises PlaceError if none does.

    Two buffers of sums of entry parts hide more than one, but turns are shorter, so that weights that pass by do so
    more often; and these pass by while ALU works where the output gate is late, which the array and ALU take turns for.
    """
    programs, refused = [], PlaceError("")
    for buffers, late in itertools.product((1, 2), (False, True)):
        try:
            writer = _writer(graph, config, buffers, late)
            if writer.late == late:
                programs.append(writer.written())
        except PlaceError as error:
            refused = error
    if not programs:
        raise refused
    return min(programs, key=lambda written: simulate_timing(written.program).cycles)


def _writer(graph: Graph, config: Config, buffers: int, late: bool) -> LstmWriter:
    """With things apart, if they fit so."""
    try:
        return LstmWriter(graph, config, buffers, True, late)
    except PlaceError:
        return LstmWriter(graph, config, buffers, False, late)
