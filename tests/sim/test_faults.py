"""Programs that go wrong end with the right fault: what ran before stands, and nothing hangs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.build import DEFAULT, code, program, random_case, wait
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode, instruction_width
from tilewright.isa.timing import DONE_LATENCY, FAULT_LATENCY
from tilewright.sim import FaultCode, Functional, SimulationError, initial_segments, simulate, simulate_timing

L, G, A, S = Engine
ACT: dict[str, Any] = {"memory": int(Memory.ACT), "sram_col": 1, "wrap_size": 64}


def fill_and_store(value: int, offset: int) -> list[Instruction]:
    """Writes 16 bytes of ``value`` at beat ``offset`` of segment 0."""
    return [
        code(Opcode.FILL, push=[S], value=value, **ACT),
        code(Opcode.STORE, pop=[L], push=[L], sram_col=1, wrap_size=64, offset=offset),
        wait(L, 1, pop=[S]),
    ]


@pytest.mark.parametrize("bad", [
    code(Opcode.LOAD, cols=5, offset=1, **ACT),
    code(Opcode.LOAD, rows=3, stride=4, cols=1, **ACT),
    code(Opcode.LOAD, segment=3, **ACT),
    code(Opcode.STORE, offset=(1 << 28) - 1, sram_col=1, wrap_size=64),
])  # fmt: skip
def test_extent_outside_the_segment(bad: Instruction) -> None:
    made = program([*fill_and_store(7, 0), bad, *fill_and_store(9, 2)], DEFAULT, 64)
    segments = initial_segments(made)
    result = simulate(made, segments)
    assert result.fault is not None
    assert (result.fault.code, result.fault.instruction) == (FaultCode.SEGMENT, 3)
    assert "instruction 3" in result.fault.message
    np.testing.assert_array_equal(segments[0], [7] * 16 + [0] * 48)
    assert result.timing is not None
    assert (result.timing.retire[:3] > 0).all()
    assert result.timing.retire[3] == -1


def test_an_extent_that_just_fits_is_no_fault() -> None:
    made = program([code(Opcode.LOAD, rows=3, stride=3, cols=1, **ACT)], DEFAULT, 64)
    assert simulate(made, initial_segments(made)).fault is None


def test_the_first_fault_in_program_order_is_reported_even_if_a_later_one_issues_first() -> None:
    late = code(Opcode.STORE, pop=[A], offset=100, sram_col=1, wrap_size=64)
    soon = code(Opcode.LOAD, offset=100, **ACT)
    made = program([wait(A, 500, push=[S]), late, soon], DEFAULT, 64)
    timing = simulate_timing(made)
    assert timing.issue[2] < timing.issue[1]
    assert timing.fault is not None
    assert timing.fault.instruction == 1
    assert timing.cycles == timing.issue[1] + FAULT_LATENCY + DONE_LATENCY


def undecodable(made: Program, index: int) -> Program:
    """The program with every bit of one instruction set."""
    size = instruction_width(made.config) // 8
    data = bytearray(made.instructions)
    data[index * size : (index + 1) * size] = b"\xff" * size
    return Program(made.config, bytes(data), made.segments)


@pytest.mark.parametrize("index", [0, 3, 6])
def test_undecodable_instructions(index: int) -> None:
    made = undecodable(program([*fill_and_store(7, 0), *fill_and_store(9, 2), wait(G)], DEFAULT, 64), index)
    segments = initial_segments(made)
    result = simulate(made, segments)
    assert result.fault is not None
    assert (result.fault.code, result.fault.instruction) == (FaultCode.ILLEGAL, index)
    assert f"instruction {index}" in result.fault.message
    assert segments[0][0] == (7 if index >= 3 else 0)
    assert segments[0][16] == (9 if index >= 6 else 0)
    assert result.timing is not None
    assert result.timing.dispatch.size == 7
    assert (result.timing.dispatch >= 0).tolist() == [i < index for i in range(7)]


def test_a_truncated_program_ends_at_its_last_instruction() -> None:
    whole = program([*fill_and_store(7, 0), wait(G)], DEFAULT, 64)
    made = Program(DEFAULT, whole.instructions[:-5], whole.segments)
    segments = initial_segments(made)
    result = simulate(made, segments)
    assert result.fault is not None
    assert (result.fault.code, result.fault.instruction) == (FaultCode.ILLEGAL, 3)
    assert segments[0][:16].tolist() == [7] * 16
    assert result.timing is not None
    assert result.timing.fault == result.fault


def test_fill_of_weights_is_illegal() -> None:
    made = program([wait(L), code(Opcode.FILL, memory=Memory.WGT)])
    fault = simulate(made).fault
    assert fault is not None
    assert (fault.code, fault.instruction) == (FaultCode.ILLEGAL, 1)
    assert "WGT" in fault.message


def test_watchdog() -> None:
    made = program([wait(G, 1000, push=[A]), wait(A, 1, pop=[G])])
    cycles = simulate_timing(made).cycles
    assert simulate_timing(made, watchdog=cycles).fault is None
    late = simulate_timing(made, watchdog=cycles - 1)
    assert late.fault is not None
    assert late.fault.code == FaultCode.WATCHDOG
    assert late.cycles == cycles - 1
    early = simulate_timing(made, watchdog=200)
    assert early.cycles == 200
    assert early.retire.tolist() == [-1, -1]
    assert early.engines[A].tokens[G] > 100


@pytest.mark.parametrize("codes", [
    [wait(A, 1, pop=[G])],  # nobody pushes
    [wait(G, 1, pop=[A], push=[A]), wait(A, 1, pop=[G], push=[G])],  # each waits for the other
    [wait(G, 1, push=[A])],  # a token is left over
    [wait(A, 1, pop=[G])] + [wait(A)] * 100 + [wait(G, 1, push=[A])],  # the push is behind a full queue
])  # fmt: skip
def test_a_program_that_can_never_end_is_a_fault_not_a_hang(codes: list[Instruction]) -> None:
    result = simulate_timing(program(codes))
    assert result.fault is not None
    assert result.fault.code == FaultCode.WATCHDOG
    assert "never" in result.fault.message
    assert simulate_timing(program(codes), watchdog=5000).cycles == 5000


def test_functional_side_needs_fitting_segments() -> None:
    made = program(fill_and_store(7, 0), DEFAULT, 64)
    functional = Functional(made)
    good = np.zeros(64, np.uint8)
    assert functional.run([good]).fault is None
    frozen = np.zeros(64, np.uint8)
    frozen.flags.writeable = False
    cases: list[tuple[list[Any], str]] = [
        ([], "1 segments, 0 buffers"),
        ([good[:63]], "needs 64 bytes"),
        ([good.view(np.int8)], "uint8"),
        ([np.zeros(128, np.uint8)[::2]], "contiguous"),
        ([frozen], "read-only"),
    ]
    for buffers, message in cases:
        with pytest.raises(SimulationError, match=message):
            functional.run(buffers)


def test_constant_segments_may_be_read_only() -> None:
    data = np.arange(16, dtype=np.uint8)
    data.flags.writeable = False
    made = program([code(Opcode.LOAD, **ACT)], DEFAULT, data.tobytes())
    functional = Functional(made)
    functional.run([data])
    assert functional.memory(Memory.ACT)[0, 0].tolist() == list(range(16))


def test_each_side_alone() -> None:
    made = random_case(2)[1]
    segments = initial_segments(made)
    timed = simulate(made, timing=True, functional=False)
    computed = simulate(made, segments, timing=False)
    assert timed.functional is None
    assert timed.cycles > 0
    assert computed.functional is not None
    with pytest.raises(ValueError, match="timing=False"):
        _ = computed.cycles


def test_the_first_of_several_undecodable_instructions_is_named() -> None:
    codes = [wait(G)] * 300
    size = instruction_width(DEFAULT) // 8
    data = bytearray(encode(codes, DEFAULT))
    for index in (123, 124, 250):
        data[index * size : (index + 1) * size] = b"\xff" * size
    fault = simulate_timing(Program(DEFAULT, bytes(data), ())).fault
    assert fault is not None
    assert fault.instruction == 123
