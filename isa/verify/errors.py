"""The legality rules by name, and the error that a broken one raises."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tilewright.errors import TilewrightError
from tilewright.isa.codec import Table
from tilewright.isa.spec import DOORBELL_DEPTH, Engine, Opcode


class Rule(str, Enum):  # noqa: UP042 (StrEnum is not in the Python 3.10 of PYNQ 3)
    """What a program broke; each member has its name in messages, and one sentence for ``docs/isa.md``."""

    doc: str

    def __new__(cls, name: str, doc: str) -> Rule:
        rule = str.__new__(cls, name)
        rule._value_, rule.doc = name, doc
        return rule

    ENCODING = "encoding", "Every instruction decodes: known enum values, no bits above its fields."
    SEGMENT_TABLE = (
        "segment-table",
        "At most `segments` segments, with distinct names, sizes that are whole beats, repeat strides that are "
        "multiples of 4096 and either 0 or at least the size, data only in constant segments and no longer than the "
        "size, and at most 4 GiB in all. A shared segment has the size and repeat stride of its namesakes on other "
        "cores.",
    )
    TOKEN_UNDERFLOW = (
        "token-underflow",
        "At each pop, the queue holds at least one token pushed earlier in program order.",
    )
    TOKEN_OVERFLOW = (
        "token-overflow",
        "After each push, in program order, the queue holds at most `token_depth` tokens.",
    )
    TOKEN_LEFTOVER = "token-leftover", "All token queues are empty after the last instruction."
    MEMORY = "memory", "FILL writes ACT or ACC only."
    SEGMENT = "segment", "LOAD and STORE name a segment that the program has."
    SEGMENT_KIND = (
        "segment-kind",
        "STORE goes to output, scratch and shared segments only; micro-ops are loaded from constant segments only.",
    )
    EXTENT = "extent", "Every row of a LOAD or STORE lies within its segment."
    WRAP = "wrap", "wrap_base + wrap_size is at most the depth of act, and every act offset is below 2 x wrap_size."
    RANGE = "range", "Every other SRAM address, and every micro-op index, is below the depth of its memory."
    ALIGNMENT = (
        "alignment",
        "A dense GEMM operand starts at a multiple of its span (in_units or out_units), so does an ALU vector; dst and "
        "wgt of an emit with pair = 1 are even, and so is the address in act of a push with twin = 1. "
        "Where a beat holds several micro-ops, a LOAD of micro-ops has sram, sram_row (if rows > 1) and cols whole "
        "beats, and sram_col = 1.",
    )
    ROUNDING = (
        "rounding",
        "Roundings CONSTANT and FLOAT32 are for REQUANTIZE only, FLOAT32 for a Config with float32_scaling.",
    )
    UNINITIALISED = (
        "uninitialised",
        "Nothing is read before it is written: SRAM per unit or entry, output, scratch and shared segments per beat. "
        "Constant and input segments count as written.",
    )
    RACE_RAW = (
        "race-raw",
        "A read is ordered after the last write of the same unit or beat by another engine, of any core.",
    )
    RACE_WAR = (
        "race-war",
        "A write is ordered after every earlier read of the same unit or beat by another engine, of any core.",
    )
    RACE_WAW = (
        "race-waw",
        "A write is ordered after the last write of the same unit or beat by another engine, of any core.",
    )
    BANK_READERS = "bank-readers", "Reads of one bank of act or acc by different engines are ordered."
    BANK_WRITERS = "bank-writers", "Writes of one bank of act or acc by different engines are ordered."
    ALU_BANK = "alu-bank", "With pace = 0, the two acc operands of an ALU vector lie in different banks."
    ALU_DISTANCE = (
        "alu-distance",
        "An ALU vector that reads what an earlier ALU vector wrote issues at least ALU_DISTANCE issue cycles later.",
    )
    EMIT_DISTANCE = (
        "emit-distance",
        "With dsp_packing, two emits of a window instruction are at least two issue cycles apart, over loop turns too "
        "(a push between them, or pace = 1).",
    )
    DOORBELL = (
        "doorbell",
        "hear is for WAITs on LOAD, ring for WAITs on STORE; both mark other cores that run at the same time.",
    )
    DOORBELL_DEADLOCK = (
        "doorbell-deadlock",
        "The programs that run at the same time have an order in which every WAIT hears what has rung before.",
    )
    DOORBELL_OVERFLOW = (
        "doorbell-overflow",
        f"At no ring, in any order that tokens and doorbells allow, has the other core more than {DOORBELL_DEPTH} "
        "doorbells of this one to hear.",
    )
    DOORBELL_LEFTOVER = "doorbell-leftover", "Every doorbell is heard."
    PAIR = "pair", "pair = 1 is for window mode on a Config with dsp_packing."
    TWIN = "twin", "twin = 1 is for window mode on a Config with dsp_packing."

    def __str__(self) -> str:
        return str(self.value)


class VerifyError(TilewrightError):
    """A program is not legal. ``rule`` names what it broke, ``index`` the instruction (None: the program)."""

    def __init__(self, rule: Rule, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.index = index


class Describer:
    """Names instructions in messages: of the program on ``core``, beside those on the others."""

    def __init__(self, tables: Sequence[Table], core: int = 0) -> None:
        self._tables, self._core = tables, core

    def name(self, index: int, core: int | None = None) -> str:
        """For example ``instruction 12 (GEMM on gemm)``; of several cores with the core's number before it."""
        core = self._core if core is None else core
        row = self._tables[core][index]
        prefix = f"core {core}, " if len(self._tables) > 1 else ""
        return f"{prefix}instruction {index} ({Opcode(row['opcode']).name} on {Engine(row['engine']).name.lower()})"

    def error(self, rule: Rule, index: int, detail: str, core: int | None = None) -> VerifyError:
        """The error of an instruction."""
        return VerifyError(rule, f"{self.name(index, core)}: {rule}: {detail}", index)
