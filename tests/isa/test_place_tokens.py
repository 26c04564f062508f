"""Tokens for programs that have none, or wrong ones: the result is legal, and computes what program order says."""

from __future__ import annotations

import dataclasses

import pytest

from tests.isa.build import ALU, Builder
from tests.isa.rules import CASES, Case
from tests.isa.synthetic import resnet_sized
from tilewright.config import PRESETS
from tilewright.isa.assembler import assemble
from tilewright.isa.disassembler import disassemble
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.isa.tokens.place import place_tokens
from tilewright.isa.verifier import IllegalProgram, Rule, find_errors, verify


def of_order(rule: Rule, build: Case) -> bool:
    """Whether tokens and WAITs can keep a rule: an ALU instruction may come too close to itself."""
    if rule == Rule.ALU_DISTANCE:
        error = find_errors(build(False))[0]
        return str(error).count(f"instruction {error.index} (") == 1
    return rule.name.startswith(("RACE_", "BANK_", "TOKEN_"))


OF_ORDER = [(rule, name, build) for rule, name, build in CASES if of_order(rule, build)]


def without_tokens(program: Program) -> Program:
    text = disassemble(program).splitlines()
    bare = [" ".join(w for w in line.split() if not w.startswith(("pop(", "push("))) for line in text]
    return assemble("\n".join(line if line.startswith(".meta") else short for line, short in zip(text, bare)))


@pytest.mark.parametrize("rule,name,build", OF_ORDER, ids=[name for _, name, _ in OF_ORDER])
def test_programs_that_break_the_rules_of_order_become_legal(rule: Rule, name: str, build: Case) -> None:
    assert find_errors(build(False), in_order=True) == []
    verify(place_tokens(build(False)))


def test_a_whole_network_without_tokens() -> None:
    program = resnet_sized(tiles=3)
    bare = without_tokens(program)
    assert find_errors(bare)
    placed = place_tokens(bare)
    verify(placed)
    assert place_tokens(placed) == placed


def test_dram_that_is_written_and_read_is_ordered() -> None:
    b = Builder(PRESETS["pynq-z2"])
    b.load(Memory.ACT, count=8)
    b.store(segment=3, count=4)
    b.store(segment=3, count=4, offset=8, sram=4)
    b.load(Memory.ACT, segment=3, count=4, offset=8, sram=64)  # of the second store alone
    placed = place_tokens(b.program())
    verify(placed)
    assert "pop(store)" in disassemble(placed).splitlines()[-1]


def test_layers_stay_with_their_instructions() -> None:
    """Also where WAITs are put before them."""
    b = Builder(PRESETS["tiny"])
    b.fill(Memory.ACC, count=4)
    b.uops(ALU, [{}])
    b.alu(use_imm=1, imm=1)
    b.alu(use_imm=1, imm=1)  # reads what the first wrote: a WAIT comes between
    meta = {"layers": [{"name": "a"}, {"name": "b"}], "instruction_layer": [0, 0, 0, 1]}
    placed = place_tokens(dataclasses.replace(b.program(), meta=meta))
    assert placed.meta["instruction_layer"] == [0, 0, 0, 1, 1]
    assert [row["opcode"] for row in placed.table()] == [1, 0, 4, 7, 4]
    verify(placed)


def test_what_no_token_can_mend_is_refused() -> None:
    b = Builder()
    b.store()
    with pytest.raises(IllegalProgram, match="copy.s:9: instruction 0 .*nothing wrote before; load or compute it"):
        place_tokens(b.program(), "copy.s", ["copy.s:9"])
