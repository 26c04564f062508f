"""From memory accesses to tokens: orders the engines exactly where their accesses conflict.

Instructions are added in program order. For each one the tracker finds, per other engine, the last
instruction that must have completed before it may issue: read after write, write after read and write after
write on single units, and two readers or two writers of one bank. Vector clocks drop what is already
implied; what remains becomes one push on the earlier instruction and one pop on the later one.

An ALU read too close behind the ALU write it depends on gets a WAIT in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import Instruction
from tilewright.isa.spec import Engine, Opcode, token_bit
from tilewright.isa.timing import ALU_DISTANCE

Addresses = NDArray[np.int64]


@dataclass(frozen=True)
class Access:
    """Addresses of one memory (units or entries; for ``dram`` beats of scratch) that an instruction touches.

    For ALU instructions the first axis is the issue slot, in order.
    """

    memory: str
    addresses: Addresses
    write: bool


class _MemoryState:
    """Last writer and last reader of every address and bank of one memory, as instruction indices."""

    def __init__(self, depth: int, bank_units: int) -> None:
        self.bank_units = bank_units
        banks = -(-depth // bank_units)
        self.written = np.full((len(Engine), depth), -1, np.int64)
        self.read = np.full((len(Engine), depth), -1, np.int64)
        self.bank_written = np.full((len(Engine), banks), -1, np.int64)
        self.bank_read = np.full((len(Engine), banks), -1, np.int64)
        self.alu_slot = np.full(depth, -(1 << 40), np.int64)

    def conflicts(self, addresses: Addresses, write: bool) -> NDArray[np.int64]:
        """Per engine, the last instruction that an access must come after."""
        banks = np.unique(addresses // self.bank_units)
        if write:
            last = np.maximum(self.written[:, addresses].max(axis=1), self.read[:, addresses].max(axis=1))
            return np.maximum(last, self.bank_written[:, banks].max(axis=1))
        return np.maximum(self.written[:, addresses].max(axis=1), self.bank_read[:, banks].max(axis=1))

    def record(self, engine: Engine, index: int, addresses: Addresses, write: bool) -> None:
        banks = np.unique(addresses // self.bank_units)
        (self.written if write else self.read)[engine, addresses] = index
        (self.bank_written if write else self.bank_read)[engine, banks] = index


@dataclass
class HazardTracker:
    """Collects a program's instructions and the token edges between them."""

    config: Config
    scratch_beats: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        c = self.config
        self._memories = {
            "act": _MemoryState(c.act_units, c.act_bank_units),
            "acc": _MemoryState(c.acc_units, c.acc_bank_units),
            "wgt": _MemoryState(c.wgt_entries, c.wgt_entries),
            "prm": _MemoryState(c.prm_entries, c.prm_entries),
            "uop_gemm": _MemoryState(c.uop_gemm_bytes // 4, c.uop_gemm_bytes),
            "uop_alu": _MemoryState(c.uop_alu_bytes // 4, c.uop_alu_bytes),
            "dram": _MemoryState(max(1, self.scratch_beats), 1 << 40),
        }
        self._clock = np.full((len(Engine), len(Engine)), -1, np.int64)
        self._completed: list[NDArray[np.int64]] = []
        self._pop: list[int] = []
        self._push: list[int] = []
        self._alu_slots = 0

    def add(self, instruction: Instruction, accesses: Sequence[Access], layer: int) -> int:
        """Append an instruction with what it reads and writes; returns its index."""
        engine = instruction.engine
        if engine == Engine.ALU:
            delay = self._alu_delay(accesses)
            if delay > 0:
                wait = Instruction(Opcode.WAIT, {"engine": int(Engine.ALU), "cycles": delay})
                self._append(wait, [], layer)
                self._alu_slots += delay
        index = self._append(instruction, accesses, layer)
        if engine == Engine.ALU:
            self._advance_alu(accesses)
        return index

    def finish(self) -> list[Instruction]:
        """The instructions with their ``pop`` and ``push`` masks filled in."""
        return [
            Instruction(i.opcode, {**i.fields, "pop": self._pop[n], "push": self._push[n]})
            for n, i in enumerate(self.instructions)
        ]

    def _append(self, instruction: Instruction, accesses: Sequence[Access], layer: int) -> int:
        engine, index = instruction.engine, len(self.instructions)
        needed = np.full(len(Engine), -1, np.int64)
        flat = [(self._memories[a.memory], np.unique(a.addresses), a.write) for a in accesses]
        for memory, addresses, write in flat:
            needed = np.maximum(needed, memory.conflicts(addresses, write))
        clock = self._clock[engine].copy()
        pop = 0
        for other in sorted(Engine, key=lambda e: -needed[e]):
            if other == engine or needed[other] <= clock[other]:
                continue
            source = int(needed[other])
            self._push[source] |= token_bit(other, engine)
            pop |= token_bit(engine, other)
            clock = np.maximum(clock, self._completed[source])
        for memory, addresses, write in flat:
            memory.record(engine, index, addresses, write)
        clock[engine] = index
        self._clock[engine] = clock
        self._completed.append(clock)
        self.instructions.append(instruction)
        self.layers.append(layer)
        self._pop.append(pop)
        self._push.append(0)
        return index

    def _alu_delay(self, accesses: Sequence[Access]) -> int:
        earliest = self._alu_slots
        for access in accesses:
            if access.write or access.memory not in ("act", "acc"):
                continue
            written = self._memories[access.memory].alu_slot[access.addresses]
            position = np.arange(len(access.addresses)).reshape(-1, *[1] * (access.addresses.ndim - 1))
            earliest = max(earliest, int((written + ALU_DISTANCE - position).max()))
        return earliest - self._alu_slots

    def _advance_alu(self, accesses: Sequence[Access]) -> None:
        slots = 0
        for access in accesses:
            slots = max(slots, len(access.addresses))
            if access.write and access.memory in ("act", "acc"):
                position = np.arange(len(access.addresses)).reshape(-1, *[1] * (access.addresses.ndim - 1))
                values = np.broadcast_to(self._alu_slots + position, access.addresses.shape)
                self._memories[access.memory].alu_slot[access.addresses] = values
        self._alu_slots += slots
