"""What the declaration in ``isa/spec.py`` is made of: codes, fields, memories, operands, formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from tilewright.config import Config

Width = int | Callable[[Config], int]
Role = Literal["read", "written"]
Fields = Any  #: an instruction's fields as attributes: numbers, or columns of many instructions (see ``isa/codec.py``)


class Opcode(IntEnum):
    """The 3-bit operation code."""

    LOAD = 0
    FILL = 1
    STORE = 2
    GEMM = 3
    ALU = 4
    REQUANTIZE = 5
    RESCALE = 6
    WAIT = 7


class Engine(IntEnum):
    """The four engines. Each has a command queue; every ordered pair has a token queue."""

    LOAD = 0
    GEMM = 1
    ALU = 2
    STORE = 3


class Memory(IntEnum):
    """What LOAD and FILL can write. ACC8 is acc loaded from int8, sign-extended."""

    ACT = 0
    WGT = 1
    ACC = 2
    ACC8 = 3
    PRM = 4
    UOP_GEMM = 5
    UOP_ALU = 6
    TABLE = 7


@dataclass(frozen=True)
class Field:
    """One bit field. ``minus_one``: a count of at least 1, stored minus one. ``enum`` names its values."""

    name: str
    width: Width
    doc: str
    signed: bool = False
    minus_one: bool = False
    enum: type[IntEnum] | None = None

    def bits(self, config: Config) -> int:
        """Width in bits for this Config."""
        return self.width if isinstance(self.width, int) else self.width(config)

    def bounds(self, config: Config) -> tuple[int, int]:
        """Least and greatest value, inclusive."""
        n = self.bits(config)
        if self.enum is not None:
            return 0, min((1 << n) - 1, max(self.enum))
        if self.signed:
            return -(1 << (n - 1)), (1 << (n - 1)) - 1
        return (1, 1 << n) if self.minus_one else (0, (1 << n) - 1)


@dataclass(frozen=True)
class MemoryInfo:
    """One memory. ``name``: in messages; ``unit``: what an address counts; ``content``: one of those.

    ``entry_bytes``: of one in DRAM, as LOAD moves it; ``banks``: each has one reader and one writer at a time (1: only
    one engine reads it and one writes it); ``uops_of``: the engine whose micro-ops it holds.
    """

    memory: Memory
    unit: str
    content: str
    depth: Callable[[Config], int]
    entry_bytes: Callable[[Config], int]
    writers: tuple[Engine, ...]
    readers: tuple[Engine, ...]
    banks: Callable[[Config], int] = lambda config: 1
    uops_of: Engine | None = None

    @property
    def name(self) -> str:
        return self.memory.name.lower()

    def bank_units(self, config: Config) -> int:
        """Units or entries of a bank; the bank of an address is ``address // bank_units``."""
        return self.depth(config) // self.banks(config)


def always(fields: Fields) -> bool:
    """A condition that every instruction meets."""
    return True


def never(fields: Fields) -> bool:
    """A condition that no instruction meets."""
    return False


@dataclass(frozen=True)
class Operand:
    """Vectors or entries of a memory, one for each micro-op and loop turn.

    The address is the sum of the micro-op's ``name``, the field ``name``, and ``name_outer`` and ``name_inner`` times
    the loop counters; in act it wraps. ``reads``: condition on the instruction's fields; ``span``: units of a vector,
    which begins at a multiple of them. ``emits``: only micro-ops of GEMM that emit use it, and of a written one only
    those that accumulate read it. ``fixed``: the field alone says where, in steps of ``span``, for all micro-ops.
    """

    name: str
    memory: Memory
    writes: bool = False
    reads: Callable[[Fields], Any] = always
    span: Callable[[Fields, Config], Any] = lambda fields, config: 1
    emits: bool = False
    fixed: bool = False

    @cached_property
    def place(self) -> Callable[[Fields], tuple[Any, Any, Any]]:
        """Takes base and steps out of an instruction's fields; of what is not ``fixed``."""
        return attrgetter(self.name, f"{self.name}_outer", f"{self.name}_inner")


@dataclass(frozen=True)
class Format:
    """One instruction: its fields follow the common header, least significant bit first.

    ``engine`` is None for WAIT, whose ``engine`` field says where it runs. ``sram``, ``dram``: what becomes of the tile
    in a memory and of its rows in DRAM; ``operands`` in the order in which they are checked. ``slots``: cycles for
    which it occupies its engine; None where that is the bus's doing.
    """

    opcode: Opcode
    engine: Engine | None
    fields: tuple[Field, ...]
    doc: str
    slots: Callable[[Fields, Config], Any] | None = None
    sram: Role | None = None
    dram: Role | None = None
    operands: tuple[Operand, ...] = ()


def bits_for(values: int) -> int:
    """Bits that hold 0 .. values - 1 (at least one)."""
    return max(1, (values - 1).bit_length())
