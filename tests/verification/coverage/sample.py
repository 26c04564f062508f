"""From a program and the times that its run took to the bins that the run has shown."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tests.verification.coverage.model import Bin
from tilewright.config import Config
from tilewright.isa.codec import rows_of
from tilewright.isa.effects import TILES, Access, effects, row_beats, vectors
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.program import PAGE, Program
from tilewright.isa.spec import FORMAT_OF, Engine, Fields, Memory, Opcode, others
from tilewright.isa.timing import DISPATCH_LATENCY, GEMM_DEPTH, TOKEN_LATENCY
from tilewright.isa.uops import Block, UopMemories

__all__ = ["Times", "sample"]

INT8 = (-128, 127)


class Times(Protocol):
    """Cycles of every instruction, in program order; what simulator and RTL both report."""

    @property
    def dispatch(self) -> NDArray[np.int64]:
        """Of the dispatch."""

    @property
    def issue(self) -> NDArray[np.int64]:
        """Of the issue."""

    @property
    def retire(self) -> NDArray[np.int64]:
        """Of the retire."""


def sample(program: Program, times: Times, paused: bool) -> Counter[tuple[str, Bin]]:
    """How often a run shows each bin, by (group, bin). ``paused``: the bus paused at random."""
    walk = _Walk(program, times, paused)
    return Counter(found for index in range(program.instruction_count) for found in walk.step(index))


def _count(number: int) -> str:
    return ("none", "one", "several")[min(number, 2)]


class _Walk:
    """Through a program in order: micro-op memories and token queues as they are at each instruction."""

    def __init__(self, program: Program, times: Times, paused: bool) -> None:
        self.program, self.config, self.times, self.paused = program, program.config, times, paused
        self.rows = list(rows_of(program.table()))
        self.uops = UopMemories(program.config, program.segments)
        self.queues: dict[tuple[Engine, Engine], deque[tuple[int, str]]] = {}
        self.issued: dict[Engine, list[int]] = {e: [] for e in Engine}

    def step(self, index: int) -> Iterator[tuple[str, Bin]]:
        """The bins of one instruction."""
        row = self.rows[index]
        opcode, engine = Opcode(row.opcode), Engine(row.engine)
        yield "dispatch", (opcode.name, self._held(index, engine))
        late = yield from self._tokens(index, row, engine)
        stall = self._stall(index, late)
        pops, pushes = row.pop.bit_count(), row.push.bit_count()
        yield "flags", (opcode.name, _count(pops), _count(pushes), str(row.trace))
        uops = self.uops.step(row)
        accesses = effects(row, uops, self.config)
        wrap = next((_wrap(access) for access in accesses if access.memory == Memory.ACT), "")
        if wrap:
            yield "wrap", (opcode.name, wrap, stall)
        if opcode in TILES:
            yield self._tile(row, opcode, stall)
        elif opcode == Opcode.GEMM:
            assert uops is not None
            yield from self._gemm(row, uops, accesses, stall)
        elif opcode == Opcode.ALU:
            assert uops is not None
            yield "alu", (AluOp(row.function).name, self._operand(row, uops), str(row.pace + 1), stall)
        elif opcode == Opcode.REQUANTIZE:
            clamp = "full" if (row.lo, row.hi) == INT8 else "narrow"
            yield "requantize", (Rounding(row.rounding).name, clamp, wrap, stall)
        elif opcode == Opcode.RESCALE:
            yield (
                "rescale",
                (Rounding(row.rounding).name, Combine(row.combine).name, ("itself", "looked up")[row.lookup], stall),
            )
        self.issued[engine].append(int(self.times.issue[index]))

    # -- time ------------------------------------------------------------------------------------------

    def _held(self, index: int, engine: Engine) -> str:
        now = int(self.times.dispatch[index])
        if index and now == self.times.dispatch[index - 1] + 1:
            return "nothing"
        mine, depth = self.issued[engine], self.config.queue_depth
        return "queue" if len(mine) >= depth and now == mine[-depth] + 1 else "fetch"

    def _tokens(self, index: int, row: Fields, engine: Engine) -> Generator[tuple[str, Bin], None, bool]:
        """Bins of the tokens it takes; returns whether one of them let it issue."""
        late = False
        for bit, other in enumerate(others(engine)):
            if row.pop >> bit & 1:
                pushed, count = self.queues[other, engine].popleft()
                waited = int(self.times.issue[index]) == int(self.times.retire[pushed]) + TOKEN_LATENCY
                late |= waited
                yield "tokens", (other.name, engine.name, "late" if waited else "early", count)
        for bit, other in enumerate(others(engine)):
            if row.push >> bit & 1:
                queue = self.queues.setdefault((engine, other), deque())
                held = len(queue) + 1
                count = "depth" if held == self.config.token_depth else "one" if held == 1 else "several"
                queue.append((index, count))
        return late

    def _stall(self, index: int, late: bool) -> str:
        if self.paused:
            return "paused"
        if int(self.times.issue[index]) == int(self.times.dispatch[index]) + DISPATCH_LATENCY:
            return "none"
        return "token" if late else "engine"

    # -- tiles -----------------------------------------------------------------------------------------

    def _tile(self, row: Fields, opcode: Opcode, stall: str) -> tuple[str, Bin]:
        memory, padding = Memory(row.memory).name, _padding(row)
        if opcode == Opcode.FILL:
            return "fill", (memory, "other" if row.value else "zero", padding, stall)
        alignment = _alignment(self.config, row)
        if opcode == Opcode.LOAD:
            return "load", (memory, padding, alignment, stall)
        return "store", (self.program.segments[row.segment].kind, padding, alignment, stall)

    # -- micro-ops -------------------------------------------------------------------------------------

    def _gemm(
        self, row: Fields, uops: Block, accesses: Sequence[Access], stall: str
    ) -> Iterator[tuple[str, Bin]]:  # fmt: skip
        c = self.config
        mode, pace = ("pair" if row.pair else "window" if row.window else "dense"), str(row.pace + 1)
        emits, adding = int(uops.emits.sum()), len(uops.accumulating.positions)
        accumulate = "none" if not adding else "all" if adding == emits else "some"
        emitting = np.tile(uops.emits, row.outer * row.inner)
        where = next((access.visits() for access in accesses if access.writes), emitting)
        yield "gemm", (mode, accumulate, pace, _reuse(where, emitting, row.pace + 1), stall)
        shape = "square" if c.block_in == c.block_out else "wide" if c.block_in > c.block_out else "tall"
        multipliers = "packed" if c.dsp_packing else "plain"
        every = "all" if emits == uops.count else "some"
        if mode == "dense" or (multipliers, pace, every) != ("packed", "1", "all"):  # excluded: see the model
            yield "array", (mode, multipliers, pace, shape, every, "two" if row.twin else "one")

    def _operand(self, row: Fields, uops: Block) -> str:
        """What ALU joins with its destination, whether the function reads it or not."""
        if row.use_imm:
            return "immediate"
        places = (vectors(o, uops.columns[o.name], row, self.config) for o in FORMAT_OF[row.opcode].operands)
        dst, src = (place.visits() // self.config.acc_bank_units for place in places)
        return "same bank" if bool((dst == src).any()) else "other bank"


def _padding(row: Fields) -> str:
    """How a tile lies in its memory."""
    if row.cols > 1 and row.sram_col != 1:
        return "scattered"
    if row.rows == 1 or row.sram_row == row.cols:
        return "packed"
    return "bordered" if row.sram_row > row.cols else "scattered"


def _alignment(config: Config, row: Fields) -> str:
    """How a tile's rows lie in DRAM; segment bases are multiples of a page."""
    first = row.offset + np.arange(row.rows) * row.stride
    last = first + row_beats(row, config) - 1
    for name, length in (("page", PAGE // config.beat_bytes), ("split", config.burst_beats)):
        if bool((first // length != last // length).any()):
            return name
    return "inside" if bool((first % config.burst_beats).any()) else "burst"


def _wrap(access: Access) -> str:
    return "wraps" if access.wraps() else "straight"


def _reuse(where: NDArray[np.int64], emitting: NDArray[np.bool_], period: int) -> str:
    """The closest return to one address, in micro-ops and against the pipeline's depth in cycles."""
    last: dict[int, int] = {}
    closest = len(where) + GEMM_DEPTH
    for number in np.flatnonzero(emitting).tolist():
        address = int(where[number])
        if address in last:
            closest = min(closest, number - last[address])
        last[address] = number
    return "next" if closest == 1 else "near" if closest * period <= GEMM_DEPTH else "no"
