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
from typing import Any, NamedTuple

import numpy as np

from tilewright.config import Config
from tilewright.isa.by_reference import by_reference
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
_WIDTH = _PLACE + 8  #: columns of the place: as :func:`_addresses` takes them
#: columns of the table of memories
_FIRST, _DEPTH, _FIRST_BANK, _BANK_UNITS, _TIMED = range(5)


@by_reference
class _Books(NamedTuple):
    """What is known while instructions are ordered, all int64.

    ``last``, ``banks``: the last reader [0] and the last writer [1] of every address and every bank, by engine;
    ``written``: the issue slot in which ALU wrote an address last. ``found``: the addresses of an instruction's
    accesses, each access from its place in ``starts`` on. Of engines: ``clock``, what each knows to have completed;
    ``completed``, the same when an instruction completes; ``needed``, what an instruction must come after.
    """

    last: Addresses
    banks: Addresses
    written: Addresses
    found: Addresses
    starts: Addresses
    clock: Addresses
    completed: Addresses
    needed: Addresses


@compiled
def _addresses(accesses: Any, n: int, offsets: Any, columns: Any, found: Any, start: int) -> None:
    """Put the addresses of access ``n`` into ``found`` from ``start`` on: shape (vectors, span)."""
    base, outer, o = accesses[n, _PLACE], accesses[n, _PLACE + 1], accesses[n, _PLACE + 2]
    inner, i, span = accesses[n, _PLACE + 3], accesses[n, _PLACE + 4], accesses[n, _PLACE + 5]
    wrap_base, wrap_size = accesses[n, _PLACE + 6], accesses[n, _PLACE + 7]
    first, end = columns[accesses[n, _COLUMN]], columns[accesses[n, _COLUMN] + 1]
    for a in range(outer):
        for b in range(inner):
            for k in range(first, end):
                address = base + a * o + b * i + offsets[k]
                if wrap_size > 0:
                    address += wrap_base if address < wrap_size else wrap_base - wrap_size
                for unit in range(span):
                    found[start] = address + unit
                    start += 1


@compiled
def _conflicts(x: _Books, start: int, stop: int, memories: Any, own: int, write: int) -> None:
    """Raise ``needed`` to the last instruction that an access must come after."""
    needed, last, banks = x.needed, x.last, x.banks
    first, depth, first_bank = memories[own, _FIRST], memories[own, _DEPTH], memories[own, _FIRST_BANK]
    bank = -1
    for n in range(start, stop):
        address = x.found[n]
        if address < 0 or address >= depth:
            raise IndexError("an access outside its memory")
        for e in range(4):
            needed[e] = max(needed[e], last[first + address, 1, e])
            if write:
                needed[e] = max(needed[e], last[first + address, 0, e])
        if address // memories[own, _BANK_UNITS] != bank:
            bank = address // memories[own, _BANK_UNITS]
            for e in range(4):
                needed[e] = max(needed[e], banks[first_bank + bank, write, e])


