"""Several cores before one DRAM, on the RTL and on the simulator. Bytes, events, cycles equal.

The RTL is a design of two cores with its one register window and one interrupt line; and, for more shapes than can be
built in a test's time, instances of a one-core design in step: the cores of a design share nothing but the DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.verification.differential import seeded_config
from tests.verification.random_program import random_program
from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver, RunResult
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel, Disturbance, ModelError
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.registers import CORE_STRIDE, SHARED_BASE, Control, window_bits
from tilewright.sim import Functional, Ran, Run, initial_segments, simulate_cores

Memories = list[NDArray[np.uint8]]


def filled(program: Program, rng: np.random.Generator) -> Memories:
    memories = initial_segments(program)
    for segment, memory in zip(program.segments, memories):
        if segment.kind != "constant":
            memory[:] = rng.integers(0, 256, memory.size)
    return memories


def pair(config: Config, seed: int, size: int) -> tuple[list[Program], list[Memories], list[Memories]]:
    """A random program for each core, its segments as the DRAM has them, and what they hold when it has run."""
    rng = np.random.default_rng(seed)
    programs = [random_program(rng, config, size) for _ in range(config.cores)]
    expected, order = [filled(program, rng) for program in programs], DramOrder(config)
    found = [[order.arranged(m) for m in memories] for memories in expected]
    for program, memories in zip(programs, expected):
        Functional(program).run(memories)
    return programs, found, expected


def simulated(config: Config, programs: list[Program], delays: list[int]) -> list[Ran]:
    return simulate_cores(config, [Run(c, p, delay=d) for c, (p, d) in enumerate(zip(programs, delays))])


def agree(config: Config, result: RunResult, memories: Memories, wanted: Memories, sim: Ran, exact: bool) -> None:
    """Assert that nothing differs; without ``exact`` that no byte does. ``memories`` are as the DRAM has them."""
    assert result.fault is None
    order = DramOrder(config)
    assert all(np.array_equal(order.read(m, 0, w.size), w) for m, w in zip(memories, wanted, strict=True))
    if exact:
        timing = sim.timing
        assert timing is not None
        assert result.dispatch.tolist() == timing.dispatch.tolist()
        assert result.issue.tolist() == timing.issue.tolist()
        assert result.retire.tolist() == timing.retire.tolist()
        assert result.cycles == timing.cycles


def start_delays(config: Config, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 60, config.cores).tolist()


def contending(config: Config, size: int, count: int) -> list[int]:
    """The first seeds whose programs the DRAM's limit holds up, which is what the tests are about, by the simulator."""
    found = (s for s in range(200) if held(simulated(config, pair(config, s, size)[0], start_delays(config, s))))
    seeds = list(islice(found, count))
    assert len(seeds) == count
    return seeds


def run_both(config: Config, seed: int, size: int) -> list[Ran]:
    """A random program on each of as many designs as there are cores, and on the simulator."""
    programs, found, expected = pair(config, seed, size)
    delays = start_delays(config, seed)
    ran = simulated(config, programs, delays)
    alone = config.replace(cores=1)
    with ExitStack() as stack:
        models = [stack.enter_context(DesignModel(design_library(alone), config.dram_latency)) for _ in programs]
        drivers = [Driver(model, alone) for model in models]
        for driver, program, memories in zip(drivers, programs, found):
            driver.prepare(program, memories)
        Driver.run_together(drivers, config.dram_bandwidth, delays, bound(programs))
        for driver, program, memories, wanted, sim in zip(drivers, programs, found, expected, ran):
            agree(config, driver.result(program), memories, wanted, sim, exact=True)
    return ran


def bound(programs: list[Program]) -> int:
    return 100 * len(programs) * sum(cycle_bound(p) for p in programs)


def held(ran: list[Ran]) -> int:
    return sum(r.timing.held for r in ran if r.timing is not None)


@pytest.mark.parametrize("cores,bandwidth", [(2, 8), (4, 11), (8, 18)])
def test_tiny_cores_are_those_of_the_rtl(toolchain: None, cores: int, bandwidth: int) -> None:
    config = PRESETS["tiny"].replace(cores=cores, dram_bandwidth=bandwidth)
    assert all(held(run_both(config, seed, 25)) for seed in contending(config, 25, 6))


