"""The verifier on a program of ResNet-18's size."""

from __future__ import annotations

import time

import pytest

from tests.isa.synthetic import ITERATIONS, resnet_sized
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Opcode, others, token_bit
from tilewright.isa.verifier import Rule, VerifyError, verify


@pytest.fixture(scope="module")
def program() -> Program:
    return resnet_sized()


def test_takes_well_under_a_second(program: Program) -> None:
    table = program.table()
    gemms = table[table["opcode"] == Opcode.GEMM]
    work = (gemms["uop_count"] * gemms["outer"] * gemms["inner"]).sum()
    assert work == 900 * ITERATIONS > 7_200_000
    assert program.instruction_count > 6000
    seconds = []
    for _ in range(3):
        start = time.process_time()
        verify(program)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0, f"took {min(seconds):.2f} s"  # about 0.4 s on a 2020s x86 core


def test_every_dropped_token_is_found() -> None:
    program = resnet_sized(tiles=12)
    instructions = decode(program.instructions, program.config)
    dropped = 0
    for index, victim in enumerate(instructions):
        for side in ("pop", "push"):
            for bit in (1, 2, 4):
                if victim[side] & bit:
                    changed = list(instructions)
                    changed[index] = Instruction(victim.opcode, {**victim.fields, side: victim[side] ^ bit})
                    with pytest.raises(VerifyError) as caught:
                        verify(Program(program.config, encode(changed, program.config), program.segments))
                    assert caught.value.rule in (Rule.TOKEN_UNDERFLOW, Rule.TOKEN_LEFTOVER)
                    dropped += 1
    assert dropped > 100


def test_every_dropped_order_is_found() -> None:
    """A token taken away at both ends leaves the counts right, and a race."""
    program = resnet_sized(tiles=6)
    instructions = decode(program.instructions, program.config)
    last = program.instruction_count - 6  # the six that follow only collect the last tokens
    tried = 0
    for source, target, push, pop in _matched_tokens(instructions):
        if target >= last:
            continue
        changed = list(instructions)
        a, b = changed[source], changed[target]
        changed[source] = Instruction(a.opcode, {**a.fields, "push": a["push"] ^ push})
        changed[target] = Instruction(b.opcode, {**b.fields, "pop": b["pop"] ^ pop})
        with pytest.raises(VerifyError) as caught:
            verify(Program(program.config, encode(changed, program.config), program.segments))
        assert caught.value.rule.startswith(("race", "bank")), caught.value
        tried += 1
    assert tried > 20


def _matched_tokens(instructions: list[Instruction]) -> list[tuple[int, int, int, int]]:
    """Of every token: pushing and popping instruction, push bit, pop bit."""
    queues: dict[tuple[Engine, Engine], list[int]] = {}
    matched = []
    for index, instruction in enumerate(instructions):
        engine = instruction.engine
        for other in others(engine):
            bit = token_bit(engine, other)
            if instruction["pop"] & bit:
                matched.append((queues[other, engine].pop(0), index, token_bit(other, engine), bit))
            if instruction["push"] & bit:
                queues.setdefault((engine, other), []).append(index)
    return matched
