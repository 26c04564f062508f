"""The legality rules by name, and the error that a broken one raises."""

from __future__ import annotations

from enum import Enum

from tilewright.errors import TilewrightError
from tilewright.isa.codec import Table
from tilewright.isa.spec import Engine, Opcode


class Rule(str, Enum):  # noqa: UP042 (StrEnum is not in the Python 3.10 of PYNQ 3)
    """What a program broke; ``docs/isa.md`` states each rule in full."""

    ENCODING = "encoding"
    SEGMENT_TABLE = "segment-table"
    TOKEN_UNDERFLOW = "token-underflow"
    TOKEN_OVERFLOW = "token-overflow"
    TOKEN_LEFTOVER = "token-leftover"
    MEMORY = "memory"
    SEGMENT = "segment"
    SEGMENT_KIND = "segment-kind"
    EXTENT = "extent"
    WRAP = "wrap"
    RANGE = "range"
    ALIGNMENT = "alignment"
    ROUNDING = "rounding"
    UNINITIALISED = "uninitialised"
    RACE_RAW = "race-raw"
    RACE_WAR = "race-war"
    RACE_WAW = "race-waw"
    BANK_READERS = "bank-readers"
    BANK_WRITERS = "bank-writers"
    ALU_BANK = "alu-bank"
    ALU_DISTANCE = "alu-distance"
    EMIT_DISTANCE = "emit-distance"
    PAIR = "pair"
    TWIN = "twin"

    def __str__(self) -> str:
        return str(self.value)


#: one sentence per rule, for the reference page
RULES: dict[Rule, str] = {
    Rule.ENCODING: ("Every instruction decodes: known enum values, no bits above its fields."),
    Rule.SEGMENT_TABLE: (
        "At most `segments` segments, with distinct names, sizes that are whole beats, repeat strides that are "
        "multiples of 4096 and either 0 or at least the size, data only in constant segments and no longer than the "
        "size, and at most 4 GiB in all."
    ),
    Rule.TOKEN_UNDERFLOW: ("At each pop, the queue holds at least one token pushed earlier in program order."),
    Rule.TOKEN_OVERFLOW: ("After each push, in program order, the queue holds at most `token_depth` tokens."),
    Rule.TOKEN_LEFTOVER: ("All token queues are empty after the last instruction."),
    Rule.MEMORY: ("FILL writes ACT or ACC only."),
    Rule.SEGMENT: ("LOAD and STORE name a segment that the program has."),
    Rule.SEGMENT_KIND: (
        "STORE goes to output and scratch segments only; micro-ops are loaded from constant segments only."
    ),
    Rule.EXTENT: ("Every row of a LOAD or STORE lies within its segment."),
    Rule.WRAP: ("wrap_base + wrap_size is at most the depth of act, and every act offset is below 2 x wrap_size."),
    Rule.RANGE: ("Every other SRAM address, and every micro-op index, is below the depth of its memory."),
    Rule.ALIGNMENT: (
        "A dense GEMM operand starts at a multiple of its span (in_units or out_units), so does an ALU vector; dst and "
        "wgt of an emit with pair = 1 are even, and so is the address in act of a push with twin = 1. "
        "Where a beat holds several micro-ops, a LOAD of micro-ops has sram, sram_row (if rows > 1) and cols whole "
        "beats, and sram_col = 1."
    ),
    Rule.ROUNDING: ("Rounding CONSTANT is for REQUANTIZE only."),
    Rule.UNINITIALISED: (
        "Nothing is read before it is written: SRAM per unit or entry, output and scratch segments per beat. "
        "Constant and input segments count as written."
    ),
    Rule.RACE_RAW: ("A read is ordered after the last write of the same unit or beat by another engine."),
    Rule.RACE_WAR: ("A write is ordered after every earlier read of the same unit or beat by another engine."),
    Rule.RACE_WAW: ("A write is ordered after the last write of the same unit or beat by another engine."),
    Rule.BANK_READERS: ("Reads of one bank of act or acc by different engines are ordered."),
    Rule.BANK_WRITERS: ("Writes of one bank of act or acc by different engines are ordered."),
    Rule.ALU_BANK: ("With pace = 0, the two acc operands of an ALU vector lie in different banks."),
    Rule.ALU_DISTANCE: (
        "An ALU vector that reads what an earlier ALU vector wrote issues at least ALU_DISTANCE issue cycles later."
    ),
    Rule.EMIT_DISTANCE: (
        "With dsp_packing, two emits of a window instruction are at least two issue cycles apart, over loop turns too "
        "(a push between them, or pace = 1)."
    ),
    Rule.PAIR: ("pair = 1 is for window mode on a Config with dsp_packing."),
    Rule.TWIN: ("twin = 1 is for window mode on a Config with dsp_packing."),
}


class VerifyError(TilewrightError):
    """A program is not legal. ``rule`` names what it broke, ``index`` the instruction (None: the program)."""

    def __init__(self, rule: Rule, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.index = index


class Describer:
    """Names instructions in messages."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def name(self, index: int) -> str:
        """For example ``instruction 12 (GEMM on gemm)``."""
        opcode, engine = self._table["opcode"][index], self._table["engine"][index]
        return f"instruction {index} ({Opcode(opcode).name} on {Engine(engine).name.lower()})"

    def error(self, rule: Rule, index: int, detail: str) -> VerifyError:
        """The error of an instruction."""
        return VerifyError(rule, f"{self.name(index)}: {rule}: {detail}", index)
