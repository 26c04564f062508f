"""From memory accesses to tokens: orders the engines exactly where their accesses conflict.

Instructions are collected in program order. For each one, :meth:`HazardTracker.finish` finds, per other engine, the
last instruction that must have completed before it may issue: read after write, write after read and write
after write on single units, and two readers or two writers of one bank. Vector clocks drop what is already
implied; what remains becomes one push on the earlier instruction and one pop on the later one.

An ALU read too close behind the ALU write it depends on gets a WAIT in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.isa.codec import MODES, Instruction, Table, columns_of, decode_table, encode, with_tokens
from tilewright.isa.effects import Access, Addresses, effects
from tilewright.isa.spec import MEMORIES, Engine, Memory, Opcode, token_bit
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.tokens.bounds import bound_tokens
from tilewright.isa.tokens.native import compiled
from tilewright.isa.uops import Block, Column

_BITS = np.array([[0 if a == b else token_bit(a, b) for b in Engine] for a in Engine], np.uint8)
_OWN = {m.memory: m for m in MEMORIES.values()}  #: an alias is the memory that it names
_NUMBER = {memory: number for number, memory in enumerate(_OWN)}
_DRAM = len(_OWN)
_LONG_AGO = -(1 << 40)
_ALU = int(Engine.ALU)
#: columns of the table of accesses: the place in the memory, and what the access is
_MEMORY, _COLUMN, _READS, _WRITES, _PLACE = range(5)
_WIDTH = _PLACE + 8  #: columns of the place: the arguments of :func:`_addresses` behind ``offsets``
#: columns of the table of memories
_FIRST, _DEPTH, _FIRST_BANK, _BANK_UNITS, _TIMED = range(5)


@compiled
def _addresses(offsets: Any, place: Any, found: Any) -> None:
    """Fill in the addresses of an :class:`Access`: shape (vectors, span)."""
    base, outer, o, inner, i = place[0], place[1], place[2], place[3], place[4]
    span, wrap_base, wrap_size = place[5], place[6], place[7]
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


@compiled
def _conflicts(last: Any, banks: Any, bank_units: int, addresses: Any, write: int, needed: Any) -> None:
    """Raise ``needed`` (per engine) to the last instruction that an access must come after."""
    bank = -1
    for address in addresses.ravel():
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
    for address in addresses.ravel():
        last[address, write, engine] = index
        banks[address // bank_units, write, engine] = index


@compiled
def _earliest(written: Any, addresses: Any) -> int:
    """The first slot from which an ALU instruction may start that reads ``addresses`` (slots, addresses of each)."""
    found = _LONG_AGO
    for position in range(addresses.shape[0]):
        for k in range(addresses.shape[1]):
            found = max(found, written[addresses[position, k]] + ALU_DISTANCE - position)
    return found


@compiled
def _order(
    engines: Any, begins: Any, accesses: Any, offsets: Any, columns: Any, memories: Any, bits: Any
) -> tuple[Any, Any, Any]:
    """(``pop``, ``push``, cycles to wait before it) of every instruction.

    ``engines`` of the instructions, and the first of their ``accesses``; ``columns``: the first of their ``offsets``;
    ``memories``: theirs in one array of addresses and one of banks.
    """
    count, kinds = len(engines), bits.shape[0]
    end = memories[-1]
    #: last reader [0] and last writer [1] of every address and bank, by engine
    last = np.full((end[_FIRST] + end[_DEPTH], 2, kinds), -1, np.int64)
    banks = np.full((end[_FIRST_BANK] + -(-end[_DEPTH] // end[_BANK_UNITS]), 2, kinds), -1, np.int64)
    written = np.full(len(last), _LONG_AGO, np.int64)  #: the issue slot in which ALU wrote an address last
    clock, completed = np.full((kinds, kinds), -1, np.int64), np.empty((count, kinds), np.int64)
    pop, push, waits = np.zeros(count, np.uint8), np.zeros(count, np.uint8), np.zeros(count, np.int64)
    needed, slots = np.empty(kinds, np.int64), 0
    kept, starts = np.empty(0, np.int64), np.zeros(np.diff(begins).max() + 1 if count else 1, np.int64)
    for index in range(count):
        engine, first = engines[index], begins[index]
        needed[:] = -1
        span, earliest = 0, slots
        for n in range(first, begins[index + 1]):
            access, own = accesses[n], memories[accesses[n, _MEMORY]]
            column = offsets[columns[access[_COLUMN]] : columns[access[_COLUMN] + 1]]
            place, start = access[_PLACE:], starts[n - first]
            stop = start + place[1] * place[3] * len(column) * place[5]
            if stop > len(kept):
                kept = np.concatenate((kept, np.empty(stop, np.int64)))
            starts[n - first + 1] = stop
            found = kept[start:stop].reshape(-1, place[5])
            _addresses(column, place, found)
            lasts, first_bank = last[own[_FIRST] : own[_FIRST] + own[_DEPTH]], banks[own[_FIRST_BANK] :]
            for write in range(2):
                if access[_READS + write]:
                    _conflicts(lasts, first_bank, own[_BANK_UNITS], found, write, needed)
            if engine == _ALU and access[_READS] and own[_TIMED]:
                earliest = max(earliest, _earliest(written[own[_FIRST] :], found))
            span = max(span, len(found))
        current = clock[engine].copy()
        for _ in range(kinds):  # the latest first: it may imply the others
            other = np.argmax(needed)
            if other != engine and needed[other] > current[other]:
                push[needed[other]] |= bits[other, engine]
                pop[index] |= bits[engine, other]
                current = np.maximum(current, completed[needed[other]])
            needed[other] = -1
        current[engine] = index
        clock[engine] = completed[index] = current
        if engine == _ALU:
            waits[index] = earliest - slots
        for n in range(first, begins[index + 1]):
            access, own = accesses[n], memories[accesses[n, _MEMORY]]
            found = kept[starts[n - first] : starts[n - first + 1]].reshape(-1, access[_PLACE + 5])
            for write in range(2):
                if access[_READS + write]:
                    lasts, first_bank = last[own[_FIRST] :], banks[own[_FIRST_BANK] :]
                    _record(lasts, first_bank, own[_BANK_UNITS], found, write, engine, index)
            if engine == _ALU and access[_WRITES] and own[_TIMED]:
                for position in range(found.shape[0]):
                    for k in range(found.shape[1]):
                        written[own[_FIRST] + found[position, k]] = earliest + position
        if engine == _ALU:
            slots = earliest + span
    return pop, push, waits


def _fill(rows: Addresses, columns: Sequence[Any]) -> None:
    for number, column in enumerate(columns):
        rows[:, number] = column


@dataclass
class HazardTracker:
    """Collects a program's instructions and orders them; ``scratch_beats``: DRAM that is both written and read."""

    config: Config
    scratch_beats: int = 0

    def __post_init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._layers: list[int] = []
        self._blocks: dict[Block | None, int] = {None: 0}
        self._block_of: list[int] = []
        self._columns: list[Addresses] = []
        self._column_of: dict[tuple[int, bool], int] = {}
        self._dram: dict[int, int] = {}  #: instruction -> column of the numbers for what it touches in DRAM

    def add(self, instruction: Instruction, uops: Block | None, layer: int, dram: Addresses | None = None) -> None:
        """Append an instruction, without tokens, that runs these micro-ops.

        ``dram``: numbers for what it reads or writes in DRAM; None for what is not both read and written.
        """
        if dram is not None:
            self._dram[len(self._instructions)] = len(self._columns)
            self._columns.append(dram.ravel())
        self._block_of.append(self._blocks.setdefault(uops, len(self._blocks)))
        self._instructions.append(instruction)
        self._layers.append(layer)

    def finish(self) -> tuple[bytes, list[int]]:
        """The program with its tokens and the WAITs that it needs, and the layers of its instructions.

        Raises EncodingError for fields out of range, IndexError for an access outside its memory.
        """
        code = encode(self._instructions, self.config)
        table = decode_table(code, self.config)
        pops, pushes, waits = self._ordered(table)
        late = np.flatnonzero(waits)
        inserted = [Instruction(Opcode.WAIT, {"engine": _ALU, "cycles": n}) for n in waits[late].tolist()]
        pops, early = bound_tokens(table["engine"], pops, pushes, self.config.token_depth)
        inserted += [Instruction(Opcode.WAIT, {"engine": e, "cycles": 1, "pop": bit}) for _, e, bit in early]
        places = [*late.tolist(), *(index for index, _, _ in early)]
        rows = with_tokens(code, pops, pushes, self.config)
        more = np.frombuffer(encode(inserted, self.config), rows.dtype).reshape(-1, rows.shape[1])
        layers = np.array(self._layers, np.int64)
        return np.insert(rows, places, more, axis=0).tobytes(), np.insert(layers, places, layers[places]).tolist()

    def _ordered(self, table: Table) -> tuple[Any, Any, Any]:
        begins, accesses = self._accesses(table)
        return _order(
            np.ascontiguousarray(table["engine"]),
            begins,
            accesses,
            np.concatenate([np.zeros(0, np.int64), *self._columns]),
            np.cumsum([0, *map(len, self._columns)]),
            self._memories(),
            _BITS,
        )

    def _accesses(self, table: Table) -> tuple[Addresses, Addresses]:
        """Of each instruction the first of its accesses, and the table of all.

        Instructions of a kind that run the same micro-ops have theirs worked out together.
        """
        kinds = np.array(self._block_of, np.int64)
        for name in MODES:
            kinds = kinds * (table[name].max(initial=0) + 1) + table[name]
        _, kind_of = np.unique(kinds, return_inverse=True)
        members = np.split(np.argsort(kind_of, kind="stable"), np.cumsum(np.bincount(kind_of))[:-1])
        blocks, owners, rows = list(self._blocks), [np.zeros(0, np.int64)], [np.zeros((0, _WIDTH), np.int64)]
        for of_kind in members if len(table) else ():
            first = int(of_kind[0])
            fields = columns_of(table[of_kind])._replace(**{name: int(table[name][first]) for name in MODES})
            for access in effects(fields, blocks[self._block_of[first]], self.config):
                if access.memory is not None:
                    owners.append(of_kind)
                    rows.append(self._rows(access, access.memory, fields.engine == Engine.ALU, len(of_kind)))
                else:
                    owners.append(np.array([n for n in of_kind.tolist() if n in self._dram], np.int64))
                    rows.append(np.zeros((len(owners[-1]), _WIDTH), np.int64))
                    numbers = [self._dram[n] for n in owners[-1].tolist()]
                    _fill(rows[-1], (_DRAM, numbers, access.reads, access.writes, 0, 1, 0, 1, 0, 1, 0, 0))
        owner = np.concatenate(owners)
        begins = np.cumsum(np.bincount(owner + 1, minlength=len(table) + 1))
        return begins, np.concatenate(rows)[np.argsort(owner, kind="stable")]

    def _rows(self, access: Access, memory: Memory, alu: bool, count: int) -> Addresses:
        """The rows of an access of so many instructions, whose places are columns of numbers."""
        (outer, o), (inner, i) = access.outer, access.inner
        if not alu:  # in no order: what a step of 0 repeats is the same
            outer, inner = np.where(o, outer, 1), np.where(i, inner, 1)
        rows = np.zeros((count, _WIDTH), np.int64)
        place = (access.base, outer, o, inner, i, access.span, access.wrap_base, access.wrap_size)
        _fill(rows, (_NUMBER[memory], self._column(access.column, alu), access.reads, access.writes, *place))
        return rows

    def _column(self, column: Column, alu: bool) -> int:
        key = (column.serial, alu)
        if key not in self._column_of:
            self._column_of[key] = len(self._columns)
            self._columns.append(column.offsets if alu else column.distinct)
        return self._column_of[key]

    def _memories(self) -> Addresses:
        c = self.config
        sizes = [(m.depth(c), m.bank_units(c), Engine.ALU in m.writers) for m in _OWN.values()]
        sizes.append((max(1, self.scratch_beats), 1 << 40, False))
        rows, first, bank = [], 0, 0
        for depth, bank_units, timed in sizes:
            rows.append((first, depth, bank, bank_units, timed))
            first, bank = first + depth, bank - (-depth // bank_units)
        return np.array(rows, np.int64)
