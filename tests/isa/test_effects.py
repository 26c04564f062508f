"""What effects say of every instruction, against the naive verifier's list of places, made one micro-op at a time."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.isa.naive_verifier import Place, places_of
from tilewright.isa.codec import decode, rows_of
from tilewright.isa.effects import Access, effects, micro_ops
from tilewright.isa.program import Program
from tilewright.isa.spec import MEMORIES
from tilewright.isa.uops import UopMemories
from tilewright.verification.random_program import random_config, random_program


def _places(access: Access, program: Program) -> set[Place]:
    if access.memory is not None:
        name = MEMORIES[access.memory].name
    else:
        segment = program.segments[access.segment]
        name = "" if segment.kind in ("constant", "input") else segment.name
    visited = access.visits()
    if len(access.column.offsets) < len(access.column.column):  # micro-ops that do not use it are among them
        turns = np.arange(access.outer[0] * access.inner[0])[:, None] * len(access.column.column)
        visited = visited[(turns + access.column.positions).ravel()]
    return {(name, int(unit)) for unit in access.units(visited).ravel() if name}


@pytest.mark.parametrize("seed", range(16))
def test_regions_are_the_places_that_micro_ops_touch(seed: int) -> None:
    rng = np.random.default_rng([3, seed])
    program = random_program(rng, random_config(rng), 40)
    uops = UopMemories(program.config, program.segments)
    naive = places_of(program)
    for row, instruction, (reads, writes) in zip(
        rows_of(program.table()), decode(program.instructions, program.config), naive, strict=True
    ):
        assert instruction.row == row
        found = effects(row, uops.step(row), program.config)
        assert set().union(*(_places(a, program) for a in found if a.reads)) == reads
        assert set().union(*(_places(a, program) for a in found if a.writes)) == writes


@pytest.mark.parametrize("seed", range(4))
def test_micro_ops_are_those_of_every_turn_of_both_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng, random_config(rng), 20)
    counted = micro_ops(program.columns()).tolist()
    for count, code in zip(counted, decode(program.instructions, program.config), strict=True):
        if "uop_count" in code.fields:
            loops = (range(code[name]) for name in ("outer", "inner", "uop_count"))
            assert count == len(list(product(*loops)))
        else:
            assert count == 0
