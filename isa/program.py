"""A program: instructions, DRAM segments with their constants, and the Config it was made for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tilewright.config import Config
from tilewright.isa.codec import Table, columns_of, decode_table
from tilewright.isa.spec import Fields, instruction_width
from tilewright.kinds import instance
from tilewright.ranges import ArgumentError

SegmentKind = Literal["constant", "input", "output", "scratch", "shared"]

#: bytes; the program and all segments begin at multiples of it in DRAM, and no AXI burst crosses one
PAGE = 4096

#: most bytes that the segments of a program take for one inference: 4 GiB, the memory of the largest board known
MOST_SEGMENT_BYTES = 1 << 32


def whole_pages(size: int) -> int:
    """``size`` bytes rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


@dataclass(frozen=True)
class Segment:
    """A DRAM region that instructions name by its index.

    ``size`` is in bytes, a multiple of the AXI beat; ``data`` is the initial content of a constant segment
    (weights, parameters, micro-ops; may be shorter than size, the rest is zero). In a batched launch the
    base advances by ``repeat_stride`` bytes (whole pages, at least ``size``; or 0 for segments all inferences share).
    A ``shared`` one is the same memory as those of its name in the programs that run at the same time on other cores.
    """

    name: str
    kind: SegmentKind
    size: int
    data: bytes | None = field(default=None, repr=False)
    repeat_stride: int = 0


@dataclass(frozen=True, repr=False)
class Program:
    """Encoded instructions for one Config and the segments they address; ``meta`` is JSON-able."""

    config: Config
    instructions: bytes
    segments: tuple[Segment, ...]
    meta: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Program for {self.config.name}: {self.instruction_count} instructions, {len(self.segments)} segments>"

    @property
    def instruction_count(self) -> int:
        """Number of instructions."""
        return len(self.instructions) * 8 // instruction_width(self.config)

    def table(self) -> Table:
        """All instructions decoded, a row each."""
        return decode_table(self.instructions, self.config)

    def columns(self) -> Fields:
        """The fields of all instructions, a column each."""
        return columns_of(self.table())


def check_program(program: object) -> None:
    """Raise :class:`ArgumentError` for what is no program."""
    instance("program", program, Program, "a Program, as the compiler and assemble make them", error=ArgumentError)
