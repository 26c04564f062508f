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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import Instruction
from tilewright.isa.spec import Engine, Opcode, token_bit
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.sim.compiled import compiled

Addresses = NDArray[np.int64]


class Access(NamedTuple):
    """Addresses of one memory (units or entries; for ``dram`` beats of scratch) that an instruction touches.

    For ALU instructions the first axis is the issue slot, in order.
    """

    memory: str
    addresses: Addresses
    write: bool


_ENGINES = range(len(Engine))
_BITS = [[0 if a == b else token_bit(a, b) for b in Engine] for a in Engine]


@compiled
def _conflicts(last: Any, banks: Any, bank_units: int, addresses: Any, write: int, needed: Any) -> None:
    """Raise ``needed`` (per engine) to the last instruction that an access must come after."""
    bank = -1
    for address in addresses:
        if address < 0 or address >= len(last):
            raise IndexError("an access outside its memory")
        for e in range(4):
            needed[e] = max(needed[e], last[address, 1, e])
            if write:
                needed[e] = max(needed[e], last[address, 0, e])
        if address // bank_units != bank:
            bank = address // bank_units
            for e in range(4):
                needed[e] = max(needed[e], banks[bank, write, e])


@compiled
def _record(last: Any, banks: Any, bank_units: int, addresses: Any, write: int, engine: int, index: int) -> None:
    for address in addresses:
        last[address, write, engine] = index
        banks[address // bank_units, write, engine] = index


@compiled
def _latest_need(alu_slot: Any, addresses: Any) -> int:
    """The first slot from which an ALU instruction may start, for all that it reads (slots, addresses of each)."""
    found = -(1 << 40)
    for position in range(addresses.shape[0]):
        for k in range(addresses.shape[1]):
            found = max(found, alu_slot[addresses[position, k]] + ALU_DISTANCE - position)
    return found


@compiled
def _fill_slots(alu_slot: Any, addresses: Any, first: int) -> None:
    for position in range(addresses.shape[0]):
        for k in range(addresses.shape[1]):
            alu_slot[addresses[position, k]] = first + position


class _MemoryState:
    """Last reader [0] and last writer [1] of every address and bank of one memory, by engine, as instruction indices.

    Compiled loops over the addresses: an instruction touches hundreds, and a network has ten thousands of instructions.
    """

    def __init__(self, depth: int, bank_units: int) -> None:
        self.bank_units = bank_units
        self.last = np.full((depth, 2, len(Engine)), -1, np.int64)
        self.banks = np.full((-(-depth // bank_units), 2, len(Engine)), -1, np.int64)
        self.alu_slot = np.full(depth, -(1 << 40), np.int64)

    def conflicts(self, addresses: Addresses, write: bool, needed: Addresses) -> None:
        """Raise ``needed`` to what an access must come after."""
        _conflicts(self.last, self.banks, self.bank_units, addresses, int(write), needed)

    def record(self, engine: Engine, index: int, addresses: Addresses, write: bool) -> None:
        _record(self.last, self.banks, self.bank_units, addresses, int(write), int(engine), index)


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
        self._clock = [[-1] * len(Engine) for _ in Engine]
        self._completed: list[list[int]] = []
        self._needed = np.empty(len(Engine), np.int64)
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
        needed = self._needed
        needed.fill(-1)
        flat = [(self._memories[a.memory], a.addresses.ravel(), a.write) for a in accesses]
        for memory, addresses, write in flat:
            memory.conflicts(addresses, write, needed)
        last: list[int] = needed.tolist()
        clock = self._clock[engine]
        pop = 0
        for other in sorted(_ENGINES, key=last.__getitem__, reverse=True):
            if other == engine or last[other] <= clock[other]:
                continue
            self._push[last[other]] |= _BITS[other][engine]
            pop |= _BITS[engine][other]
            clock = [*map(max, clock, self._completed[last[other]])]
        for memory, addresses, write in flat:
            memory.record(engine, index, addresses, write)
        clock = [index if e == engine else before for e, before in enumerate(clock)]
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
            slots = access.addresses.reshape(len(access.addresses), -1)
            earliest = max(earliest, _latest_need(self._memories[access.memory].alu_slot, slots))
        return earliest - self._alu_slots

    def _advance_alu(self, accesses: Sequence[Access]) -> None:
        slots = 0
        for access in accesses:
            slots = max(slots, len(access.addresses))
            if access.write and access.memory in ("act", "acc"):
                slotted = access.addresses.reshape(len(access.addresses), -1)
                _fill_slots(self._memories[access.memory].alu_slot, slotted, self._alu_slots)
        self._alu_slots += slots
