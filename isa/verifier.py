"""The program verifier: a program that passes runs alike on every device, without hang, fault or race.

Programs are straight-line, so everything is decidable, and every check is exact: per unit, entry, beat, bank and
issue cycle. The rules are listed in :data:`tilewright.isa.verify.errors.RULES` and in ``docs/isa.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.config import Config
from tilewright.isa.codec import EncodingError, rows_of
from tilewright.isa.effects import Access, effects
from tilewright.isa.program import Program
from tilewright.isa.spec import MEMORIES, Engine, Fields, Memory, MemoryInfo, Opcode
from tilewright.isa.uops import UopMemories
from tilewright.isa.verify.affine import Region, first_visits
from tilewright.isa.verify.distances import AluDistances, EmitDistance, check_banks
from tilewright.isa.verify.errors import RULES, Describer, Rule, VerifyError
from tilewright.isa.verify.regions import Regions
from tilewright.isa.verify.state import MemoryState
from tilewright.isa.verify.tiles import check_fields, check_segments
from tilewright.isa.verify.tokens import Clock, clocks

_ALU, _ALU_OPCODE = int(Engine.ALU), int(Opcode.ALU)

__all__ = ["RULES", "Rule", "VerifyError", "verify"]


def verify(program: Program, segment_sizes: Sequence[int] | None = None) -> None:
    """Raise :class:`VerifyError` if a program breaks any legality rule; its ``rule`` says which.

    ``segment_sizes`` gives the segments' sizes in bytes where they differ from the program's own.
    """
    try:
        table = program.table()
    except EncodingError as error:
        raise VerifyError(Rule.ENCODING, f"program: {Rule.ENCODING}: {error}") from error
    describe = Describer(table)
    beats = check_segments(program, segment_sizes)
    order = clocks(table, program.config, describe)
    check_fields(table, program, beats, describe)
    walk = _Walk(program, beats, describe)
    for index, (row, clock) in enumerate(zip(rows_of(table), order)):
        walk.step(index, row, clock)


def _memory_state(m: MemoryInfo, config: Config, describe: Describer) -> MemoryState:
    shared = len(m.readers) > 1 or len(m.writers) > 1  # else its banks have no other owners
    bank = m.bank_units(config) if shared else 0
    return MemoryState(m.name, m.unit, m.depth(config), m.readers, m.writers, describe, bank)


class _Walk:
    """Runs through a program in order, with the access history of every memory."""

    def __init__(self, program: Program, beats: Sequence[int], describe: Describer) -> None:
        config = program.config
        self.config, self.describe, self.regions = config, describe, Regions(describe)
        self.uops = UopMemories(config, program.segments)
        self.memories = {m.memory: _memory_state(m, config, describe) for m in MEMORIES.values()}
        self.dram = [
            MemoryState(f"segment {k} ({s.name})", "beat", size, (Engine.LOAD,), (Engine.STORE,), describe)
            if s.kind in ("output", "scratch")
            else None
            for k, (s, size) in enumerate(zip(program.segments, beats))
        ]
        self.alu_distances = AluDistances(describe)
        self.emits = EmitDistance(describe)

    def step(self, index: int, row: Fields, clock: Clock) -> None:
        """Check and record one instruction: what it reads, then what it writes, then the distances."""
        engine = row.engine
        uops = self.uops.step(row)
        accesses = effects(row, uops, self.config)
        writes: list[tuple[MemoryState, Region]] = []
        for access in accesses:
            state = self.dram[access.segment] if access.memory is None else self.memories[access.memory]
            if state is None:
                continue  # constants and inputs: written from the start, and by nobody else
            region = self.regions.of(index, access, state.depth, state.name)
            if access.reads:
                self._require_written(index, state, region, access, accesses)
                state.read(index, engine, clock, region)
            if access.writes:
                writes.append((state, region))
        if row.opcode == _ALU_OPCODE:
            self._check_banks(index, row, accesses)
        for state, region in writes:
            state.write(index, engine, clock, region)
        if uops is not None and engine == _ALU:
            vectors = row.outer * row.inner * uops.count
            self.alu_distances.run(index, vectors, row.pace + 1, accesses)
        elif engine == _ALU:
            self.alu_distances.wait(row.cycles)
        elif uops is not None and self.config.dsp_packing:
            self.emits.run(index, uops, row.outer * row.inner, row.window == 1, row.pace)

    def _check_banks(self, index: int, row: Fields, accesses: Sequence[Access]) -> None:
        operands = [access for access in accesses if access.memory == Memory.ACC and access.reads]
        if len(operands) == 2 and not row.pace:
            vectors = row.outer * row.inner * row.uop_count
            check_banks(index, vectors, self.config.acc_bank_units, operands[0], operands[1], self.describe)

    def _require_written(
        self, index: int, state: MemoryState, region: Region, read: Access, accesses: Sequence[Access]
    ) -> None:
        """What no earlier instruction wrote, this one must write before it reads it."""
        missing = state.missing(region)
        if not missing.size:
            return
        write = next((access for access in accesses if access.writes and access.memory == read.memory), None)
        if write is None or read.memory is None or write.high() < region.low or write.low() > region.high:
            raise state.uninitialised(index, int(missing[0]))
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
            raise state.uninitialised(index, int(missing[int(np.argmax(early))]))
