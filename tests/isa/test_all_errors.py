"""All errors of a program at once: every one is what the verifier alone would say, and none hides another."""

from __future__ import annotations

import pickle

import pytest

from tests.isa.build import ALU, GEMM, LOAD, Builder
from tests.isa.rules import CASES, Case
from tilewright.config import PRESETS
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory, instruction_width
from tilewright.isa.verifier import IllegalProgram, Rule, VerifyError, find_errors, verify

IDS = [name for _, name, _ in CASES]


@pytest.mark.parametrize("rule,name,build", CASES, ids=IDS)
def test_the_error_that_is_raised_is_among_those_found(rule: Rule, name: str, build: Case) -> None:
    """And a legal program has none."""
    assert find_errors(build(True)) == []
    program = build(False)
    with pytest.raises(VerifyError) as raised:
        verify(program)
    assert str(raised.value) in [str(error) for error in find_errors(program)]


def test_errors_of_all_kinds_are_found_in_one_pass() -> None:
    b = Builder()
    b.load(Memory.ACT, segment=7)  # no such segment: what it would have written counts as written
    b.load(Memory.WGT, sram=200, count=900)  # beyond the memory
    b.store(pop=[ALU])  # a token that nobody sends, so nothing orders it after the first either
    b.fill(Memory.ACT, sram=3)
    b.store(sram=3)  # a race
    b.wait(GEMM, push=[LOAD])  # a token that nobody takes
    errors = find_errors(b.program())
    assert [(error.index, error.rule) for error in errors] == [
        (0, Rule.SEGMENT), (1, Rule.RANGE), (2, Rule.TOKEN_UNDERFLOW), (2, Rule.RACE_RAW),
        (4, Rule.RACE_RAW), (5, Rule.TOKEN_LEFTOVER),
    ]  # fmt: skip


def test_what_a_broken_instruction_writes_does_not_break_others() -> None:
    b = Builder()
    b.store(segment=3)  # reads act that nothing wrote, into the scratch segment
    b.load(Memory.ACT, segment=3, pop=[], sram=9)
    errors = find_errors(b.program())
    assert [(error.index, error.rule) for error in errors] == [(0, Rule.UNINITIALISED), (1, Rule.RACE_RAW)]


def test_in_order_there_are_neither_races_nor_distances() -> None:
    b = Builder()
    b.load(Memory.ACT)
    b.store()
    assert [error.rule for error in find_errors(b.program())] == [Rule.RACE_RAW]
    assert find_errors(b.program(), in_order=True) == []


def test_a_program_that_does_not_decode_has_one_error() -> None:
    size = instruction_width(PRESETS["tiny"]) // 8
    errors = find_errors(Program(PRESETS["tiny"], bytes(size - 1) + b"\x80", ()))
    assert [error.rule for error in errors] == [Rule.ENCODING]


def test_several_errors_are_listed_with_places_and_ways_out() -> None:
    b = Builder()
    b.load(Memory.ACT)
    b.store(push=[LOAD])
    errors = find_errors(b.program())
    error = IllegalProgram("copy", errors, ["copy.s:3", "copy.s:4"])
    assert error.details == tuple(str(error).split("\n")[:-1])
    assert error.details[0].startswith("copy.s:4: instruction 1 (STORE on store): ")
    assert all("; " in line for line in error.details)
    assert str(error).endswith("copy: breaks 2 rules")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    alone = IllegalProgram("copy", errors[:1])
    assert alone.details == ()
    assert str(alone).startswith("copy: instruction 1 (STORE on store): ")
