"""The program verifier: a program that passes runs alike on every device, without hang, fault or race.

Programs are straight-line, so everything is decidable, and every check is exact: per unit, entry, beat, bank and
issue cycle. The rules are listed in :class:`tilewright.isa.verify.errors.Rule` and in ``docs/isa.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.config import Config
from tilewright.isa.codec import EncodingError, rows_of
from tilewright.isa.effects import Access, effects
from tilewright.isa.program import Program, check_program
from tilewright.isa.spec import MEMORIES, Engine, Fields, Memory, MemoryInfo, Opcode
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.uops import Block, UopMemories
from tilewright.isa.verify.affine import Region, first_visits
from tilewright.isa.verify.distances import AluDistances, EmitDistance, check_banks
from tilewright.isa.verify.errors import Describer, IllegalProgram, Rule, VerifyError
from tilewright.isa.verify.regions import Regions
from tilewright.isa.verify.state import MemoryState
from tilewright.isa.verify.tiles import check_fields, check_segments, check_shared
from tilewright.isa.verify.tokens import ENGINES, Clock, Order, ordered
from tilewright.kinds import instance
from tilewright.ranges import ArgumentError, flag, whole

_ALU, _ALU_OPCODE = int(Engine.ALU), int(Opcode.ALU)
TOKENS = (Rule.TOKEN_UNDERFLOW, Rule.TOKEN_OVERFLOW, Rule.TOKEN_LEFTOVER)
IN_DRAM = (Rule.SEGMENT, Rule.SEGMENT_KIND, Rule.EXTENT)
ADDRESSES = (Rule.WRAP, Rule.RANGE, Rule.ALIGNMENT)  #: of an instruction that breaks one nobody knows what it writes

__all__ = ["IllegalProgram", "Order", "Rule", "VerifyError", "find_errors", "joint_order", "verify", "verify_together"]


def verify(program: Program, segment_sizes: Sequence[int] | None = None) -> None:
    """Raise :class:`VerifyError` if a program breaks any legality rule; its ``rule`` says which.

    ``segment_sizes`` gives the segments' sizes in bytes where they differ from the program's own. A program that hears
    other cores breaks one alone: :func:`verify_together`.
    """
    check_program(program)
    if segment_sizes is not None:
        instance("segment_sizes", segment_sizes, Sequence, "a list of bytes, one for each segment", error=ArgumentError)
        segment_sizes = [whole("segment_sizes", size, 0, of="bytes") for size in segment_sizes]
    _verify([program], segment_sizes)


def verify_together(programs: Sequence[Program]) -> None:
    """Raise :class:`VerifyError` if programs that run at the same time, the k-th on core k, break a rule."""
    _verify(programs, None)


def find_errors(program: Program, *, in_order: bool = False) -> list[VerifyError]:
    """All rules that a program breaks, in the order of its instructions: of those whose fields are right the first one
    each. What an instruction writes that breaks one counts as written.

    ``in_order``: as if each instruction waited for all before it, so that neither tokens nor distances are missed.
    """
    check_program(program)
    flag("in_order", in_order)
    found: list[VerifyError] = []
    try:
        table = program.table()
    except EncodingError as error:
        return [VerifyError(Rule.ENCODING, f"program: {Rule.ENCODING}: {error}")]
    describe = Describer([table], found=found)
    beats = check_segments(program, None, found)
    if found:
        return found
    try:
        clocks = _one_by_one(len(table)) if in_order else ordered([table], program.config, [describe]).clocks[0]
    except VerifyError as error:  # a doorbell: there is no order
        return [*found, error]
    check_fields(table, program, beats, describe)
    wrong = {error.index for error in found if error.rule not in TOKENS}
    elsewhere = {error.index for error in found if error.rule not in (*TOKENS, *IN_DRAM)}
    walk, lost = _Walk(program, beats, 0, 1, describe, {}), False
    for index, (row, clock) in enumerate(zip(rows_of(table), clocks)):
        if index in wrong:
            if row.opcode == Opcode.LOAD and index not in elsewhere:
                walk.assume(index, row, clock, None)
            lost |= index in elsewhere  # nobody knows what it would have written
        elif (broken := walk.attempt(index, row, clock)) is not None:
            unknown = lost and broken.rule == Rule.UNINITIALISED
            if not unknown and not (in_order and broken.rule == Rule.ALU_DISTANCE):
                found.append(broken)
    return sorted(found, key=lambda error: -1 if error.index is None else error.index)


def _one_by_one(count: int) -> list[Clock]:
    """Clocks of instructions of which each waits for all before it."""
    return [(index,) * ENGINES for index in range(count)]


def joint_order(programs: Sequence[Program]) -> Order:
    """In which order the programs of cores that run at the same time can be carried out, one after another.

    Raises :class:`VerifyError` if there is none.
    """
    tables = [program.table() for program in programs]
    return ordered(tables, programs[0].config, [Describer(tables, core) for core in range(len(tables))])


def _verify(programs: Sequence[Program], segment_sizes: Sequence[int] | None) -> None:
    try:
        tables = [program.table() for program in programs]
    except EncodingError as error:
        raise VerifyError(Rule.ENCODING, f"program: {Rule.ENCODING}: {error}") from error
    describe = [Describer(tables, core) for core in range(len(tables))]
    beats = [check_segments(program, segment_sizes) for program in programs]
    check_shared(programs)
    order = ordered(tables, programs[0].config, describe)
    for core, program in enumerate(programs):
        check_fields(tables[core], program, beats[core], describe[core])
    shared: dict[str, MemoryState] = {}
    walks = [
        _Walk(program, own, core, len(programs), describe[core], shared)
        for core, (program, own) in enumerate(zip(programs, beats))
    ]
    rows = [rows_of(table) for table in tables]
    for core, first, last in order.turns:
        walk, clocks = walks[core], order.clocks[core]
        for index, row in zip(range(first, last), rows[core]):
            walk.step(index, row, clocks[index])


def _memory_state(m: MemoryInfo, config: Config, core: int, describe: Describer) -> MemoryState:
    shared = len(m.readers) > 1 or len(m.writers) > 1  # else its banks have no other owners
    bank = m.bank_units(config) if shared else 0
    readers, writers = ([core * ENGINES + e for e in engines] for engines in (m.readers, m.writers))
    return MemoryState(m.name, m.unit, m.depth(config), readers, writers, describe, bank)


class _Walk:
    """Runs through the program of a core in order, with the access history of every memory; that of segments that
    several cores know is in ``shared``, by name."""

    def __init__(
        self, program: Program, beats: Sequence[int], core: int, cores: int, describe: Describer,
        shared: dict[str, MemoryState],
    ) -> None:  # fmt: skip
        config, self.base = program.config, core * ENGINES
        self.config, self.describe, self.regions = config, describe, Regions(describe)
        self.uops = UopMemories(config, program.segments)
        self.memories = {m.memory: _memory_state(m, config, core, describe) for m in MEMORIES.values()}
        self.dram: list[MemoryState | None] = []
        for k, (segment, size) in enumerate(zip(program.segments, beats)):
            who = range(cores) if segment.kind == "shared" else (core,)
            loads, stores = ([c * ENGINES + e for c in who] for e in (Engine.LOAD, Engine.STORE))
            state = MemoryState(f"segment {k} ({segment.name})", "beat", size, loads, stores, describe)
            if segment.kind == "shared":
                state = shared.setdefault(segment.name, state)
            self.dram.append(state if segment.kind in ("output", "scratch", "shared") else None)
        self.alu_distances = AluDistances(describe)
        self.emits = EmitDistance(describe)

    def step(self, index: int, row: Fields, clock: Clock) -> None:
        """Check and record one instruction: what it reads, then what it writes, then the distances."""
        engine, place = row.engine, self.base + row.engine
        uops = self.uops.step(row)
        accesses = effects(row, uops, self.config)
        writes: list[tuple[MemoryState, Region]] = []
        for access in accesses:
            state = self.dram[access.segment] if access.memory is None else self.memories[access.memory]
            if state is None:
                continue  # constants and inputs: written from the start, and by nobody else
            region = self.regions.of(index, access, state.depth, state.name)
            if access.reads:
                self._require_written(index, place, state, region, access, accesses)
                state.read(index, place, clock, region)
            if access.writes:
                writes.append((state, region))
        if row.opcode == _ALU_OPCODE:
            self._check_banks(index, row, accesses)
        for state, region in writes:
            state.write(index, place, clock, region)
        if uops is not None and engine == _ALU:
            vectors = row.outer * row.inner * uops.count
            self.alu_distances.run(index, vectors, row.pace + 1, accesses)
        elif engine == _ALU:
            self.alu_distances.wait(row.cycles)
        elif uops is not None and self.config.dsp_packing:
            self.emits.run(index, uops, row.outer * row.inner, row.window == 1, row.pace)

    def attempt(self, index: int, row: Fields, clock: Clock) -> VerifyError | None:
        """:meth:`step`, and the error if there is one; what the instruction writes is then written all the same."""
        try:
            self.step(index, row, clock)
        except VerifyError as error:
            if error.rule not in ADDRESSES:
                self.assume(index, row, clock, self.uops.step(row))
            return error
        return None

    def assume(self, index: int, row: Fields, clock: Clock, uops: Block | None) -> None:
        """Record what an instruction writes that has broken a rule; its first error is the one that is told."""
        for access in effects(row, uops, self.config):
            if not access.writes:
                continue
            state = self.dram[access.segment] if access.memory is None else self.memories[access.memory]
            if state is not None:
                region = self.regions.of(index, access, state.depth, state.name)
                try:
                    state.write(index, self.base + row.engine, clock, region)
                except VerifyError:
                    state.assume_written(region)
        if row.engine == _ALU:
            self.alu_distances.wait(ALU_DISTANCE)

    def _check_banks(self, index: int, row: Fields, accesses: Sequence[Access]) -> None:
        operands = [access for access in accesses if access.memory == Memory.ACC and access.reads]
        if len(operands) == 2 and not row.pace:
            vectors = row.outer * row.inner * row.uop_count
            check_banks(index, vectors, self.config.acc_bank_units, operands[0], operands[1], self.describe)

    def _require_written(
        self, index: int, place: int, state: MemoryState, region: Region, read: Access, accesses: Sequence[Access]
    ) -> None:
        """What no earlier instruction wrote, this one must write before it reads it."""
        missing = state.missing(region)
        if not missing.size:
            return
        write = next((access for access in accesses if access.writes and access.memory == read.memory), None)
        if write is None or read.memory is None or write.high() < region.low or write.low() > region.high:
            raise state.uninitialised(index, place, int(missing[0]))
        first, last = min(region.low, write.low()), max(region.high, write.high())
        times = [
            first_visits(
                access.column.offsets + access.base, access.column.positions, len(access.column.column), access.outer,
                access.inner, first, last,
            )[missing // read.span * read.span - first]
            for access in (write, read)
        ]  # fmt: skip
        early = times[1] <= times[0]
        if early.any():
            raise state.uninitialised(index, place, int(missing[int(np.argmax(early))]))
