"""Programs about one engine are legal, are about that engine, and show in DRAM what it did."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.verification.random_engine import random_engine_program
from tests.verification.random_program import random_config, random_segments
from tilewright.config import PRESETS
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode
from tilewright.isa.verifier import verify
from tilewright.sim import simulate

TINY = PRESETS["tiny"]
SIZE = 10


def outputs(program: Program) -> list[np.ndarray]:
    segments = random_segments(np.random.default_rng(0), program)
    assert simulate(program, segments).fault is None
    return segments


@pytest.mark.parametrize("engine", list(Engine))
def test_programs_are_legal_and_busy(engine: Engine) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        program = random_engine_program(rng, random_config(rng) if seed else TINY, engine, SIZE)
        verify(program)
        rows = program.table()
        mine = rows[(rows["engine"] == engine) & (rows["opcode"] != Opcode.WAIT)]
        assert len(mine) >= SIZE


@pytest.mark.parametrize("memory", [Memory.ACT, Memory.ACC, Memory.WGT, Memory.PRM, Memory.TABLE])
def test_what_is_loaded_is_shown(memory: Memory) -> None:
    """A LOAD from another place gives other bytes in DRAM, unless a later instruction overwrites what it wrote."""
    shown = 0
    for seed in range(12):
        program = random_engine_program(np.random.default_rng(seed), TINY, Engine.LOAD, SIZE)
        instructions = decode(program.instructions, TINY)
        loads = [i for i, x in enumerate(instructions) if x.opcode == Opcode.LOAD and x["memory"] == memory]
        if not loads:
            continue
        own = loads[0]
        old = instructions[own]
        instructions[own] = Instruction(old.opcode, {**old.fields, "offset": old["offset"] ^ 1})
        other = dataclasses.replace(program, instructions=encode(instructions, TINY))
        shown += any(not np.array_equal(a, b) for a, b in zip(outputs(program), outputs(other)))
    assert shown >= 3
