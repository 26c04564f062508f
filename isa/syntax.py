"""What assembler and disassembler share: how the declaration's names are written in assembly text.

A line is a directive (``.config``, ``.segment``, ``.meta``), data of an open segment block, or an instruction.
``;`` starts a comment, except in a ``.meta`` line. ``docs/isa.md`` shows the whole syntax.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum

from tilewright.isa.spec import Engine, Opcode

#: instructions by their name in text
MNEMONICS: dict[str, Opcode] = {op.name.lower(): op for op in Opcode}

#: the enum field that is written as a bare word after the mnemonic
POSITIONAL: dict[Opcode, str] = {
    Opcode.LOAD: "memory",
    Opcode.FILL: "memory",
    Opcode.ALU: "function",
    Opcode.WAIT: "engine",
}

#: data directive -> bytes and signedness of its numbers
INTEGERS: dict[str, tuple[int, bool]] = {".i8": (1, True), ".i32": (4, True)}

#: data directive -> engine whose micro-op it is
UOP_DIRECTIVES: dict[str, Engine] = {".uop_gemm": Engine.GEMM, ".uop_alu": Engine.ALU}

_BARE = re.compile(r"[A-Za-z_][\w.\-/]*\Z", re.ASCII)


def words(enum: type[IntEnum]) -> dict[str, int]:
    """An enum's values by their name in text."""
    return {member.name.lower(): int(member) for member in enum}


def word(enum: type[IntEnum], value: int) -> str:
    """The name in text of an enum's value."""
    return enum(value).name.lower()


def quote(name: str) -> str:
    """A name as one token: bare if it can be, else as a JSON string."""
    return name if _BARE.match(name) else json.dumps(name)
