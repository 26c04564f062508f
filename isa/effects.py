"""What an instruction touches and how long it holds engine and bus: derived from the declaration, once, for everyone.

:func:`effects` gives the addresses that one instruction reads and writes; :func:`slots` and :func:`row_beats` take
whole decoded tables too. What an instruction *means* is not here but in ``tests/sim/reference.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import (
    FORMAT_OF,
    FORMATS,
    MEMORIES,
    UOP_MEMORY,
    Fields,
    Format,
    Memory,
    Opcode,
    Operand,
    entry_bytes,
)
from tilewright.isa.uops import ORIGIN, Block, Column

_KINDS = list({f.slots: None for f in FORMATS})  #: the rules of :func:`slots`
_KIND_OF = np.array([_KINDS.index(FORMAT_OF[opcode].slots) for opcode in Opcode])
TILES = tuple(f.opcode for f in FORMATS if f.sram)  #: LOAD, FILL, STORE
Addresses = NDArray[np.int64]
Loop = tuple[Any, Any]  #: (count, step), of one instruction or columns of several

_ACT = Memory.ACT


@dataclass(slots=True)
class Access:
    """Addresses ``base + o * outer step + i * inner step + offset`` and the ``span`` - 1 after each, before wrapping.

    ``memory`` is None for beats of a DRAM ``segment``; ``column`` has the offsets of the micro-ops that use it. Offsets
    in act wrap in the ``wrap_size`` units from ``wrap_base`` on (0: no wrapping).
    """

    memory: Memory | None
    column: Column
    base: int
    outer: Loop
    inner: Loop
    reads: bool
    writes: bool
    span: int = 1
    wrap_base: int = 0
    wrap_size: int = 0
    segment: int = -1

    def low(self) -> int:
        """The least offset."""
        return self.base + self.column.low

    def high(self) -> int:
        """The greatest offset at which a vector begins."""
        (outer, o), (inner, i) = self.outer, self.inner
        return self.base + self.column.high + (outer - 1) * o + (inner - 1) * i

    def wraps(self) -> bool:
        """Whether an act operand passes the end of its region."""
        return self.wrap_size > 0 and self.high() >= self.wrap_size

    def wrapped(self, offsets: Addresses) -> Addresses:
        """Addresses of act offsets; other memories' are the addresses already."""
        if not self.wrap_size:
            return offsets
        if not self.wraps():
            return offsets + self.wrap_base
        return np.where(offsets < self.wrap_size, offsets, offsets - self.wrap_size) + self.wrap_base

    def visits(self, iterations: Addresses | None = None) -> Addresses:
        """Where the vector of each micro-op iteration (all, or those with these numbers) begins, in order."""
        column, (inner, step) = self.column.column, self.inner
        if iterations is None:
            o, i = np.arange(self.outer[0]) * self.outer[1] + self.base, np.arange(inner) * step
            return self.wrapped((o[:, None, None] + i[:, None] + column).ravel())
        turns = iterations // len(column)
        offsets = column[iterations - turns * len(column)] + self.base
        outer = turns // inner
        return self.wrapped(offsets + outer * (self.outer[1] - inner * step) + turns * step)

    def addresses(self) -> Addresses:
        """All addresses, each as often as it is visited."""
        column = self.column
        visits = self.visits().reshape(-1, len(column.column))[:, column.positions].ravel()
        return self.units(visits).ravel()

    def units(self, starts: Addresses) -> Addresses:
        """All addresses of the vectors that begin at ``starts``: shape (vectors, span)."""
        return starts[:, None] + np.arange(self.span) if self.span > 1 else starts[:, None]


def effects(row: Fields, uops: Block | None, config: Config) -> list[Access]:
    """What an instruction reads and writes, in the order in which it is checked.

    ``row``: all of its fields; ``uops``: what it runs, None for an instruction that runs none. Columns of instructions
    of one kind (equal in :data:`~tilewright.isa.codec.MODES`) that run the same give accesses with columns as places.
    """
    form = FORMAT_OF[row.opcode]
    if uops is None:
        return _moves(row, form, config)
    memory = UOP_MEMORY[row.engine]
    found = [Access(memory, ORIGIN, row.uop_begin, (1, 0), (row.uop_count, 1), True, False)]
    for operand in form.operands:
        for column, reads, writes in uops.uses(operand, bool(operand.reads(row))):
            found.append(vectors(operand, column, row, config, reads, writes))
    return found


def vectors(
    operand: Operand, column: Column, row: Fields, config: Config, reads: bool = False, writes: bool = False
) -> Access:  # fmt: skip
    """Where an instruction's micro-ops have one operand, whether it is used or not."""
    if operand.fixed:
        span = operand.span(row, config)
        return Access(operand.memory, column, getattr(row, operand.name) * span, (1, 0), (1, 0), reads, writes, span)
    base, outer, inner = operand.place(row)
    wrap = (row.wrap_base, row.wrap_size) if operand.memory is _ACT else (0, 0)
    span = operand.span(row, config)
    return Access(operand.memory, column, base, (row.outer, outer), (row.inner, inner), reads, writes, span, *wrap)


def _moves(row: Fields, form: Format, config: Config) -> list[Access]:
    if form.sram is None:
        return []
    memory, loads = MEMORIES[row.memory].memory, form.sram == "written"
    wrap = (row.wrap_base, row.wrap_size) if memory is _ACT else (0, 0)
    outer, inner = (row.rows, row.sram_row), (row.cols, row.sram_col)
    tile = Access(memory, ORIGIN, row.sram, outer, inner, not loads, loads, 1, *wrap)
    if form.dram is None:
        return [tile]
    beats = row_beats(row, config)
    outer, inner = (row.rows, row.stride), (beats if beats.ndim else int(beats), 1)
    dram = Access(None, ORIGIN, row.offset, outer, inner, loads, not loads, segment=row.segment)
    return [dram, tile] if loads else [tile, dram]


def row_beats(fields: Fields, config: Config) -> Addresses:
    """Beats of each DRAM row of LOADs and STOREs (fields of one, or columns); of no meaning for others."""
    result: Addresses = -(-fields.cols * _entry_sizes(config)[fields.memory] // config.beat_bytes)
    return result


@lru_cache(maxsize=64)
def _entry_sizes(config: Config) -> Addresses:
    return np.array([entry_bytes(config, memory) for memory in Memory])


def dram_end(fields: Fields, config: Config) -> Addresses:
    """The beat behind the last of LOADs and STOREs, in their segments."""
    result: Addresses = fields.offset + (fields.rows - 1) * fields.stride + row_beats(fields, config)
    return result


def uses_act(fields: Fields) -> NDArray[np.bool_]:
    """Which instructions address act, and so have a wrap region."""
    wrapping = [f.opcode for f in FORMATS if any(operand.memory == Memory.ACT for operand in f.operands)]
    tiles: NDArray[np.bool_] = np.isin(fields.opcode, TILES) & (fields.memory == Memory.ACT)
    return tiles | np.isin(fields.opcode, wrapping)


def slots(fields: Fields, config: Config) -> Addresses:
    """Cycles for which each instruction occupies its engine; 0 for LOAD and STORE, which the bus decides on."""
    result: Addresses = np.choose(_KIND_OF[fields.opcode], [kind(fields, config) if kind else 0 for kind in _KINDS])
    return result


def micro_ops(fields: Fields) -> Addresses:
    """Micro-ops that each instruction executes."""
    result: Addresses = fields.outer * fields.inner * fields.uop_count
    return result
