"""The legality rules by name, and the error that a broken one raises."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tilewright.errors import TilewrightError
from tilewright.isa.codec import Table
from tilewright.isa.spec import DOORBELL_DEPTH, Engine, Opcode

_ORDER = "push a token on the first and pop it on the second, or let `tilewright asm --tokens` place them all"


class Rule(str, Enum):  # noqa: UP042 (StrEnum is not in the Python 3.10 of PYNQ 3)
    """What a program broke: its name in messages, one sentence for ``docs/isa.md``, and the way out for a programmer
    (empty where the message says it)."""

    doc: str
    way_out: str

    def __new__(cls, name: str, doc: str, way_out: str = "") -> Rule:
        rule = str.__new__(cls, name)
        rule._value_, rule.doc, rule.way_out = name, doc, way_out
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
        "push a token on the other engine before, or let `tilewright asm --tokens` place them all",
    )
    TOKEN_OVERFLOW = (
        "token-overflow",
        "After each push, in program order, the queue holds at most `token_depth` tokens.",
        "pop earlier, on a WAIT if need be, or let `tilewright asm --tokens` place them all",
    )
    TOKEN_LEFTOVER = (
        "token-leftover",
        "All token queues are empty after the last instruction.",
        "pop it on the other engine, or take the push away",
    )
    MEMORY = "memory", "FILL writes ACT or ACC only."
    SEGMENT = "segment", "LOAD and STORE name a segment that the program has."
    SEGMENT_KIND = (
        "segment-kind",
        "STORE goes to output, scratch and shared segments only; micro-ops are loaded from constant segments only.",
    )
    EXTENT = (
        "extent",
        "Every row of a LOAD or STORE lies within its segment.",
        "make the segment larger, or move fewer rows or cols",
    )
    WRAP = (
        "wrap",
        "wrap_base + wrap_size is at most the depth of act, and every act offset is below 2 x wrap_size.",
        "give wrap_size all units of act (act_units of the Config) for plain addresses",
    )
    RANGE = (
        "range",
        "Every other SRAM address, and every micro-op index, is below the depth of its memory.",
        "use fewer units or entries, or a Config with more",
    )
    ALIGNMENT = (
        "alignment",
        "A dense GEMM operand starts at a multiple of its span (in_units or out_units), so does an ALU vector; dst and "
        "wgt of an emit with pair = 1 are even, and so is the address in act of a push with twin = 1. "
        "Where a beat holds several micro-ops, a LOAD of micro-ops has sram, sram_row (if rows > 1) and cols whole "
        "beats, and sram_col = 1.",
        "move it to such a multiple",
    )
    ROUNDING = (
        "rounding",
        "Roundings CONSTANT and FLOAT32 are for REQUANTIZE only, FLOAT32 for a Config with float32_scaling.",
    )
    UNINITIALISED = (
        "uninitialised",
        "Nothing is read before it is written: SRAM per unit or entry, output, scratch and shared segments per beat. "
        "Constant and input segments count as written.",
        "load or compute it before",
    )
    RACE_RAW = (
        "race-raw",
        "A read is ordered after the last write of the same unit or beat by another engine, of any core.",
        _ORDER,
    )
    RACE_WAR = (
        "race-war",
        "A write is ordered after every earlier read of the same unit or beat by another engine, of any core.",
        _ORDER,
    )
    RACE_WAW = (
        "race-waw",
        "A write is ordered after the last write of the same unit or beat by another engine, of any core.",
        _ORDER,
    )
    BANK_READERS = (
        "bank-readers",
        "Reads of one bank of act or acc by different engines are ordered.",
        _ORDER,
    )
    BANK_WRITERS = (
        "bank-writers",
        "Writes of one bank of act or acc by different engines are ordered.",
        _ORDER,
    )
    ALU_BANK = "alu-bank", "With pace = 0, the two acc operands of an ALU vector lie in different banks."
    ALU_DISTANCE = (
        "alu-distance",
        "An ALU vector that reads what an earlier ALU vector wrote issues at least ALU_DISTANCE issue cycles later.",
        "put other vectors between, or a WAIT on alu",
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


class IllegalProgram(TilewrightError):
    """A program breaks rules: ``errors`` has all that was found. The message, or each of ``details`` if there are
    several, has an error's place in the source (the program's ``name`` where that is not known) and the way out."""

    def __init__(self, name: str, errors: Sequence[VerifyError], places: Sequence[str] = ()) -> None:
        self.errors = tuple(errors)
        lines = tuple(_line(name, error, places) for error in errors)
        self.details = lines if len(lines) > 1 else ()
        super().__init__(f"{name}: breaks {len(lines)} rules" if self.details else lines[0])

    def __str__(self) -> str:
        return "\n".join([*self.details, self.args[0]])


def _line(name: str, error: VerifyError, places: Sequence[str]) -> str:
    where = name if error.index is None or not places else places[error.index]
    return f"{where}: {error}{'; ' * bool(error.rule.way_out)}{error.rule.way_out}"


class Describer:
    """Names instructions in messages: of the program on ``core``, beside those on the others.

    ``found``: takes the errors that :meth:`report` is told of; without it the first one is raised.
    """

    def __init__(self, tables: Sequence[Table], core: int = 0, found: list[VerifyError] | None = None) -> None:
        self._tables, self._core, self._found = tables, core, found

    def name(self, index: int, core: int | None = None) -> str:
        """For example ``instruction 12 (GEMM on gemm)``; of several cores with the core's number before it."""
        core = self._core if core is None else core
        row = self._tables[core][index]
        prefix = f"core {core}, " if len(self._tables) > 1 else ""
        return f"{prefix}instruction {index} ({Opcode(row['opcode']).name} on {Engine(row['engine']).name.lower()})"

    def error(self, rule: Rule, index: int, detail: str, core: int | None = None) -> VerifyError:
        """The error of an instruction."""
        return VerifyError(rule, f"{self.name(index, core)}: {rule}: {detail}", index)

    def report(self, rule: Rule, index: int, detail: str) -> None:
        """Raise the error of an instruction, or keep it and go on."""
        error = self.error(rule, index, detail)
        if self._found is None:
            raise error
        self._found.append(error)