@compiled
def _record(x: _Books, start: int, stop: int, memories: Any, own: int, write: int, engine: int, index: int) -> None:
    first, first_bank = memories[own, _FIRST], memories[own, _FIRST_BANK]
    for n in range(start, stop):
        x.last[first + x.found[n], write, engine] = index
        x.banks[first_bank + x.found[n] // memories[own, _BANK_UNITS], write, engine] = index


@compiled
def _earliest(x: _Books, start: int, stop: int, span: int, first: int) -> int:
    """The first slot from which an ALU instruction may start that reads addresses, ``span`` in a slot."""
    found = _LONG_AGO
    for n in range(start, stop):
        found = max(found, x.written[first + x.found[n]] + ALU_DISTANCE - (n - start) // span)
    return found


@compiled
def _issue(x: _Books, engine: int, index: int, bits: Any, pop: Any, push: Any) -> None:
    """Place the tokens that make an instruction come after what it needs; what its engine then knows."""
    kinds, clock = len(x.needed), x.clock
    for _ in range(kinds):  # the latest first: it may imply the others
        other = 0
        for e in range(1, kinds):
            other = e if x.needed[e] > x.needed[other] else other
        before = x.needed[other]
        if other != engine and before > clock[engine, other]:
            push[before] |= bits[other, engine]
            pop[index] |= bits[engine, other]
            for e in range(kinds):
                clock[engine, e] = max(clock[engine, e], x.completed[before, e])
        x.needed[other] = -1
    clock[engine, engine] = index
    for e in range(kinds):
        x.completed[index, e] = clock[engine, e]


@compiled
def _order(
    engines: Any, begins: Any, accesses: Any, offsets: Any, columns: Any, memories: Any, bits: Any, x: _Books,
    pop: Any, push: Any, waits: Any,
) -> None:  # fmt: skip
    """Fill in ``pop``, ``push`` and the cycles to wait before it of every instruction.

    ``engines`` of the instructions, and the first of their ``accesses``; ``columns``: the first of their ``offsets``;
    ``memories``: theirs in one array of addresses and one of banks.
    """
    slots = 0
    for index in range(len(engines)):
        engine, first, end = engines[index], begins[index], begins[index + 1]
        span, earliest, stop = 0, slots, 0
        for n in range(first, end):
            own, start = accesses[n, _MEMORY], stop
            column, per_vector = accesses[n, _COLUMN], accesses[n, _PLACE + 5]
            vectors = accesses[n, _PLACE + 1] * accesses[n, _PLACE + 3] * (columns[column + 1] - columns[column])
            stop = start + vectors * per_vector
            x.starts[n - first + 1] = stop
            _addresses(accesses, n, offsets, columns, x.found, start)
            for write in range(2):
                if accesses[n, _READS + write]:
                    _conflicts(x, start, stop, memories, own, write)
            if engine == _ALU and accesses[n, _READS] and memories[own, _TIMED]:
                earliest = max(earliest, _earliest(x, start, stop, per_vector, memories[own, _FIRST]))
            span = max(span, vectors)
        _issue(x, engine, index, bits, pop, push)
        if engine == _ALU:
            waits[index] = earliest - slots
        for n in range(first, end):
            own, start, stop = accesses[n, _MEMORY], x.starts[n - first], x.starts[n - first + 1]
            for write in range(2):
                if accesses[n, _READS + write]:
                    _record(x, start, stop, memories, own, write, engine, index)
            if engine == _ALU and accesses[n, _WRITES] and memories[own, _TIMED]:
                for k in range(start, stop):
                    x.written[memories[own, _FIRST] + x.found[k]] = earliest + (k - start) // accesses[n, _PLACE + 5]
        if engine == _ALU:
            slots = earliest + span


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
        columns = np.cumsum([0, *map(len, self._columns)])
        memories, count, kinds = self._memories(), len(table), len(_BITS)
        _, outer, _, inner, _, span, _, _ = accesses[:, _PLACE:].T
        most = np.cumsum([0, *(outer * inner * span * np.diff(columns)[accesses[:, _COLUMN]])])[begins]
        addresses = int(memories[-1, _FIRST] + memories[-1, _DEPTH])
        banks = int(memories[-1, _FIRST_BANK] - (-memories[-1, _DEPTH] // memories[-1, _BANK_UNITS]))
        books = _Books(
            last=np.full((addresses, 2, kinds), -1, np.int64),
            banks=np.full((banks, 2, kinds), -1, np.int64),
            written=np.full(addresses, _LONG_AGO, np.int64),
            found=np.empty(np.diff(most).max(initial=0), np.int64),
            starts=np.zeros(np.diff(begins).max(initial=0) + 1, np.int64),
            clock=np.full((kinds, kinds), -1, np.int64),
            completed=np.empty((count, kinds), np.int64),
            needed=np.full(kinds, -1, np.int64),
        )
        pop, push, waits = np.zeros(count, np.uint8), np.zeros(count, np.uint8), np.zeros(count, np.int64)
        engines, offsets = (
            np.ascontiguousarray(table["engine"]),
            np.concatenate([np.zeros(0, np.int64), *self._columns]),
        )
        _order(engines, begins, accesses, offsets, columns, memories, _BITS, books, pop, push, waits)
        return pop, push, waits

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
