"""The verifier on random programs: legal ones pass, and mutated ones get the verdict of the naive verifier."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from tests.isa.naive_verifier import broken_rules
from tests.verification.random_program import random_config, random_program
from tilewright.config import PRESETS, Config
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.program import Program
from tilewright.isa.spec import FORMAT_OF, Field, Opcode
from tilewright.isa.verifier import Rule, VerifyError, verify

_MOST_VECTORS = 3000  #: a mutated loop may not keep the naive verifier busy for longer
_PRESETS = ("tiny", "pynq-z2", "kv260")
_WIDE = Config.from_dict({"name": "wide", "batch": 2, "block_in": 8, "block_out": 32, "axi_bits": 128})


def _config(rng: np.random.Generator, seed: int) -> Config:
    choices = [*(PRESETS[name] for name in _PRESETS), _WIDE]
    return choices[seed % 8] if seed % 8 < len(choices) else random_config(rng)


def _verdict(program: Program) -> tuple[Rule | None, int | None]:
    try:
        verify(program)
    except VerifyError as error:
        return error.rule, error.index
    return None, None


@pytest.mark.parametrize("seed", range(24))
def test_random_legal_programs_are_accepted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng, _config(rng, seed), size=40)
    verify(program)
    assert broken_rules(program) == (set(), set())


def _mutate(rng: np.random.Generator, program: Program) -> Program | None:
    """One small change; None if it would take too long to check naively."""
    config = program.config
    instructions = decode(program.instructions, config)
    k = int(rng.integers(len(instructions)))
    kind = rng.choice(["token", "field", "step", "swap", "drop", "uop"], p=[0.2, 0.2, 0.35, 0.1, 0.1, 0.05])
    victim = instructions[k]
    if kind == "token":
        side = str(rng.choice(["pop", "push"]))
        bits = [bit for bit in (1, 2, 4) if victim[side] & bit] or [1, 2, 4]
        instructions[k] = Instruction(victim.opcode, {**victim.fields, side: victim[side] ^ int(rng.choice(bits))})
    elif kind in ("field", "step"):
        spec: Field = FORMAT_OF[victim.opcode].fields[int(rng.integers(len(FORMAT_OF[victim.opcode].fields)))]
        low, high = spec.bounds(config)
        near = victim[spec.name] + int(rng.integers(-2, 3))
        value = int(rng.integers(low, high + 1)) if kind == "field" else min(max(near, low), high)
        instructions[k] = Instruction(victim.opcode, {**victim.fields, spec.name: value})
    elif kind == "swap" and k:
        instructions[k - 1], instructions[k] = instructions[k], instructions[k - 1]
    elif kind == "drop":
        del instructions[k]
    elif kind == "uop":
        data = bytearray(program.segments[0].data or b"")
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        segment = dataclasses.replace(program.segments[0], data=bytes(data))
        program = dataclasses.replace(program, segments=(segment, *program.segments[1:]))
    if any(_work(i) > _MOST_VECTORS for i in instructions):
        return None
    return dataclasses.replace(program, instructions=encode(instructions, config))


def _work(i: Instruction) -> int:
    if i.opcode in (Opcode.LOAD, Opcode.STORE, Opcode.FILL):
        return i["rows"] * i["cols"]
    return 0 if i.opcode == Opcode.WAIT else i["outer"] * i["inner"] * i["uop_count"]


def _compare(seeds: range, mutants: int) -> Counter[Rule | None]:
    seen: Counter[Rule | None] = Counter()
    for seed in seeds:
        rng = np.random.default_rng([7, seed])
        program = random_program(rng, _config(rng, seed), size=24)
        for _ in range(mutants):
            mutant = _mutate(rng, program)
            if mutant is None:
                continue
            (verdict, index), (naive, given_up) = _verdict(mutant), broken_rules(mutant)
            if verdict is None:
                assert not naive, (seed, naive)
            else:
                assert verdict in naive or (naive and index in given_up), (seed, verdict, index, naive)
            seen[verdict] += 1
    return seen


def test_mutants_get_the_naive_verdict() -> None:
    seen = _compare(range(12), mutants=12)
    assert seen[None] < sum(seen.values()) * 0.7, seen  # many changes are harmless: clamps, constants, a trace bit
    assert len(seen) >= 6, seen


@pytest.mark.slow
def test_many_mutants_get_the_naive_verdict() -> None:
    seen = _compare(range(1000, 1120), mutants=20)
    # what a small change to a legal program of one core can break; the rarest may be missing
    rules = [rule for rule in Rule if not rule.value.startswith("doorbell")]
    assert len(set(seen) - {None}) >= len(rules) - 6, seen
