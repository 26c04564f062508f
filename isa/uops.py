"""Micro-ops: blocks that instructions run, and what the micro-op memories hold when they do.

Micro-ops come from constant segments only, so their values are known. Blocks are interned by content: instructions
that run the same micro-kernel share one block, and what is derived from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import decode_uops
from tilewright.isa.program import Segment
from tilewright.isa.spec import (
    FORMAT_OF,
    MEMORIES,
    UOP_FIELDS,
    UOP_MEMORY,
    Engine,
    Fields,
    Memory,
    Opcode,
    Operand,
    acc_bits,
    entry_bytes,
    memory_depth,
)

Addresses = NDArray[np.int64]

_LOAD = int(Opcode.LOAD)
_SERIALS = itertools.count()


class Column:
    """Offsets of one operand for the micro-ops (``positions``) that use it; may be empty."""

    def __init__(self, column: Addresses, used: NDArray[np.bool_] | None = None) -> None:
        self.serial = next(_SERIALS)  #: names it in caches
        self.column = column  #: of all micro-ops
        self.positions = np.arange(len(column)) if used is None else np.flatnonzero(used)
        self.offsets = column[self.positions]
        self.empty = len(self.offsets) == 0
        self.low = 0 if self.empty else int(self.offsets.min())
        self.high = 0 if self.empty else int(self.offsets.max())

    @cached_property
    def distinct(self) -> Addresses:
        """Every offset once, ascending."""
        return np.unique(self.offsets)


ORIGIN = Column(np.zeros(1, np.int64))  #: of what no micro-op moves


class Block:
    """The micro-ops that an instruction runs: rows of fields in the order of ``UOP_FIELDS``.

    In window mode, micro-ops of GEMM with an all-ones ``dst`` only push.
    """

    def __init__(self, uops: Addresses, engine: Engine, config: Config, window: bool = False) -> None:
        columns = {f.name: np.ascontiguousarray(uops[:, k]) for k, f in enumerate(UOP_FIELDS[engine])}
        self.count = len(uops)
        self.emits = columns["dst"] != (1 << acc_bits(config)) - 1 if window else np.ones(len(uops), np.bool_)
        accumulate = columns.pop("accumulate", None)
        self.columns = {name: Column(column) for name, column in columns.items()}
        if accumulate is not None:
            self.emitting = {name: Column(column, self.emits) for name, column in columns.items()}
            self.accumulating = Column(columns["dst"], self.emits & (accumulate == 1))

    def uses(self, operand: Operand, reads: bool) -> list[tuple[Column, bool, bool]]:
        """(micro-ops, whether they read, whether they write) of an operand that the instruction reads or not."""
        if operand.fixed:
            return [(ORIGIN, reads, False)] if reads else []
        if not operand.emits:
            return [(self.columns[operand.name], reads, operand.writes)] if reads or operand.writes else []
        if not operand.writes:
            found = [(self.emitting[operand.name], reads, False)]
        else:
            found = [(self.emitting[operand.name], False, True), (self.accumulating, reads, False)]
        return [use for use in found if not use[0].empty]


class UopMemories:
    """Content of the micro-op memories, in program order."""

    def __init__(self, config: Config, segments: Sequence[Segment]) -> None:
        self._config, self._segments = config, segments
        self._words = {
            memory: np.zeros(memory_depth(config, memory), f"<u{entry_bytes(config, memory)}")
            for memory in UOP_MEMORY.values()
        }
        self._blocks: dict[tuple[Engine, bytes, bool], Block] = {}
        self._current: dict[tuple[Engine, int, int, bool], Block] = {}

    def step(self, row: Fields) -> Block | None:
        """Take in the next instruction (all row of its row); the micro-ops that it runs, None if it runs none."""
        opcode = row.opcode
        if opcode == _LOAD and MEMORIES[row.memory].uops_of is not None:
            self._load(row)
        if not FORMAT_OF[opcode].operands:
            return None
        engine, begin, count = Engine(row.engine), row.uop_begin, row.uop_count
        key = (engine, begin, count, bool(row.window))
        block = self._current.get(key)
        if block is None:
            content = self._words[UOP_MEMORY[engine]][begin : begin + count].tobytes()
            kernel = (engine, content, key[3])
            if kernel not in self._blocks:
                self._blocks[kernel] = Block(decode_uops(content, engine, self._config), engine, self._config, key[3])
            block = self._current[key] = self._blocks[kernel]
        return block

    def _load(self, row: Fields) -> None:
        words, cols = self._words[Memory(row.memory)], row.cols
        data, size = self._segments[row.segment].data or b"", cols * words.itemsize
        for r in range(row.rows):
            start = (row.offset + r * row.stride) * self._config.beat_bytes
            content = data[start : start + size].ljust(size, b"\0")
            first = row.sram + r * row.sram_row
            words[first + np.arange(cols) * row.sram_col] = np.frombuffer(content, words.dtype)
        self._current.clear()
