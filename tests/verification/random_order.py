"""Bookkeeping for random programs: who touched what, and the tokens that make an order certain.

Independent of the verifier on purpose, but for what an instruction touches: each is tested against the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import Instruction
from tilewright.isa.effects import Access, Addresses
from tilewright.isa.spec import Engine, Opcode, others, token_bit


class History:
    """Last readers and writers of one memory, per address and, with ``bank_units``, per bank.

    Entries are index + 1 of an instruction, 0 for none; one row per engine.
    """

    def __init__(self, depth: int, bank_units: int = 0) -> None:
        self.read = np.zeros((4, depth), np.int64)
        self.write = np.zeros((4, depth), np.int64)
        self.bank_units = bank_units
        banks = depth // bank_units if bank_units else 0
        self.bank_read = np.zeros((4, banks), np.int64)
        self.bank_write = np.zeros((4, banks), np.int64)

    def written(self, addresses: Addresses) -> bool:
        """Whether every address has been written."""
        return bool(self.write[:, addresses].any(axis=0).all())

    def needs(self, access: Access) -> NDArray[np.int64]:
        """Per engine: the last instruction (index + 1) that must have retired before an access."""
        addresses = access.addresses()
        need = self.write[:, addresses].max(axis=1)
        if access.writes:
            need = np.maximum(need, self.read[:, addresses].max(axis=1))
        for owners, mine in ((self.bank_read, access.reads), (self.bank_write, access.writes)):
            if self.bank_units and mine:
                need = np.maximum(need, owners[:, addresses // self.bank_units].max(axis=1))
        return need

    def record(self, engine: Engine, index: int, access: Access) -> None:
        """Enter an access by instruction ``index``."""
        addresses = access.addresses()
        for last, owners, mine in (
            (self.read, self.bank_read, access.reads), (self.write, self.bank_write, access.writes)
        ):  # fmt: skip
            if mine:
                last[engine, addresses] = index + 1
            if self.bank_units and mine:
                owners[engine, addresses // self.bank_units] = index + 1


@dataclass
class _Entry:
    instruction: Instruction
    engine: Engine
    clock: NDArray[np.int64]
    pops: set[Engine] = field(default_factory=set)
    pushes: set[Engine] = field(default_factory=set)


class TokenOrder:
    """A growing program whose tokens are placed so that required orders hold.

    A push may be added to an instruction already emitted, as long as it is the newest push of its queue and
    the queue's count stays within ``token_depth``.
    """

    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.entries: list[_Entry] = []
        self._waiting: dict[tuple[Engine, Engine], deque[int]] = {(a, b): deque() for a in Engine for b in others(a)}
        self._clock = {e: np.zeros(4, np.int64) for e in Engine}
        self._by_engine: dict[Engine, list[int]] = {e: [] for e in Engine}

    # -- counts ----------------------------------------------------------------------------------------

    def _peak(self, source: Engine, target: Engine, since: int) -> int:
        """Most tokens in a queue after any instruction from ``since`` on."""
        count = peak = 0
        for index, entry in enumerate(self.entries):
            count -= entry.engine == target and source in entry.pops
            count += entry.engine == source and target in entry.pushes
            if index >= since:
                peak = max(peak, count)
        return peak

    def _push_order(self, source: Engine, target: Engine, need: int) -> bool:
        """Add a push to an instruction of ``source`` at index need - 1 or later; false if none has room."""
        mine = self._by_engine[source]
        newest = max((i for i in mine if target in self.entries[i].pushes), default=-1)
        choices = [i for i in mine if i >= need - 1 and i > newest]
        if len(choices) > 1 and self.rng.random() < 0.5:  # the earliest, or any later one
            choices = choices[int(self.rng.integers(len(choices))) :]
        for index in choices:
            if self._peak(source, target, index) < self.config.token_depth:
                self.entries[index].pushes.add(target)
                self._waiting[source, target].append(index)
                return True
        return False

    # -- emitting --------------------------------------------------------------------------------------

    def _pop_clock(self, engine: Engine, source: Engine) -> NDArray[np.int64]:
        pushed = self._waiting[source, engine].popleft()
        clock = self.entries[pushed].clock.copy()
        clock[source] = pushed + 1
        return clock

    def append(self, instruction: Instruction, pops: Iterable[Engine] = (), push: float = 0.0) -> int:
        """Emit an instruction that pops from ``pops``; with probability ``push`` it sends a token nobody asked for."""
        engine = instruction.engine
        for source in pops:
            self._clock[engine] = np.maximum(self._clock[engine], self._pop_clock(engine, source))
        entry = _Entry(instruction, engine, self._clock[engine].copy(), set(pops))
        index = len(self.entries)
        self.entries.append(entry)
        self._by_engine[engine].append(index)
        for target in others(engine):
            if self.rng.random() < push and self._peak(engine, target, index) < self.config.token_depth:
                entry.pushes.add(target)
                self._waiting[engine, target].append(index)
        return index

    def wait(self, engine: Engine, cycles: int, pops: Iterable[Engine] = ()) -> int:
        """Emit a WAIT."""
        return self.append(Instruction(Opcode.WAIT, {"engine": int(engine), "cycles": cycles}), pops)

    def require(self, engine: Engine, need: NDArray[np.int64]) -> tuple[set[Engine], int]:
        """Make ``engine``'s next instruction run after instruction need[s] - 1 of every engine s.

        Returns the engines whose tokens that instruction must pop, and the cycles of the WAITs emitted on
        ``engine`` to take older tokens first.
        """
        pops: set[Engine] = set()
        waited = 0
        for source in others(engine):
            if self._clock[engine][source] >= need[source]:
                continue
            pending = self._waiting[source, engine]
            if not any(index + 1 >= need[source] for index in pending):
                while not self._push_order(source, engine, int(need[source])):
                    if pending:
                        waited += self._wait_pop(engine, source)
                    else:  # the queue was full when those instructions ran: a new one can push
                        self.wait(source, 1)
            while pending[0] + 1 < need[source]:
                waited += self._wait_pop(engine, source)
            pops.add(source)
        for source in others(engine):
            if self._waiting[source, engine] and source not in pops and self.rng.random() < 0.3:
                pops.add(source)
        return pops, waited

    def _wait_pop(self, engine: Engine, source: Engine) -> int:
        cycles = int(self.rng.integers(1, 6))
        self.wait(engine, cycles, [source])
        return cycles

    def finish(self) -> list[Instruction]:
        """Take all tokens that are left, and return the program."""
        for (source, engine), pending in self._waiting.items():
            while pending:
                self._wait_pop(engine, source)
        return [
            Instruction(
                entry.instruction.opcode,
                {
                    **entry.instruction.fields,
                    "pop": sum(token_bit(entry.engine, s) for s in entry.pops),
                    "push": sum(token_bit(entry.engine, t) for t in entry.pushes),
                    "trace": int(self.rng.random() < 0.15),
                },
            )
            for entry in self.entries
        ]
