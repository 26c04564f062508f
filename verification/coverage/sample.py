"""From a program and the times that its run took to the bins that the run has shown."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import COLUMNS
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.program import PAGE, Program
from tilewright.isa.spec import Engine, Memory, Opcode, entry_bytes, others
from tilewright.isa.timing import DISPATCH_LATENCY, GEMM_DEPTH, TOKEN_LATENCY
from tilewright.isa.verify.uops import AluBlock, GemmBlock, UopMemory
from tilewright.verification.coverage.model import Bin

__all__ = ["Times", "sample"]

MOVES = (Opcode.LOAD, Opcode.STORE)
TILES = (Opcode.LOAD, Opcode.FILL, Opcode.STORE)
VECTORS = (Opcode.ALU, Opcode.REQUANTIZE, Opcode.RESCALE)
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
        self.table = program.table()
        self.uops = {e: UopMemory(program.config, e) for e in (Engine.GEMM, Engine.ALU)}
        self.queues: dict[tuple[Engine, Engine], deque[tuple[int, str]]] = {}
        self.issued: dict[Engine, list[int]] = {e: [] for e in Engine}

    def step(self, index: int) -> Iterator[tuple[str, Bin]]:
        """The bins of one instruction."""
        row = {name: int(self.table[index, column]) for name, column in COLUMNS.items()}
        opcode, engine = Opcode(row["opcode"]), Engine(row["engine"])
        yield "dispatch", (opcode.name, self._held(index, engine))
        late = yield from self._tokens(index, row, engine)
        stall = self._stall(index, late)
        pops, pushes = row["pop"].bit_count(), row["push"].bit_count()
        yield "flags", (opcode.name, _count(pops), _count(pushes), str(row["trace"]))
        if opcode in TILES:
            yield from self._tile(row, opcode, stall)
        elif opcode == Opcode.GEMM:
            yield from self._gemm(row, stall)
        elif opcode in VECTORS:
            yield from self._vectors(row, opcode, stall)
        self.issued[engine].append(int(self.times.issue[index]))

    # -- time ------------------------------------------------------------------------------------------

    def _held(self, index: int, engine: Engine) -> str:
        now = int(self.times.dispatch[index])
        if index and now == self.times.dispatch[index - 1] + 1:
            return "nothing"
        mine, depth = self.issued[engine], self.config.queue_depth
        return "queue" if len(mine) >= depth and now == mine[-depth] + 1 else "fetch"

    def _tokens(self, index: int, row: dict[str, int], engine: Engine) -> Generator[tuple[str, Bin], None, bool]:
        """Bins of the tokens it takes; returns whether one of them let it issue."""
        late = False
        for bit, other in enumerate(others(engine)):
            if row["pop"] >> bit & 1:
                pushed, count = self.queues[other, engine].popleft()
                waited = int(self.times.issue[index]) == int(self.times.retire[pushed]) + TOKEN_LATENCY
                late |= waited
                yield "tokens", (other.name, engine.name, "late" if waited else "early", count)
        for bit, other in enumerate(others(engine)):
            if row["push"] >> bit & 1:
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

    def _tile(self, row: dict[str, int], opcode: Opcode, stall: str) -> Iterator[tuple[str, Bin]]:
        memory = Memory.ACT if opcode == Opcode.STORE else Memory(row["memory"])
        padding, alignment = _padding(row), ""
        offsets = row["sram"] + (
            np.arange(row["rows"])[:, None] * row["sram_row"] + np.arange(row["cols"]) * row["sram_col"]
        )
        if opcode in MOVES:
            alignment = _alignment(self.config, memory, row)
        if opcode == Opcode.LOAD:
            yield "load", (memory.name, padding, alignment, stall)
        elif opcode == Opcode.STORE:
            yield "store", (self.program.segments[row["segment"]].kind, padding, alignment, stall)
        else:
            yield "fill", (memory.name, "other" if row["value"] else "zero", padding, stall)
        if memory == Memory.ACT:
            yield "wrap", (opcode.name, _wraps(offsets, row), stall)
        if memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
            engine = Engine.GEMM if memory == Memory.UOP_GEMM else Engine.ALU
            starts = [(row["offset"] + r * row["stride"]) * self.config.beat_bytes for r in range(row["rows"])]
            self.uops[engine].load(offsets.ravel(), self.program.segments[row["segment"]], starts, row["cols"])

    # -- micro-ops -------------------------------------------------------------------------------------

    def _gemm(self, row: dict[str, int], stall: str) -> Iterator[tuple[str, Bin]]:
        c = self.config
        block: GemmBlock = self.uops[Engine.GEMM].gemm(row["uop_begin"], row["uop_count"], bool(row["window"]))
        mode, pace = ("window" if row["window"] else "dense"), str(row["pace"] + 1)
        emits, adding = len(block.dst.positions), len(block.accumulating.positions)
        accumulate = "none" if not adding else "all" if adding == emits else "some"
        where = _visits(row, "dst", block.dst.column)
        emitting = np.tile(block.emits, row["outer"] * row["inner"])
        yield "gemm", (mode, accumulate, pace, _reuse(where, emitting, row["pace"] + 1), stall)
        shape = "square" if c.block_in == c.block_out else "wide" if c.block_in > c.block_out else "tall"
        multipliers = "packed" if c.dsp_packing else "plain"
        every = "all" if bool(emitting.all()) else "some"
        if (mode, multipliers, pace, every) != ("window", "packed", "1", "all"):  # excluded: see the model
            yield "array", (mode, multipliers, pace, shape, every)
        yield "wrap", (Opcode.GEMM.name, _wraps(_visits(row, "src", block.src.column), row), stall)

    def _vectors(self, row: dict[str, int], opcode: Opcode, stall: str) -> Iterator[tuple[str, Bin]]:
        block: AluBlock = self.uops[Engine.ALU].alu(row["uop_begin"], row["uop_count"])
        dst, src = _visits(row, "dst", block.dst.column), _visits(row, "src", block.src.column)
        if opcode == Opcode.ALU:
            banks = self.config.acc_bank_units
            operand = "same bank" if bool((dst // banks == src // banks).any()) else "other bank"
            operand = "immediate" if row["use_imm"] else operand
            yield "alu", (AluOp(row["function"]).name, operand, str(row["pace"] + 1), stall)
            return
        rounding = Rounding(row["rounding"]).name
        wrap = _wraps(dst if opcode == Opcode.REQUANTIZE else src, row)
        yield "wrap", (opcode.name, wrap, stall)
        if opcode == Opcode.REQUANTIZE:
            yield "requantize", (rounding, "full" if (row["lo"], row["hi"]) == INT8 else "narrow", wrap, stall)
        else:
            yield "rescale", (rounding, Combine(row["combine"]).name, stall)


def _padding(row: dict[str, int]) -> str:
    """How a tile lies in its memory."""
    if row["cols"] > 1 and row["sram_col"] != 1:
        return "scattered"
    if row["rows"] == 1 or row["sram_row"] == row["cols"]:
        return "packed"
    return "bordered" if row["sram_row"] > row["cols"] else "scattered"


def _alignment(config: Config, memory: Memory, row: dict[str, int]) -> str:
    """How a tile's rows lie in DRAM; segment bases are multiples of a page."""
    beats = -(-row["cols"] * entry_bytes(config, memory) // config.beat_bytes)
    first = row["offset"] + np.arange(row["rows"]) * row["stride"]
    last = first + beats - 1
    for name, length in (("page", PAGE // config.beat_bytes), ("split", config.burst_beats)):
        if bool((first // length != last // length).any()):
            return name
    return "inside" if bool((first % config.burst_beats).any()) else "burst"


def _visits(row: dict[str, int], name: str, column: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offset of an operand in every micro-op iteration, in order."""
    outer, inner = np.arange(row["outer"]) * row[f"{name}_outer"], np.arange(row["inner"]) * row[f"{name}_inner"]
    return (row[name] + outer[:, None, None] + inner[:, None] + column).ravel()


def _wraps(offsets: NDArray[np.int64], row: dict[str, int]) -> str:
    return "wraps" if bool((offsets >= row["wrap_size"]).any()) else "straight"


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
