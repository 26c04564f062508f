"""Issue-cycle distances: within ALU from a write to a read of it, within GEMM between window emits.

Distances are counted in an engine's own issue slots (vectors x (pace + 1), WAIT cycles): the least that can
happen, since idle time only adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.effects import Access
from tilewright.isa.spec import Memory
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.uops import Block
from tilewright.isa.verify.errors import Describer, Rule

_CHUNK = 1 << 18  #: vectors enumerated at once


@dataclass
class AluDistances:
    """The issue slots of ALU and what its latest vectors wrote."""

    describe: Describer
    slot: int = 0  #: slot of the next vector
    _recent: dict[Memory, dict[int, tuple[int, int]]] = field(
        default_factory=lambda: {Memory.ACT: {}, Memory.ACC: {}}
    )  #: per memory: address -> (slot, instruction) of vectors of the last ALU_DISTANCE slots
    _clean: set[tuple[object, ...]] = field(default_factory=set)  #: shapes that keep their distance within themselves

    def wait(self, cycles: int) -> None:
        """A WAIT on ALU."""
        self.slot += cycles

    def run(self, index: int, vectors: int, period: int, accesses: Sequence[Access]) -> None:
        """An instruction of ``vectors`` vectors, one every ``period`` slots, and what it touches."""
        near = -(-ALU_DISTANCE // period)  # vectors that lie within the distance of one another
        head = np.arange(min(vectors, near))
        write = next(access for access in accesses if access.writes)
        assert write.memory is not None
        for access in accesses:
            if not access.reads or access.memory not in self._recent:
                continue
            recent = self._recent[access.memory]
            if recent:
                self._against_recent(index, recent, access.memory, access.visits(head).tolist(), period)
            if access.memory == write.memory:
                self._within(index, vectors, period, access.memory, write, access)
        tail = np.arange(max(0, vectors - near), vectors)
        end = self.slot + vectors * period
        for memory, recent in self._recent.items():
            kept = {a: seen for a, seen in recent.items() if seen[0] > end - ALU_DISTANCE}
            self._recent[memory] = kept
        newest = self._recent[write.memory]
        for vector, address in zip(tail.tolist(), write.visits(tail).tolist()):
            newest[address] = (self.slot + vector * period, index)
        self.slot = end

    def _against_recent(
        self, index: int, recent: dict[int, tuple[int, int]], memory: Memory, addresses: list[int], period: int
    ) -> None:
        for vector, address in enumerate(addresses):
            seen = recent.get(address)
            if seen is not None and self.slot + vector * period - seen[0] < ALU_DISTANCE:
                raise self._error(index, memory, address, seen[1], self.slot + vector * period - seen[0])

    # Reads what it writes: both in acc, so no offset wraps and only the difference of the bases matters.
    def _within(self, index: int, vectors: int, period: int, memory: Memory, write: Access, read: Access) -> None:
        if vectors == 1 or _disjoint(write, read):
            return
        apart = [(access.column.serial, access.outer, access.inner) for access in (write, read)]
        shape = (*apart, read.base - write.base, period)
        if shape in self._clean:
            return
        near = (ALU_DISTANCE - 1) // period
        for start in range(0, vectors, _CHUNK):
            iterations = np.arange(max(0, start - near), min(vectors, start + _CHUNK))
            written = write.visits(iterations)
            got = written if read is write else read.visits(iterations)
            for lag in range(1, min(near, len(iterations) - 1) + 1):
                same = got[lag:] == written[:-lag]
                if same.any():
                    address = int(got[lag:][int(np.argmax(same))])
                    raise self._error(index, memory, address, index, lag * period)
        self._clean.add(shape)

    def _error(self, index: int, memory: Memory, address: int, writer: int, distance: int) -> Exception:
        return self.describe.error(
            Rule.ALU_DISTANCE, index,
            f"reads {memory.name.lower()} unit {address} {distance} issue cycles after {self.describe.name(writer)} "
            f"wrote it; at least {ALU_DISTANCE} are needed",
        )  # fmt: skip


def _disjoint(a: Access, b: Access) -> bool:
    """No address of acc can be common; looks at the ranges only."""
    return a is not b and (a.high() < b.low() or b.high() < a.low())


def check_banks(index: int, vectors: int, bank_units: int, dst: Access, src: Access, describe: Describer) -> None:
    """The two acc operands of every vector of a two-operand instruction lie in different banks."""
    if dst.high() // bank_units < src.low() // bank_units or src.high() // bank_units < dst.low() // bank_units:
        return
    for start in range(0, vectors, _CHUNK):
        iterations = np.arange(start, min(vectors, start + _CHUNK))
        d, s = dst.visits(iterations), src.visits(iterations)
        same: NDArray[np.bool_] = d // bank_units == s // bank_units
        if same.any():
            k = int(np.argmax(same))
            raise describe.error(
                Rule.ALU_BANK, index,
                f"reads acc units {d[k]} and {s[k]} of bank {d[k] // bank_units} for one vector; "
                f"use pace = 1 or operands in different banks",
            )  # fmt: skip


@dataclass
class EmitDistance:
    """With dsp_packing: a window emit takes GEMM's multipliers for two cycles.

    Only emits of one instruction can come too close: a window instruction ends with the second cycle of its
    last emit.
    """

    describe: Describer

    def run(self, index: int, block: Block, turns: int, window: bool, pace: int) -> None:
        """A GEMM instruction of ``turns`` passes over its micro-ops."""
        wraps = turns > 1 and bool(block.emits[0]) and bool(block.emits[-1])
        if window and not pace and (bool((block.emits[1:] & block.emits[:-1]).any()) or wraps):
            raise self.describe.error(
                Rule.EMIT_DISTANCE, index,
                "emits in two consecutive issue cycles, an emit takes two with dsp_packing; use pace = 1, or a push "
                "between",
            )  # fmt: skip
