"""docs/isa.md is generated, current and complete; what it says of assembly text is true."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY
from tilewright.isa.assembler import assemble
from tilewright.isa.reference_page import page
from tilewright.isa.reference_text import ASSEMBLY, SEMANTICS
from tilewright.isa.spec import FORMATS, UOP_FIELDS, Opcode
from tilewright.isa.verifier import Rule


def test_committed_page_is_current() -> None:
    committed = (REPOSITORY / "docs" / "isa.md").read_text()
    assert committed == page(), "run: python -m tilewright.isa.reference_page > docs/isa.md"


def test_page_has_every_instruction_field_and_rule() -> None:
    text = page()
    assert set(SEMANTICS) == set(Opcode)
    for fmt in FORMATS:
        section = text.split(f"### {fmt.opcode.name}\n")[1].split("\n##")[0]
        assert [f.name for f in fmt.fields] == re.findall(r"^\| (\w+) \| \d", section, re.MULTILINE)
    for fields in UOP_FIELDS.values():
        assert all(f"| {f.name} | " in text for f in fields)
    assert all(f"| `{rule}` |" in text for rule in Rule)


def test_assembly_example_assembles() -> None:
    example = "\n".join(line for line in ASSEMBLY.splitlines() if line.startswith("    "))
    program = assemble(example)
    assert program.instruction_count == 2
    assert [s.name for s in program.segments] == ["k", "x"]
    assert program.meta == {"note": {"any": "JSON"}}
