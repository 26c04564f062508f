"""Several cores before one DRAM: as many instances of the RTL in step, and the simulator. Bytes, events, cycles equal.

The cores of a design share nothing but the DRAM, so instances of the one-core design are what the simulator times.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.program import Program
from tilewright.sim import Functional, Ran, Run, initial_segments, simulate_cores
from tilewright.verification.differential import seeded_config
from tilewright.verification.random_program import random_program

Memories = list[NDArray[np.uint8]]


def filled(program: Program, rng: np.random.Generator) -> Memories:
    memories = initial_segments(program)
    for segment, memory in zip(program.segments, memories):
        if segment.kind != "constant":
            memory[:] = rng.integers(0, 256, memory.size)
    return memories


def run_both(config: Config, seed: int, size: int, stall: int = 0) -> list[Ran]:
    """A random program on each core of both; asserts that nothing differs (with ``stall``: that no byte does)."""
    rng = np.random.default_rng(seed)
    programs = [random_program(rng, config, size) for _ in range(config.cores)]
    delays = rng.integers(0, 60, config.cores).tolist()
    ran = simulate_cores(config, [Run(c, p, delay=d) for c, (p, d) in enumerate(zip(programs, delays))])
    with ExitStack() as stack:
        drivers, found, expected = [], [], []
        for c, program in enumerate(programs):
            model = stack.enter_context(DesignModel(design_library(config.replace(cores=1)), config.dram_latency))
            model.disturb(Disturbance(stall=stall, seed=seed + c))
            drivers.append(Driver(model, config))
            memories = filled(program, rng)
            expected.append([m.copy() for m in memories])
            Functional(program).run(expected[-1])
            found.append(memories)
            drivers[-1].prepare(program, memories)
        limit = 100 * config.cores * sum(cycle_bound(p) for p in programs)
        Driver.run_together(drivers, config.dram_bandwidth, delays, limit)
        for driver, program, memories, wanted, sim in zip(drivers, programs, found, expected, ran):
            result, timing = driver.result(program), sim.timing
            assert timing is not None
            assert result.fault is None
            assert all(map(np.array_equal, memories, wanted))
            if not stall:
                assert result.dispatch.tolist() == timing.dispatch.tolist()
                assert result.issue.tolist() == timing.issue.tolist()
                assert result.retire.tolist() == timing.retire.tolist()
                assert result.cycles == timing.cycles
    return ran


def held(ran: list[Ran]) -> int:
    return sum(r.timing.held for r in ran if r.timing is not None)


@pytest.mark.parametrize("cores,bandwidth", [(2, 8), (4, 11), (8, 18)])
def test_tiny_cores_are_those_of_the_rtl(toolchain: None, cores: int, bandwidth: int) -> None:
    config = PRESETS["tiny"].replace(cores=cores, dram_bandwidth=bandwidth)
    assert sum(held(run_both(config, seed, 25)) for seed in range(6)) > 0


@pytest.mark.parametrize("config_seed", [11, 22, 37, 54])
def test_random_configs(toolchain: None, config_seed: int) -> None:
    config = seeded_config(config_seed)
    config = config.replace(cores=3, dram_bandwidth=2 * config.beat_bytes + config_seed % 4)
    assert sum(held(run_both(config, seed, 20)) for seed in range(4)) > 0


def test_random_stalls_change_no_byte(toolchain: None) -> None:
    config = PRESETS["tiny"].replace(cores=2, dram_bandwidth=8)
    for seed in range(4):
        run_both(config, seed, 25, stall=80)
