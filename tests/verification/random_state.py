"""State of a random program being made: where operands live, what was written, ALU issue slots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tests.verification.random_order import History
from tilewright.config import Config
from tilewright.isa.arithmetic import wrap_int32
from tilewright.isa.codec import Instruction
from tilewright.isa.effects import Access, Addresses, effects
from tilewright.isa.program import PAGE
from tilewright.isa.spec import (
    FORMAT_OF,
    MEMORIES,
    TABLE_ENTRIES,
    UOP_FIELDS,
    UOP_MEMORY,
    Engine,
    Memory,
    Opcode,
    memory_depth,
    uop_depth,
)
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.uops import Block

CONSTANT, INPUT, OUTPUT, SCRATCH = range(4)  #: segment numbers
WRITTEN = (OUTPUT, SCRATCH)  #: segments that STORE goes to
Place = tuple[Memory, int]
PRM_ENTRIES = 8  #: parameter entries of the constant segment, behind random bytes; half of them on each side of a page
LATENCY_UNKNOWN = -(1 << 40)


@dataclass
class Proposal:
    """An instruction and what it touches. ``uops``: memory, addresses and fields of micro-ops that it loads."""

    instruction: Instruction
    accesses: list[Access]
    uops: tuple[Memory, Addresses, NDArray[np.int64]] | None = None

    @property
    def period(self) -> int:
        """Cycles from one vector to the next."""
        return int(self.instruction.row.pace) + 1

    @cached_property
    def vectors(self) -> list[tuple[list[Place], list[Place]]]:
        """For the ALU engine: what each vector reads and writes of act and acc, in issue order."""
        if self.instruction.engine != Engine.ALU:
            return []
        units = [
            (a.memory, a, a.units(a.visits()).tolist()) for a in self.accesses if a.memory in (Memory.ACT, Memory.ACC)
        ]
        return [
            (
                [(memory, unit) for memory, a, starts in units if a.reads for unit in starts[number]],
                [(memory, unit) for memory, a, starts in units if a.writes for unit in starts[number]],
            )
            for number in range(len(units[0][2]) if units else 0)
        ]


class State:
    """Working areas, access histories and micro-ops of one random program."""

    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.depth = {memory: memory_depth(config, memory) for memory in Memory}
        self.history = {m.memory: History(m.depth(config), m.bank_units(config)) for m in MEMORIES.values()}
        self.span = max(config.in_units, config.out_units)
        wgt_room = max(2, min(12, 4096 // config.wgt_entry_bytes))
        most = {Memory.ACT: 24, Memory.ACC: 16, Memory.WGT: wgt_room, Memory.PRM: 6, Memory.TABLE: 2}
        self.area = {memory: self._stretch(memory, length) for memory, length in most.items()}
        self.area[Memory.ACC8] = self.area[Memory.ACC]
        self.uops = {
            UOP_MEMORY[engine]: np.zeros((uop_depth(config, engine), len(fields)), np.int64)
            for engine, fields in UOP_FIELDS.items()
        }
        self.prm_offset = 2 * PAGE - PRM_ENTRIES // 2 * config.prm_entry_bytes
        self.blob = bytearray(rng.integers(0, 256, self.prm_offset).astype(np.uint8).tobytes())
        self.blob += self._parameters()
        beat = config.beat_bytes
        # any tile fits, if with stride 0, and there is a page boundary within
        least = max(PAGE + 512, config.wgt_entry_bytes, config.acc_unit_bytes)
        self.beats = {s: -(-least // beat) + self.integer(0, 64) for s in (INPUT, OUTPUT, SCRATCH)}
        self.dram = {segment: History(self.beats[segment]) for segment in WRITTEN}
        self.slot = 0
        self.alu_wrote = {m: np.full(self.depth[m], LATENCY_UNKNOWN) for m in (Memory.ACT, Memory.ACC)}

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

    def _stretch(self, memory: Memory, most: int) -> tuple[int, int]:
        """(start, length) of a memory's working area; whole vectors for act and acc, whole tables."""
        step = {Memory.ACT: self.span, Memory.ACC: self.span, Memory.TABLE: TABLE_ENTRIES}.get(memory, 1)
        total = self.depth[memory] // step
        length = min(total, self.integer(min(4, most), most))
        return self.integer(0, total - length) * step, length * step

    def _parameters(self) -> bytes:
        """PRM entries in the range of real ones: multipliers in [0, 2^31), shifts 0 .. 63, any offset.

        Half of the multipliers have few significant bits, so that products are ties or near them.
        """
        count = PRM_ENTRIES * self.config.block_out
        entries = np.zeros((count, 4), np.int64)
        entries[:, 0] = self.rng.integers(-(1 << 31), 1 << 31, count) >> self.rng.integers(0, 32, count)
        entries[:, 1] = self.rng.integers(0, 1 << 31, count) >> self.pick(0, 0, 8, 24)
        entries[:, 1] &= np.int64(-1) << np.maximum(0, self.rng.integers(-30, 31, count))
        entries[:, 2] = np.where(self.rng.random(count) < 0.5, 0, self.rng.integers(-(1 << 31), 1 << 31, count))
        entries[:, 3] = np.where(
            self.rng.random(count) < 0.6, self.rng.integers(28, 48, count), self.rng.integers(0, 64, count)
        )
        return wrap_int32(entries).astype("<i4").tobytes()

    # -- legality --------------------------------------------------------------------------------------

    def proposal(
        self, opcode: Opcode, fields: dict[str, int], uops: tuple[Memory, Addresses, NDArray[np.int64]] | None = None
    ) -> Proposal:
        """An instruction with what it would touch now; constants and inputs left out."""
        instruction = Instruction(opcode, fields)
        row, engine, block = instruction.row, instruction.engine, None
        if FORMAT_OF[opcode].operands:
            run = self.uops[UOP_MEMORY[engine]][row.uop_begin : row.uop_begin + row.uop_count]
            block = Block(run, engine, self.config, row.window == 1)
        accesses = effects(row, block, self.config)
        return Proposal(instruction, [a for a in accesses if a.memory is not None or a.segment in self.dram], uops)

    def history_of(self, access: Access) -> History:
        """Who has touched what an access names."""
        return self.dram[access.segment] if access.memory is None else self.history[access.memory]

    def readable(self, p: Proposal) -> bool:
        """Whether everything that a proposal reads has been written, and its ALU vectors can keep their distance."""
        for access in p.accesses:
            if access.reads and not self.history_of(access).written(self._unwritten(p, access)):
                return False
        return self._keeps_distance_within(p)

    def _unwritten(self, p: Proposal, read: Access) -> Addresses:
        """What an access reads but for what the same GEMM has written before it accumulates there."""
        if read.memory != Memory.ACC or p.instruction.engine != Engine.GEMM:
            return read.addresses()
        write = next(access for access in p.accesses if access.writes)
        use = np.zeros(len(write.column.column), np.int64)
        use[write.column.positions], use[read.column.positions] = 1, 2
        places, uses = write.visits(), np.tile(use, write.outer[0] * write.inner[0])
        places, uses = places[uses > 0], uses[uses > 0]
        first = np.unique(places, return_index=True)[1]
        return write.units(places[first[uses[first] == 2]]).ravel()

    def _keeps_distance_within(self, p: Proposal) -> bool:
        wrote: dict[Place, int] = {}
        for number, (reads, writes) in enumerate(p.vectors):
            slot = number * p.period
            if any(slot - wrote.get(unit, LATENCY_UNKNOWN) < ALU_DISTANCE for unit in reads):
                return False
            wrote.update(dict.fromkeys(writes, slot))
        return True

    def missing_distance(self, p: Proposal) -> int:
        """ALU issue cycles to let pass before a proposal may start."""
        missing = 0
        written: set[Place] = set()
        for number, (reads, writes) in enumerate(p.vectors):
            slot = self.slot + number * p.period
            for memory, unit in reads:
                if (memory, unit) not in written:
                    missing = max(missing, int(self.alu_wrote[memory][unit]) + ALU_DISTANCE - slot)
            written.update(writes)
        return missing

    def run_vectors(self, p: Proposal) -> None:
        """Enter a proposal's vectors in the ALU's issue slots."""
        for _, writes in p.vectors:
            for memory, unit in writes:
                self.alu_wrote[memory][unit] = self.slot
            self.slot += p.period
