"""Cores with two memory ports on the RTL and on the simulator: bytes, events, cycles, counters equal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.isa.build import PAIRED
from tests.verification.differential import Bench, seeded_program
from tests.verification.test_cores import contending, held, run_both, run_design
from tilewright.config import Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.registers import FaultCode

#: another shape: words of 64 bits, AXI3, short bursts, few in flight
OTHER = PAIRED.replace(
    name="paired-64",
    axi_version=3,
    axi_bits=64,
    block_in=16,
    block_out=16,
    burst_beats=4,
    outstanding=2,
    dram_latency=7,
)


def bench(config: Config) -> Iterator[Bench]:
    made = Bench(config, optimise=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def paired(toolchain: None) -> Iterator[Bench]:
    yield from bench(PAIRED)


def test_random_programs(paired: Bench) -> None:
    for seed in range(30):
        assert paired.compare_seed(0, seed) is None


@pytest.mark.parametrize("stall", [20, 90, 200])
def test_ports_that_lag_behind_each_other_change_no_byte(paired: Bench, stall: int) -> None:
    for seed in range(5):
        text = paired.compare(*seeded_program(PAIRED, 100 * stall + seed), Disturbance(stall=stall, seed=seed))
        assert text is None


@pytest.mark.parametrize("which", ["fail_read", "fail_write"])
def test_an_error_of_one_port_ends_the_run(paired: Bench, which: str) -> None:
    program, segments = seeded_program(PAIRED, 1)
    memories = [paired.order.arranged(s) for s in segments]
    paired.model.disturb(Disturbance(**{which: 1}))
    result = paired.driver.run(program, memories, limit=2 * cycle_bound(program))
    assert result.fault is FaultCode.BUS
    assert paired.compare_seed(0, 1) is None, "and the next run is sound"


def test_the_program_is_that_of_one_port_twice_as_wide() -> None:
    """Beats are what instructions and times count in; so programs for either have the same of both."""
    wide = PAIRED.replace(axi_ports=1, axi_bits=2 * PAIRED.axi_bits)
    assert (wide.beat_bytes, wide.fingerprint != PAIRED.fingerprint) == (PAIRED.beat_bytes, True)
    assert seeded_program(wide, 3)[0].instructions == seeded_program(PAIRED, 3)[0].instructions


def test_two_cores_under_a_limit(toolchain: None) -> None:
    two = PAIRED.replace(cores=2, dram_bandwidth=2 * PAIRED.beat_bytes + 3)
    assert all(held(run_both(two, seed, 25)) for seed in contending(two, 25, 2))


@pytest.mark.slow
def test_another_shape(toolchain: None) -> None:
    for made in bench(OTHER):
        for seed in range(60):
            assert made.compare_seed(0, seed) is None
            assert made.compare(*seeded_program(OTHER, 1000 + seed), Disturbance(stall=90, seed=seed)) is None


@pytest.mark.slow
def test_one_design_of_two_cores_with_four_ports(toolchain: None) -> None:
    two = PAIRED.replace(cores=2, dram_bandwidth=2 * PAIRED.beat_bytes)
    with DesignModel(design_library(two), two.dram_latency, seed=5) as model:
        assert sum(held(run_design(model, two, seed, 25)) for seed in contending(two, 25, 8)) > 0
        for seed in range(4):
            run_design(model, two, seed, 25, stall=80)
