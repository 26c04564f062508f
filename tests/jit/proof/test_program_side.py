"""The program in the algebra is the program: equal symbols hold equal values, on random programs and Configs.

What the algebra calls equal must be equal for every input: elements of act, acc and DRAM with the same symbol hold the
same number in every run on the simulator. Numbers that depend on no input tie the two down completely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.verification.random_instructions import KIND_WEIGHTS
from tests.verification.random_program import Style, random_config, random_program, random_segments
from tests.verification.random_state import WRITTEN
from tilewright.config import PRESETS
from tilewright.isa import compiled
from tilewright.isa.arithmetic import wrap_int32
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.program import Program
from tilewright.isa.spec import AluOp, Memory, Opcode
from tilewright.jit.errors import Unfollowed
from tilewright.jit.proof.algebra import MAXSET, P
from tilewright.jit.proof.elements import residues
from tilewright.jit.proof.machine import Machine
from tilewright.jit.proof.program_side import ProgramSide, _run
from tilewright.sim import Functional
from tilewright.sim.state import Memories

RUNS = 4
LINEAR_KINDS = {"load": 6, "load_uops": 2, "fill": 2, "store": 3, "dense": 6, "window": 6, "wait": 1, "alu": 2}
NONLINEAR = (Opcode.REQUANTIZE, Opcode.RESCALE)


def followed(program: Program, known: Sequence[NDArray[np.uint8]] = ()) -> tuple[ProgramSide, Program]:
    """A symbolic run, and the program of the instructions that could be followed.

    ``known``: segments whose bytes stand for themselves, as does the zero that fills the memories then; what is not
    linear is left out, and what is no mistake of the algebra: products by large numbers, which leave the field though
    not int32, and LOADs of what was stored, which may shift rows of the batch into each other.
    """
    rng = np.random.default_rng(0)
    side = ProgramSide(program, [], {}, int(rng.integers(1 << 62)), rng)
    if known:
        side.machine.act[:] = 0
        side.machine.acc[:] = 0
        for base, content in zip(side.machine.base.tolist(), known, strict=True):
            if base >= 0:
                side.machine.dram[base : base + content.size] = content.view(np.int8)
    kept = []
    for n, instruction in enumerate(decode(program.instructions, program.config)):
        if known and _is_beyond(instruction, program.config.batch):
            continue
        try:
            side.run(n, n + 1)
            kept.append(instruction)
        except Unfollowed:
            continue
    return side, replace(program, instructions=encode(kept, program.config))


def _is_beyond(i: Instruction, batch: int) -> bool:
    product = i.opcode == Opcode.ALU and i["function"] == AluOp.MUL and (not i["use_imm"] or abs(i["imm"]) > 1)
    return product or i.opcode in NONLINEAR or (batch > 1 and i.opcode == Opcode.LOAD and i["segment"] in WRITTEN)


def row_0(values: NDArray[Any]) -> NDArray[np.int64]:
    """Batch row 0 of a memory (units, batch, lanes), as the algebra holds it."""
    return values[:, 0].reshape(-1).astype(np.int64)


def random_case(seed: int, weights: Mapping[str, int]) -> Program:
    rng = np.random.default_rng(seed)
    config = random_config(rng) if seed % 2 else list(PRESETS.values())[seed // 2 % len(PRESETS)]
    return random_program(rng, config, 60, Style("followed", weights, extra_tokens=0.0))


@pytest.mark.parametrize("seed", range(40))
def test_equal_symbols_hold_equal_values(seed: int) -> None:
    side, program = followed(random_case(seed, {**KIND_WEIGHTS, "alu": 1}))
    machine = side.machine
    symbols = np.concatenate([residues(machine.act), residues(machine.acc)])
    maxima = np.concatenate([np.zeros(machine.act.size, np.bool_), machine.kind == MAXSET])
    _, group = np.unique(np.stack([symbols, maxima]), axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    same = np.diff(group.ravel()[order]) == 0
    assert same.any()
    functional = Functional(program)
    for run in range(RUNS):
        functional.run(random_segments(np.random.default_rng(run), program))
        values = np.concatenate([row_0(functional.memory(m)) for m in (Memory.ACT, Memory.ACC)])[order]
        assert not (same & (np.diff(values) != 0)).any()


@pytest.mark.parametrize("seed", range(40))
def test_known_numbers_give_the_numbers_of_the_simulator(seed: int) -> None:
    """Linear programs on known bytes, modulo 2^32: addresses, loops, windows, wrap regions, rows of the batch."""
    made = random_case(seed, LINEAR_KINDS)
    segments = random_segments(np.random.default_rng(seed), made)
    side, program = followed(made, segments)
    functional = Functional(program)
    functional.run(segments)
    act, acc = (residues(v) for v in (side.machine.act, side.machine.acc))
    assert np.array_equal(np.where(act > P // 2, act - P, act), row_0(functional.memory(Memory.ACT)))
    written = row_0(functional.memory(Memory.ACC))
    assert np.array_equal(wrap_int32(np.where(acc > P // 2, acc - P, acc)), written)
    assert written.any()


@pytest.mark.parametrize("seed", range(20))
def test_interpreted_and_compiled_code_give_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a run leaves behind, bit by bit, and why an instruction cannot be followed."""
    monkeypatch.setattr(compiled, "PATIENCE_SECONDS", -1.0)
    program = random_case(seed, {**KIND_WEIGHTS, "alu": 2})
    kernel: Any = _run
    ends, machines = [], []
    for run in (kernel, kernel.interpret):
        side = ProgramSide(program, [], {}, 1 << 62, np.random.default_rng(seed))
        machine = side.machine
        ends.append([run(side.table[n : n + 1], n, machine, side.shape) for n in range(len(side.table))])
        machines.append([*machine._replace(memories=()), *machine.memories])  # type: ignore[arg-type]
    assert kernel.overloads
    assert ends[0] == ends[1]
    for name, one, other in zip((*Machine._fields, *Memories._fields), *machines, strict=True):
        if name != "constants":  # addresses
            assert np.array_equal(one, other), name
