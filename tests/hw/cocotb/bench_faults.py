"""Programs that go wrong end with the fault that the contract names, and the next program is right."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.bench import SEEDS, Bench, agree
from tests.hw.cocotb.programs import faulty, hanging, to_the_end
from tests.verification.random_program import random_program, random_segments
from tilewright.isa.program import Program
from tilewright.isa.registers import Control, FaultCode
from tilewright.isa.spec import Engine, Opcode

__all__ = [
    "a_fault_names_its_instruction", "a_hang_ends_by_abort", "a_hang_ends_by_watchdog",
    "a_segment_ends_with_its_last_beat", "registers_hold_still_while_a_program_runs",
]  # fmt: skip

NO_INSTRUCTION = (1 << 24) - 1
WATCHDOG = 900


def good(bench: Bench, seed: int) -> Program:
    """A legal random program."""
    return random_program(np.random.default_rng(700 + seed), bench.config, 12)


@cocotb.test()
@cocotb.parametrize(code=[FaultCode.SEGMENT, FaultCode.ILLEGAL])
async def a_fault_names_its_instruction(dut: Any, code: FaultCode) -> None:
    """An instruction out of its segment or undefined: its code and index, whatever the bus does; then a good run."""
    bench = await Bench.open(dut, seed=1)
    for seed in range(4 * len(SEEDS)):
        program, at = faulty(good(bench, seed), code, seed)
        bench.dram.pause(**({"r": 0.5, "w": 0.5, "b": 0.5} if seed % 2 else {}))
        outcome = await bench.run(program, random_segments(np.random.default_rng(seed), program))
        assert (outcome.fault, outcome.fault_instruction, outcome.completed) == (code, at, 0)
        await agree(bench, good(bench, seed), seed)


@cocotb.test()
async def a_segment_ends_with_its_last_beat(dut: Any) -> None:
    """A tile may use the last beat of its segment; one that needs one more faults, and writes nothing."""
    bench = await Bench.open(dut)
    await agree(bench, to_the_end(bench.config))
    for at, beyond in enumerate((Engine.LOAD, Engine.STORE)):
        program = to_the_end(bench.config, beyond)
        segments = random_segments(np.random.default_rng(at), program)
        before = segments[2].copy()
        outcome = await bench.run(program, segments)
        assert (outcome.fault, outcome.fault_instruction) == (FaultCode.SEGMENT, at)
        assert np.array_equal(segments[2], before)
        await agree(bench, to_the_end(bench.config), at)


@cocotb.test()
@cocotb.parametrize(engine=list(Engine))
async def a_hang_ends_by_watchdog(dut: Any, engine: Engine) -> None:
    """A wait for a token that cannot come ends in the watchdog's cycle and names no instruction."""
    bench = await Bench.open(dut)
    program = hanging(bench.config, engine)
    outcome = await bench.run(program, random_segments(np.random.default_rng(0), program), watchdog=WATCHDOG)
    assert outcome.fault == FaultCode.WATCHDOG
    assert (outcome.fault_instruction, outcome.cycles) == (NO_INSTRUCTION, WATCHDOG)
    await agree(bench, good(bench, int(engine)))


@cocotb.test()
async def a_hang_ends_by_abort(dut: Any) -> None:
    """Without a watchdog the program stays until ABORT is written; the token that was left is gone after it."""
    bench = await Bench.open(dut)
    program = hanging(bench.config, Engine.ALU)
    segments = random_segments(np.random.default_rng(0), program)
    await bench.start(program, segments)
    assert not await bench.finish(2000)
    await bench.write("CONTROL", 1 << Control.ABORT)
    assert await bench.finish(100)
    assert (await bench.outcome()).fault == FaultCode.WATCHDOG
    size = 8 * bench.config.act_unit_bytes
    assert np.array_equal(segments[1][:size], segments[2][:size]), "what came before the hang was done"
    await agree(bench, good(bench, 9))


@cocotb.test()
async def registers_hold_still_while_a_program_runs(dut: Any) -> None:
    """Only CONTROL can be written during a run; another START does nothing."""
    bench = await Bench.open(dut)
    program = hanging(bench.config, Engine.GEMM)
    await bench.start(program, random_segments(np.random.default_rng(0), program), watchdog=1500)
    for name in ("PROGRAM_LOW", "PROGRAM_INSTRUCTIONS", "SEGMENT1_LIMIT", "WATCHDOG"):
        before = await bench.read(name)
        await bench.write(name, before ^ 0x55)
        assert await bench.read(name) == before, name
    await bench.write("CONTROL", 1 << Control.START)
    assert await bench.finish()
    outcome = await bench.outcome()
    assert (outcome.fault, outcome.cycles) == (FaultCode.WATCHDOG, 1500)
    count = sum(x == Opcode.WAIT for x in program.table()["opcode"])
    assert await bench.read("GEMM_INSTRUCTIONS") == 0 < count, "the hanging WAIT never issued"
