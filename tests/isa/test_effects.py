"""What effects say of every instruction, against the naive verifier's list of places, made one micro-op at a time."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.isa.naive_verifier import Place, places_of
from tests.verification.random_program import random_config, random_program
from tilewright.isa.codec import decode, rows_of
from tilewright.isa.effects import Access, effects, micro_ops, row_beats
from tilewright.isa.program import Program
from tilewright.isa.spec import FORMAT_OF, MEMORIES, UOP_MEMORY, Engine, Fields
from tilewright.isa.uops import UopMemories


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


def _visits(access: Access, row: Fields, program: Program) -> int:
    """How often an instruction reads or writes at an access: by rows and columns, loops, or once if a field alone says
    where."""
    if access.memory is None:
        return row.rows * int(row_beats(row, program.config))
    if not row.uop_count:
        return row.rows * row.cols
    if access.memory == UOP_MEMORY[Engine(row.engine)]:
        return row.uop_count
    fixed = {o.memory for o in FORMAT_OF[row.opcode].operands if o.fixed}
    turns = 1 if access.memory in fixed else row.outer * row.inner
    return turns * len(access.column.positions)


@pytest.mark.parametrize("seed", range(8))
def test_addresses_are_there_as_often_as_they_are_visited(seed: int) -> None:
    rng = np.random.default_rng([5, seed])
    program = random_program(rng, random_config(rng), 40)
    uops = UopMemories(program.config, program.segments)
    seen = set()
    for row in rows_of(program.table()):
        for access in effects(row, uops.step(row), program.config):
            assert access.addresses().size == _visits(access, row, program) * access.span, (row, access)
            seen.add(access.memory)
    assert len(seen) > 5
