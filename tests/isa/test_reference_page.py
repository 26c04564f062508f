"""docs/isa.md is generated, current and complete; what it says of assembly text is true."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY
from tilewright.isa.assembler import assemble
from tilewright.isa.reference_page import PAGE, blocks
from tilewright.isa.spec import FORMATS, UOP_FIELDS
from tilewright.isa.verifier import Rule
from tilewright.pages import filled

COMMITTED = (REPOSITORY / "docs" / PAGE).read_text()


def test_committed_page_is_current() -> None:
    assert filled(PAGE, blocks()) == COMMITTED, "run: python -m tilewright.isa.reference_page"


def test_a_block_that_the_page_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"isa\.md: has the blocks config, .*; there are .*, further"):
        filled(PAGE, {**blocks(), "further": []})


def test_page_has_every_instruction_field_and_rule() -> None:
    for fmt in FORMATS:
        section = COMMITTED.split(f"### {fmt.opcode.name}\n")[1].split("\n##")[0]
        assert [f.name for f in fmt.fields] == re.findall(r"^\| (\w+) \| (?:\d|none)", section, re.MULTILINE)
        prose = re.sub(r"<!-- generated: (?:.*\n)*?<!-- end -->", "", section)
        assert len(prose.split()) > 10, f"{fmt.opcode.name}: what does it do?"
    for fields in UOP_FIELDS.values():
        assert all(f"| {f.name} | " in COMMITTED for f in fields)
    assert all(f"| `{rule}` |" in COMMITTED for rule in Rule)


def test_assembly_example_assembles() -> None:
    section = COMMITTED.split("## Assembly text\n")[1]
    program = assemble("\n".join(line for line in section.splitlines() if line.startswith("    ")))
    assert program.instruction_count == 2
    assert [s.name for s in program.segments] == ["k", "x"]
    assert program.meta == {"note": {"any": "JSON"}}
