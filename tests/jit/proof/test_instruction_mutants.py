"""One field of one instruction changed, at random: the program is refused, or exact all the same.

Tokens stay as they are, so what the verifier accepts is free of races: the proof alone stands between it and the user.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.jit.proof.cases import CASES, Case, Part, compiled_parts
from tests.jit.proof.test_mutations import EQUIVALENT, ESCAPED, PROOF, VERIFIER
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.spec import FORMAT_OF, Opcode
from tilewright.isa.verifier import VerifyError, verify
from tilewright.jit.errors import ProofError
from tilewright.jit.proof.values import check_values

DATA = (Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.REQUANTIZE, Opcode.RESCALE)
STEPS = (-16, -8, -4, -2, -1, 1, 2, 4, 8, 16)


def mutant(part: Part, rng: np.random.Generator) -> tuple[Part, str]:
    """A part with one field of one instruction changed, and which."""
    config = part.program.config
    instructions = decode(part.program.instructions, config)
    while True:
        number = int(rng.integers(len(instructions)))
        opcode = instructions[number].opcode
        if opcode not in DATA:
            continue
        field = FORMAT_OF[opcode].fields[int(rng.integers(len(FORMAT_OF[opcode].fields)))]
        value = instructions[number][field.name] + int(rng.choice(STEPS))
        low, high = field.bounds(config)
        if field.name == "pace" or not low <= value <= high:
            continue
        instructions[number] = Instruction(opcode, {**instructions[number].fields, field.name: value})
        program = replace(part.program, instructions=encode(instructions, config))
        return replace(part, program=program), f"{number} {opcode.name} {field.name} = {value}"


def outcome(part: Part) -> str:
    try:
        verify(part.program)
    except VerifyError:
        return VERIFIER
    try:
        part.prove()
    except ProofError:
        return PROOF
    try:
        check_values(part.graph, part.program, part.packs, part.unpacks)
        return EQUIVALENT
    except ProofError:
        return ESCAPED


def campaign(case: Case, count: int) -> Counter[str]:
    (part,) = compiled_parts(case.graph, case.config, case.keep)
    rng = np.random.default_rng(0)
    counts: Counter[str] = Counter()
    for _ in range(count):
        broken, what = mutant(part, rng)
        found = outcome(broken)
        assert found != ESCAPED, f"{case.name}: {what}"
        counts[found] += 1
    print(case.name, dict(counts))
    return counts


@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case.name)
def test_some(case: Case) -> None:
    assert campaign(case, 30)[PROOF] > 0


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_many(case: Case) -> None:
    counts = campaign(case, 400)
    assert counts[PROOF] > 20
    assert counts[VERIFIER] > 20
