"""The engines of the RTL one by one, and runs that do not go well, on the tiny config."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.hw.lane_programs import function_program, scaling_program, table_program
from tests.isa.build import ALU, CONSTANT, GEMM, LOAD, STORE, Builder
from tests.verification.random_program import random_program, random_segments
from tilewright.config import PRESETS
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.functions import AluOp, Rounding
from tilewright.isa.program import Program
from tilewright.isa.registers import FaultCode, register_map
from tilewright.isa.spec import Memory, Opcode, instruction_width
from tilewright.isa.verifier import verify
from tilewright.sim import simulate
from tilewright.sim.result import TimingResult

TINY = PRESETS["tiny"]
LIMIT = 1 << 18


@pytest.fixture(scope="module")
def driver(toolchain: None) -> Iterator[Driver]:
    with DesignModel(design_library(TINY, optimise=False), TINY.dram_latency, seed=3) as model:
        yield Driver(model, TINY)


def agree(driver: Driver, program: Program, seed: int = 0, watchdog: int | None = None) -> TimingResult:
    """Run on both; times, fault and (without a fault) bytes are equal."""
    before = random_segments(np.random.default_rng(seed), program)
    expected, found = [s.copy() for s in before], [s.copy() for s in before]
    timing = simulate(program, expected, watchdog=watchdog).timing
    assert timing is not None
    result = driver.run(program, found, limit=LIMIT, watchdog=watchdog or 0)
    if timing.fault is None:
        verify(program)
        assert result.fault is None
        for segment, a, b in zip(program.segments, expected, found):
            assert np.array_equal(a, b), segment.name
    else:
        assert (timing.fault.code, timing.cycles) == (result.fault, result.cycles)
        if timing.fault.instruction >= 0:
            assert timing.fault.instruction == result.fault_instruction
    assert result.cycles == timing.cycles
    for name in ("dispatch", "issue", "retire"):
        assert getattr(result, name).tolist() == getattr(timing, name).tolist(), name
    return timing


# -- engines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_scaling_of_extreme_values(driver: Driver, seed: int) -> None:
    agree(driver, scaling_program(seed), seed)


@pytest.mark.parametrize("function", list(AluOp))
@pytest.mark.parametrize("use_imm", [0, 1])
def test_functions_of_extreme_values(driver: Driver, function: AluOp, use_imm: int) -> None:
    agree(driver, function_program(function, use_imm))


def test_tables_of_all_values(driver: Driver) -> None:
    agree(driver, table_program(TINY)[0])


@pytest.mark.parametrize("window", [0, 1])
@pytest.mark.parametrize("pace", [0, 1])
def test_gemm_accumulates_at_every_distance(driver: Driver, window: int, pace: int) -> None:
    """Back-to-back accumulation to one address, and to addresses that return after two to six micro-ops."""
    rng = np.random.default_rng(7)
    b, units, entries, results = Builder(TINY), 64, 16, 16
    b.load(Memory.ACT, count=units)
    b.load(Memory.WGT, count=entries)
    b.fill(Memory.ACC, count=results, value=5)
    shifts = np.zeros((1, TINY.block_out, 4), "<i4")
    shifts[..., 1] = 1
    b.load(Memory.PRM, segment=CONSTANT, offset=b.constant(shifts.tobytes()))
    pattern = [d for distance in range(1, 7) for turn in range(3) for d in range(distance)]
    uops = [
        {"dst": d, "src": int(rng.integers(units)), "wgt": int(rng.integers(entries)),
         "accumulate": int(rng.random() < 0.9)}
        for d in pattern
    ]  # fmt: skip
    b.uops(GEMM, uops, push=[GEMM])
    b.uops(ALU, [{"dst": k, "src": k} for k in range(results)], push=[ALU])
    b.gemm(count=len(uops), inner=2, window=window, pace=pace, pop=[LOAD], push=[ALU])
    b.requantize(count=results, dst=units, rounding=Rounding.SINGLE, lo=-128, pop=[LOAD, GEMM], push=[STORE])
    b.store(count=results, sram=units, pop=[ALU])
    agree(driver, b.program(), seed=1)


def test_tiles_with_strides_wraps_and_narrow_values(driver: Driver) -> None:
    b = Builder(TINY)
    wrap: dict[str, Any] = {"wrap_base": 40, "wrap_size": 50}
    b.fill(Memory.ACT, count=50, value=9, **wrap)
    b.load(Memory.ACT, count=7, rows=5, sram=30, sram_row=9, stride=11, offset=3, **wrap)
    b.fill(Memory.ACT, count=3, rows=4, sram=2, sram_row=5, sram_col=2, value=-77, **wrap)
    b.load(Memory.ACC8, count=9, rows=2, sram=1, sram_row=20, stride=17, push=[STORE])
    b.load(Memory.ACT, count=40, sram=100, offset=5)
    b.wait(LOAD, 3, push=[STORE])
    b.store(count=10, rows=5, sram=5, sram_row=10, stride=13, offset=2, pop=[LOAD], **wrap)
    b.wait(STORE, 5, pop=[LOAD])
    b.store(count=40, sram=100, offset=200)
    agree(driver, b.program())


# -- runs that do not go well --------------------------------------------------------------------------


def random_run(seed: int) -> Program:
    return random_program(np.random.default_rng(1000 + seed), TINY, 20)


@pytest.mark.parametrize("seed", range(6))
def test_a_tile_outside_its_segment_ends_the_run(driver: Driver, seed: int) -> None:
    program = random_run(seed)
    instructions = decode(program.instructions, TINY)
    moves = [i for i, x in enumerate(instructions) if x.opcode in (Opcode.LOAD, Opcode.STORE)]
    at = moves[seed * len(moves) // 6]
    instructions[at] = Instruction(instructions[at].opcode, {**instructions[at].fields, "offset": (1 << 28) - 1})
    timing = agree(driver, dataclasses.replace(program, instructions=encode(instructions, TINY)))
    assert timing.fault is not None
    assert timing.fault.code == FaultCode.SEGMENT
    agree(driver, program)  # usable afterwards


@pytest.mark.parametrize("seed", range(4))
def test_an_undefined_instruction_ends_the_run(driver: Driver, seed: int) -> None:
    program = random_run(seed)
    size = instruction_width(TINY) // 8
    code = bytearray(program.instructions)
    code[(seed + 1) * len(code) // size // 5 * size - 1] |= 0x80
    timing = agree(driver, dataclasses.replace(program, instructions=bytes(code)))
    assert timing.fault is not None
    assert timing.fault.code == FaultCode.ILLEGAL
    agree(driver, program)


@pytest.mark.parametrize("watchdog", [1, 2, 60, 61, 100, 200, 333])
def test_the_watchdog_ends_a_run(driver: Driver, watchdog: int) -> None:
    program = random_run(watchdog)
    timing = agree(driver, program, watchdog=watchdog)
    assert timing.fault is not None
    agree(driver, program)


def test_a_token_that_nobody_takes_is_caught_by_the_watchdog(driver: Driver) -> None:
    b = Builder(TINY)
    b.wait(GEMM, push=[ALU])
    assert agree(driver, b.program(), watchdog=500).fault is not None
    b.wait(ALU, pop=[GEMM])
    assert agree(driver, b.program(), watchdog=500).fault is None


@pytest.mark.parametrize("how", [Disturbance(fail_read=3), Disturbance(fail_write=0)])
def test_a_bus_error_ends_the_run(driver: Driver, how: Disturbance) -> None:
    program = next(p for p in map(random_run, range(100)) if (p.table()["opcode"] == Opcode.STORE).sum() > 1)
    driver.model.disturb(how)
    result = driver.run(program, random_segments(np.random.default_rng(0), program), limit=LIMIT)
    assert result.fault == FaultCode.BUS
    driver.model.disturb(Disturbance())
    agree(driver, program)


def test_reset_and_abort_in_the_middle_of_a_run(driver: Driver) -> None:
    program = random_run(5)
    segments = random_segments(np.random.default_rng(0), program)
    for cycles in (10, 50, 150, 300):
        driver.start(program, segments)
        assert not driver.finish(cycles)
        driver.model.reset()
        agree(driver, program)
        driver.start(program, segments)
        assert not driver.finish(cycles)
        assert driver.abort()
        assert driver.result(program).fault == FaultCode.WATCHDOG
        agree(driver, program)


def test_repeats_advance_the_segments(driver: Driver) -> None:
    b = Builder(TINY, size=4096)
    b.load(Memory.ACT, count=32, push=[STORE])
    b.store(count=32, pop=[LOAD])
    program = b.program()
    strides = [0, 4096, 4096, 0]
    segments = tuple(dataclasses.replace(s, repeat_stride=n) for s, n in zip(program.segments, strides))
    program = dataclasses.replace(program, segments=segments)
    rng = np.random.default_rng(0)
    data = [rng.integers(0, 256, s.size if not s.repeat_stride else 3 * 4096).astype(np.uint8) for s in segments]
    result = driver.run(program, data, limit=LIMIT, repeat=3)
    assert (result.fault, result.completed) == (None, 3)
    for k in range(3):
        assert np.array_equal(data[1][4096 * k : 4096 * k + 128], data[2][4096 * k : 4096 * k + 128])
    timing = simulate(program, [d.copy() for d in data]).timing
    assert timing is not None
    assert result.cycles == timing.cycles


def test_an_empty_program_ends(driver: Driver) -> None:
    assert agree(driver, Builder(TINY).program()).cycles == 2


def test_registers_have_addresses_of_their_own() -> None:
    for config in PRESETS.values():
        registers = register_map(config)
        assert len({r.offset for r in registers}) == len({r.name for r in registers}) == len(registers)
        assert all(r.offset % 4 == 0 and r.bits <= 32 for r in registers)
