"""State of a random program being made: where operands live, what was written, ALU issue slots."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import wrap_int32
from tilewright.isa.program import PAGE
from tilewright.isa.spec import Engine, Memory, Opcode, memory_depth
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.verification.random_order import Addresses, History, Touch

CONSTANT, INPUT, OUTPUT, SCRATCH = range(4)  #: segment numbers
NAMES = {
    Memory.ACT: "act", Memory.ACC: "acc", Memory.ACC8: "acc", Memory.WGT: "wgt", Memory.PRM: "prm",
    Memory.UOP_GEMM: "uop_gemm", Memory.UOP_ALU: "uop_alu",
}  # fmt: skip
SEGMENT_NAMES = {OUTPUT: "output", SCRATCH: "scratch"}
PRM_ENTRIES = 8  #: parameter entries of the constant segment, behind random bytes; half of them on each side of a page
LATENCY_UNKNOWN = -(1 << 40)


@dataclass
class Proposal:
    """An instruction and what it touches.

    ``vectors``, for the ALU engine: per vector in issue order, (memory, unit) pairs read and written, and
    ``period`` cycles from one to the next. ``uops``: memory, addresses and fields of micro-ops it loads.
    """

    opcode: Opcode
    engine: Engine
    fields: dict[str, int]
    touches: list[Touch]
    fresh: Addresses = field(default_factory=lambda: np.zeros(0, np.int64))
    vectors: list[tuple[list[tuple[str, int]], list[tuple[str, int]]]] = field(default_factory=list)
    period: int = 1
    uops: tuple[Memory, Addresses, NDArray[np.int64]] | None = None


class State:
    """Working areas, access histories and micro-ops of one random program."""

    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.depth = {NAMES[m]: memory_depth(config, m) for m in Memory}
        banks = {"act": config.act_bank_units, "acc": config.acc_bank_units}
        self.history = {name: History(depth, banks.get(name, 0)) for name, depth in self.depth.items()}
        self.span = max(config.in_units, config.out_units)
        wgt_room = max(2, min(12, 4096 // config.wgt_entry_bytes))
        most = {"act": 24, "acc": 16, "wgt": wgt_room, "prm": 6}
        self.area = {name: self._stretch(name, length) for name, length in most.items()}
        self.uops = {
            Memory.UOP_GEMM: np.zeros((self.depth["uop_gemm"], 4), np.int64),
            Memory.UOP_ALU: np.zeros((self.depth["uop_alu"], 3), np.int64),
        }
        self.prm_offset = 2 * PAGE - PRM_ENTRIES // 2 * config.prm_entry_bytes
        self.blob = bytearray(rng.integers(0, 256, self.prm_offset).astype(np.uint8).tobytes())
        self.blob += self._parameters()
        beat = config.beat_bytes
        # any tile fits, if with stride 0, and there is a page boundary within
        least = max(PAGE + 512, config.wgt_entry_bytes, config.acc_unit_bytes)
        self.beats = {s: -(-least // beat) + self.integer(0, 64) for s in (INPUT, OUTPUT, SCRATCH)}
        for segment, name in SEGMENT_NAMES.items():
            self.history[name] = History(self.beats[segment])
        self.slot = 0
        self.alu_wrote = {name: np.full(self.depth[name], LATENCY_UNKNOWN) for name in ("act", "acc")}

    # -- draws -----------------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        """Low .. high, inclusive."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *values: int) -> int:
        """One of the values."""
        return values[int(self.rng.integers(len(values)))]

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return bool(self.rng.random() < probability)

    def _stretch(self, name: str, most: int) -> tuple[int, int]:
        """(start, length) of a memory's working area; whole vectors for act and acc."""
        step = self.span if name in ("act", "acc") else 1
        total = self.depth[name] // step
        length = min(total, self.integer(min(4, most), most))
        return self.integer(0, total - length) * step, length * step

    def _parameters(self) -> bytes:
        """PRM entries in the range of real ones: multipliers in [0, 2^31), shifts 0 .. 63, any offset."""
        count = PRM_ENTRIES * self.config.block_out
        entries = np.zeros((count, 4), np.int64)
        entries[:, 0] = self.rng.integers(-(1 << 31), 1 << 31, count) >> self.rng.integers(0, 32, count)
        entries[:, 1] = self.rng.integers(0, 1 << 31, count) >> self.pick(0, 0, 8, 24)
        entries[:, 2] = np.where(self.rng.random(count) < 0.5, 0, self.rng.integers(-(1 << 31), 1 << 31, count))
        entries[:, 3] = np.where(
            self.rng.random(count) < 0.6, self.rng.integers(28, 48, count), self.rng.integers(0, 64, count)
        )
        return wrap_int32(entries).astype("<i4").tobytes()

    # -- legality --------------------------------------------------------------------------------------

    def readable(self, p: Proposal) -> bool:
        """Whether everything that a proposal reads has been written, and its ALU vectors can keep their distance."""
        for touch in p.touches:
            reads = p.fresh if touch.memory == "acc" and p.engine == Engine.GEMM else touch.reads
            if not self.history[touch.memory].written(reads):
                return False
        return self._keeps_distance_within(p)

    def _keeps_distance_within(self, p: Proposal) -> bool:
        wrote: dict[tuple[str, int], int] = {}
        for number, (reads, writes) in enumerate(p.vectors):
            slot = number * p.period
            if any(slot - wrote.get(unit, LATENCY_UNKNOWN) < ALU_DISTANCE for unit in reads):
                return False
            wrote.update(dict.fromkeys(writes, slot))
        return True

    def missing_distance(self, p: Proposal) -> int:
        """ALU issue cycles to let pass before a proposal may start."""
        missing = 0
        written: set[tuple[str, int]] = set()
        for number, (reads, writes) in enumerate(p.vectors):
            slot = self.slot + number * p.period
            for name, unit in reads:
                if (name, unit) not in written:
                    missing = max(missing, int(self.alu_wrote[name][unit]) + ALU_DISTANCE - slot)
            written.update(writes)
        return missing

    def run_vectors(self, p: Proposal) -> None:
        """Enter a proposal's vectors in the ALU's issue slots."""
        for _, writes in p.vectors:
            for name, unit in writes:
                self.alu_wrote[name][unit] = self.slot
            self.slot += p.period