@pytest.mark.parametrize("config_seed", [11, 22, 37, 54])
def test_random_configs(toolchain: None, config_seed: int) -> None:
    config = seeded_config(config_seed)
    config = config.replace(cores=3, dram_bandwidth=2 * config.beat_bytes + config_seed % 4)
    assert all(held(run_both(config, seed, 20)) for seed in contending(config, 20, 4))


# -- one design of two cores ------------------------------------------------------------------------------------

TWO = PRESETS["tiny"].replace(cores=2, dram_bandwidth=8)


@pytest.fixture(scope="module")
def design(toolchain: None) -> Iterator[DesignModel]:
    with DesignModel(design_library(TWO), TWO.dram_latency, seed=5) as model:
        yield model


def run_design(model: DesignModel, config: Config, seed: int, size: int, stall: int = 0) -> list[Ran]:
    """A random program on each core of one design, started one register write after another."""
    programs, found, expected = pair(config, seed, size)
    drivers = [Driver(model, config, core) for core in range(config.cores)]
    model.disturb(Disturbance(stall=stall, seed=seed))
    model.limit(config.dram_bandwidth)
    for driver, program, memories in zip(drivers, programs, found):
        driver.prepare(program, memories)
    for core in np.random.default_rng(seed).permutation(config.cores):
        drivers[core].write("CONTROL", 1 << Control.START)
    results = []
    for driver, program in zip(drivers, programs):
        assert driver.finish(bound(programs))
        results.append(driver.result(program))
    starts = [model.started(core) for core in range(config.cores)]
    assert starts[0] != starts[1]
    ran = simulated(config, programs, [start - min(starts) for start in starts])
    for result, memories, wanted, sim in zip(results, found, expected, ran):
        agree(config, result, memories, wanted, sim, exact=not stall)
    assert drivers[0].read("INTERRUPTS") == 0
    return ran


def test_a_design_of_two_cores_is_what_the_simulator_times(design: DesignModel) -> None:
    assert sum(held(run_design(design, TWO, seed, 25)) for seed in contending(TWO, 25, 8)) > 0
    free = TWO.replace(dram_bandwidth=0)
    assert sum(held(run_design(design, free, seed, 25)) for seed in range(2)) == 0


def test_random_stalls_change_no_byte(design: DesignModel) -> None:
    for seed in range(4):
        run_design(design, TWO, seed, 25, stall=80)


def test_every_core_has_registers_of_its_own(design: DesignModel) -> None:
    drivers = [Driver(design, TWO, core) for core in range(2)]
    for core, driver in enumerate(drivers):
        driver.write("SEGMENT3_LIMIT", 1000 + core)
    assert [driver.read("SEGMENT3_LIMIT") for driver in drivers] == [1000, 1001]
    assert [driver.read("CORES") for driver in drivers] == [2, 2]
    for name in ("CORES", "INTERRUPTS"):
        drivers[0].write(name, 0xFFFFFFFF)
    assert (drivers[0].read("CORES"), drivers[0].read("INTERRUPTS")) == (2, 0)
    for address in (2 * CORE_STRIDE, 7 * CORE_STRIDE + 0x10, SHARED_BASE + 12, (1 << window_bits(TWO)) - 4):
        design.write(address, 1)
        assert design.read(address) == 0


def test_the_interrupt_says_whose_it_is(design: DesignModel) -> None:
    drivers = [Driver(design, TWO, core) for core in range(2)]
    program, *_ = pair(TWO, 3, 10)[0]
    for first, second in (drivers, drivers[::-1]):
        for driver in drivers:
            driver.prepare(program, initial_segments(program))
        first.write("CONTROL", 1 << Control.START)
        assert first.finish(bound([program]))
        assert first.read("INTERRUPTS") == 1 << first.core
        second.write("CONTROL", 1 << Control.START)
        assert second.finish(bound([program]))
        assert first.read("INTERRUPTS") == 3
        first.result(program)
        assert first.read("INTERRUPTS") == 1 << second.core
        assert design.run(1)
        second.result(program)
        assert first.read("INTERRUPTS") == 0
        assert not design.run(100)


def test_a_design_of_another_number_of_cores_is_refused(design: DesignModel) -> None:
    with pytest.raises(ModelError, match="the design has 2 cores, its config 1"):
        Driver(design, TWO.replace(cores=1))
