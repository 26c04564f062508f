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
from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.isa.codec import Instruction
from tilewright.isa.effects import Access, Addresses, effects
from tilewright.isa.spec import MEMORIES, Engine, Memory, Opcode, token_bit
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.uops import Block
from tilewright.sim.compiled import compiled

_ENGINES = range(len(Engine))
_BITS = [[0 if a == b else token_bit(a, b) for b in Engine] for a in Engine]


@compiled
def _addresses(
    offsets: Any, base: int, outer: int, o: int, inner: int, i: int, span: int, wrap_base: int, wrap_size: int
) -> Any:
    """The addresses of an :class:`Access`: shape (vectors, span)."""
    found = np.empty((outer * inner * len(offsets), span), np.int64)
    vector = 0
    for a in range(outer):
        for b in range(inner):
            for offset in offsets:
                address = base + a * o + b * i + offset
                if wrap_size > 0:
                    address += wrap_base if address < wrap_size else wrap_base - wrap_size
                for k in range(span):
                    found[vector, k] = address + k
                vector += 1
    return found


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
    ``alu_slot``: when ALU last wrote each address, in issue slots; None for memories that ALU does not write.
    """

    def __init__(self, depth: int, bank_units: int, timed: bool = False) -> None:
        self.bank_units = bank_units
        self.last = np.full((depth, 2, len(Engine)), -1, np.int64)
        self.banks = np.full((-(-depth // bank_units), 2, len(Engine)), -1, np.int64)
        self.alu_slot = np.full(depth, -(1 << 40), np.int64) if timed else None

    def conflicts(self, touch: _Touch, needed: Addresses) -> None:
        """Raise ``needed`` to what an access must come after."""
        for write in touch.ways:
            _conflicts(self.last, self.banks, self.bank_units, touch.flat, write, needed)

    def record(self, engine: Engine, index: int, touch: _Touch) -> None:
        for write in touch.ways:
            _record(self.last, self.banks, self.bank_units, touch.flat, write, int(engine), index)


class _Touch:
    """Addresses of a memory that an instruction reads (way 0), writes (way 1) or both, shape (vectors, span).

    For ALU instructions the first axis is the issue slot, in order.
    """

    __slots__ = ("addresses", "flat", "memory", "reads", "ways", "writes")

    def __init__(self, memory: _MemoryState, addresses: Addresses, reads: bool, writes: bool) -> None:
        self.memory, self.addresses, self.flat = memory, addresses, addresses.ravel()
        self.reads, self.writes = reads, writes
        self.ways = (0, 1) if reads and writes else (int(writes),)


_NOTHING = np.zeros((0, 1), np.int64)


@dataclass
class HazardTracker:
    """Collects a program's instructions and the token edges between them."""

    config: Config
    scratch_beats: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        c = self.config
        self._memories: dict[Memory | None, _MemoryState] = {
            m.memory: _MemoryState(m.depth(c), m.bank_units(c), Engine.ALU in m.writers) for m in MEMORIES.values()
        }
        self._memories[None] = _MemoryState(max(1, self.scratch_beats), 1 << 40)
        self._clock = [[-1] * len(Engine) for _ in Engine]
        self._completed: list[list[int]] = []
        self._needed = np.empty(len(Engine), np.int64)
        self._pop: list[int] = []
        self._push: list[int] = []
        self._alu_slots = 0

    def add(self, instruction: Instruction, uops: Block | None, layer: int, dram: Addresses | None = None) -> int:
        """Append an instruction that runs these micro-ops; returns its index.

        ``dram``: numbers for what it reads or writes in DRAM; None for what is not both read and written.
        """
        alu = instruction.engine == Engine.ALU
        touches = [self._touch(access, alu, dram) for access in effects(instruction.row, uops, self.config)]
        if alu:
            delay = self._alu_delay(touches)
            if delay > 0:
                self._append(Instruction(Opcode.WAIT, {"engine": int(Engine.ALU), "cycles": delay}), [], layer)
                self._alu_slots += delay
        index = self._append(instruction, touches, layer)
        if alu:
            self._advance_alu(touches)
        return index

    def _touch(self, access: Access, alu: bool, dram: Addresses | None) -> _Touch:
        memory = self._memories[access.memory]
        if access.memory is None:
            addresses = _NOTHING if dram is None else dram
        else:
            (outer, o), (inner, i) = access.outer, access.inner
            if not alu:  # in no order: what a step of 0 repeats is the same
                outer, inner = outer if o else 1, inner if i else 1
            offsets = access.column.offsets if alu else access.column.distinct
            addresses = _addresses(
                offsets, access.base, outer, o, inner, i, access.span, access.wrap_base, access.wrap_size
            )
        return _Touch(memory, addresses, access.reads, access.writes)

    def finish(self) -> list[Instruction]:
        """The instructions with their ``pop`` and ``push`` masks filled in."""
        return [
            Instruction(i.opcode, {**i.fields, "pop": self._pop[n], "push": self._push[n]})
            for n, i in enumerate(self.instructions)
        ]

    def _append(self, instruction: Instruction, touches: Sequence[_Touch], layer: int) -> int:
        engine, index = instruction.engine, len(self.instructions)
        needed = self._needed
        needed.fill(-1)
        for touch in touches:
            touch.memory.conflicts(touch, needed)
        last: list[int] = needed.tolist()
        clock = self._clock[engine]
        pop = 0
        for other in sorted(_ENGINES, key=last.__getitem__, reverse=True):
            if other == engine or last[other] <= clock[other]:
                continue
            self._push[last[other]] |= _BITS[other][engine]
            pop |= _BITS[engine][other]
            clock = [*map(max, clock, self._completed[last[other]])]
        for touch in touches:
            touch.memory.record(engine, index, touch)
        clock = [index if e == engine else before for e, before in enumerate(clock)]
        self._clock[engine] = clock
        self._completed.append(clock)
        self.instructions.append(instruction)
        self.layers.append(layer)
        self._pop.append(pop)
        self._push.append(0)
        return index

    def _alu_delay(self, touches: Sequence[_Touch]) -> int:
        earliest = self._alu_slots
        for touch in touches:
            if touch.reads and touch.memory.alu_slot is not None:
                earliest = max(earliest, _latest_need(touch.memory.alu_slot, touch.addresses))
        return earliest - self._alu_slots

    def _advance_alu(self, touches: Sequence[_Touch]) -> None:
        for touch in touches:
            if touch.writes and touch.memory.alu_slot is not None:
                _fill_slots(touch.memory.alu_slot, touch.addresses, self._alu_slots)
        self._alu_slots += max(len(touch.addresses) for touch in touches)
