"""Cores that exchange through shared memory and doorbells: one design of the RTL, the simulator and its naive twin."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.hw.cocotb.mutants import Mutant
from tests.verification.random_exchange import random_exchange
from tests.verification.test_cores import TWO, agree, bound, filled
from tilewright.config import Config
from tilewright.hw.rtl.generate import generate_verilog
from tilewright.hw.verilated.build import build_library
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.registers import Control, FaultCode
from tilewright.isa.spec import Engine, Opcode
from tilewright.isa.verifier import joint_order, verify_together
from tilewright.sim import Functional, Run, run_together, simulate_cores

Memories = list[NDArray[np.uint8]]


@pytest.fixture(scope="module")
def design(toolchain: None) -> Iterator[DesignModel]:
    with DesignModel(design_library(TWO), TWO.dram_latency, seed=9) as model:
        yield model


def joined(programs: list[Program], rng: np.random.Generator) -> list[Memories]:
    """Segments of all cores, filled at random; those of one name that they share are one memory."""
    memories = [filled(program, rng) for program in programs]
    shared: dict[str, NDArray[np.uint8]] = {}
    return [
        [shared.setdefault(s.name, m) if s.kind == "shared" else m for s, m in zip(program.segments, own)]
        for program, own in zip(programs, memories)
    ]


def start(
    model: DesignModel, config: Config, programs: list[Program], memories: list[Memories], seed: int
) -> list[int]:
    """Start all cores, in some order; in which cycle each has started, from the first."""
    drivers = [Driver(model, config, core) for core in range(config.cores)]
    drivers[0].write("DOORBELLS", 0)
    for driver, program, own in zip(drivers, programs, memories):
        driver.prepare(program, own, watchdog=1_000_000)
    for core in np.random.default_rng(seed).permutation(config.cores):
        drivers[core].write("CONTROL", 1 << Control.START)
    for driver, program in zip(drivers, programs):
        assert driver.finish(bound(programs)), program
    starts = [model.started(core) for core in range(config.cores)]
    return [cycle - min(starts) for cycle in starts]


def run_both(model: DesignModel, config: Config, seed: int, moves: int, stall: int = 0) -> None:
    """Random programs that exchange; bytes are those of the functional simulator, without stalls all events too."""
    rng = np.random.default_rng(seed)
    programs = random_exchange(rng, config, moves)
    verify_together(programs)
    expected = joined(programs, rng)
    order = DramOrder(config)
    kept: dict[int, NDArray[np.uint8]] = {}
    found = [[kept.setdefault(id(m), order.arranged(m)) for m in own] for own in expected]
    run_together([Functional(program) for program in programs], expected, joint_order(programs).turns)
    model.disturb(Disturbance(stall=stall, seed=seed))
    model.limit(config.dram_bandwidth)
    delays = start(model, config, programs, found, seed)
    ran = simulate_cores(config, [Run(c, p, delay=d) for c, (p, d) in enumerate(zip(programs, delays))])
    for core, (program, memories, wanted, sim) in enumerate(zip(programs, found, expected, ran)):
        driver = Driver(model, config, core)
        result = driver.result(program)
        agree(config, result, memories, wanted, sim, exact=not stall)
        if not stall:
            assert sim.timing is not None
            for engine in Engine:
                assert result.counters[f"{engine.name}_DRAIN"] == sim.timing.engines[engine].drain
    assert Driver(model, config).read("DOORBELLS") == 0


def test_cores_that_exchange_are_what_the_simulator_times(design: DesignModel) -> None:
    for seed in range(8):
        run_both(design, TWO, seed, 10)
    for seed in range(3):
        run_both(design, TWO.replace(dram_bandwidth=0), seed, 10)


def test_random_stalls_change_no_byte_of_an_exchange(design: DesignModel) -> None:
    for seed in range(6):
        run_both(design, TWO, seed, 12, stall=80)


def waits(*masks: tuple[Engine, str, int]) -> Program:
    code = [Instruction(Opcode.WAIT, {"engine": int(engine), name: mask}) for engine, name, mask in masks]
    return Program(TWO, encode(code, TWO), ())


def test_a_core_that_hears_nothing_ends_with_its_watchdog_and_leaves_nothing_behind(design: DesignModel) -> None:
    design.disturb(Disturbance())
    rings, hears = waits(*[(Engine.STORE, "ring", 2)] * 3), waits(*[(Engine.LOAD, "hear", 1)] * 4)
    start(design, TWO, [rings, hears], [[], []], 0)
    drivers = [Driver(design, TWO, core) for core in range(2)]
    results = [driver.result(program) for driver, program in zip(drivers, (rings, hears))]
    assert [result.fault for result in results] == [None, FaultCode.WATCHDOG]
    start(design, TWO, [rings, waits((Engine.LOAD, "hear", 1))], [[], []], 1)
    assert drivers[0].read("DOORBELLS") == 2
    assert [driver.result(program).fault for driver, program in zip(drivers, (rings, hears))] == [None, None]
    run_both(design, TWO, 5, 4)


BROKEN = (
    Mutant(
        "a doorbell is there a cycle early", "", "", "", "doorbells", "Doorbells", ("cores",),
        "m.d.sync += [Cat(came)", "m.d.comb += [Cat(came)",
    ),
    Mutant(
        "a doorbell that was heard stays", "", "", "", "doorbells", "Doorbells", ("cores",),
        "present.eq(pushed | (count != 1))", "present.eq(1)",
    ),
    Mutant(
        "a core rings before all is written", "", "", "", "store", "Store", ("top",),
        "(waiting & ~wait_end)) & channel.quiet", "(waiting & ~wait_end))",
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_broken_doorbells_are_noticed(toolchain: None, mutant: Mutant) -> None:
    with mutant.applied():
        library = build_library(generate_verilog(TWO))
    with DesignModel(library, TWO.dram_latency, seed=9) as model, pytest.raises(AssertionError):
        several(model)


def several(model: DesignModel) -> None:
    for seed in range(4):
        run_both(model, TWO, seed, 10)
