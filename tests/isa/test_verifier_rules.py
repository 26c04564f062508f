"""Each legality rule: a minimal program that breaks it, and its legal twin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.isa.build import CONSTANT, GEMM, LOAD, compute
from tests.isa.rules import CASES, JOINT, PACKED, Case, JointCase, engine, fields, races
from tilewright.isa.spec import Memory
from tilewright.isa.verifier import Rule, VerifyError, verify, verify_together


@pytest.mark.parametrize("rule,name,build", CASES, ids=[f"{rule}-{name}" for rule, name, _ in CASES])
def test_illegal_program_is_rejected_and_its_legal_twin_is_not(rule: Rule, name: str, build: Case) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(build(False))
    assert caught.value.rule == rule, caught.value
    message = str(caught.value)
    assert "\n" not in message
    assert f"{rule}: " in message
    assert message.startswith("program: " if caught.value.index is None else f"instruction {caught.value.index} (")
    verify(build(True))


@pytest.mark.parametrize("rule,name,build", JOINT, ids=[f"{rule}-{name}" for rule, name, _ in JOINT])
def test_illegal_programs_of_two_cores_are_rejected_together(rule: Rule, name: str, build: JointCase) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_together(build(False))
    assert caught.value.rule == rule, caught.value
    assert f"{rule}: " in str(caught.value)
    assert str(caught.value).startswith("core ")
    verify_together(build(True))


def test_every_rule_has_a_case_and_a_sentence() -> None:
    assert {rule for rule, _, _ in CASES} | {rule for rule, _, _ in JOINT} == set(Rule)
    assert all(rule.doc.endswith(".") for rule in Rule)


def test_message_names_address_and_the_other_instruction() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(races.gemm_onto_acc_being_filled(False))
    assert str(caught.value) == (
        "instruction 10 (GEMM on gemm): race-waw: writes acc unit 20, which instruction 9 (FILL on load) writes, "
        "and no token orders it after that"
    )


@pytest.mark.parametrize("cases,check", [(CASES, verify), (JOINT, verify_together)], ids=["one", "several"])
def test_every_message_says_what_is_wrong(
    cases: Sequence[tuple[Rule, str, Callable[[bool], Any]]], check: Callable[[Any], object]
) -> None:
    """Numbers, names and verbs: ``rules/messages.txt`` was read against the programs, case by case."""
    kept = dict(line.split(": ", 1) for line in (Path(__file__).parent / "rules/messages.txt").read_text().splitlines())
    assert set(kept) == {name for _, name, _ in CASES} | {name for _, name, _ in JOINT}
    for _, name, build in cases:
        with pytest.raises(VerifyError) as caught:
            check(build(False))
        assert str(caught.value) == kept[name], name


def test_given_segment_sizes_replace_the_programs() -> None:
    program = fields.load_past_the_segment(True)
    sizes = [s.size for s in program.segments]
    verify(program, sizes)
    with pytest.raises(VerifyError) as caught:
        verify(program, [*sizes[:1], 60, *sizes[2:]])
    assert caught.value.rule == Rule.EXTENT
    with pytest.raises(VerifyError, match="segment sizes given"):
        verify(program, sizes[:1])


def test_segment_content_beyond_the_data_is_zero() -> None:
    b = compute()
    b.load(Memory.UOP_GEMM, segment=CONSTANT, count=1, sram=5, offset=0, push=[GEMM])
    b.gemm(pop=[LOAD], uop_begin=5)
    program = b.program()
    short = dataclasses.replace(program.segments[0], data=b"")
    verify(dataclasses.replace(program, segments=(short, *program.segments[1:])))


def test_instructions_need_no_distance_between_their_emits() -> None:
    b = engine.window(PACKED, [True])
    b.gemm(count=1, window=1)
    b.gemm(count=1)
    verify(b.program())
