"""Random programs on simulator and RTL: every byte, every instruction's times, every counter, the total.

``make test`` runs 200 programs on small configs, ``make test-all`` 2,000 on 20. A failure names its seeds:
``seeded_program(seeded_config(C), P, SIZE)`` is the program.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.verification.differential import Bench, Difference, seeded_config, seeded_program
from tilewright.config import PRESETS
from tilewright.hw.verilated.model import Disturbance
from tilewright.isa.program import Program
from tilewright.sim import SimResult

#: quick to build, and between them: packed and plain multipliers, non-square blocks, BATCH, narrow weights, two
#: bus widths, both versions of AXI (see `test_the_quick_configs_cover_the_parameters`)
QUICK_SEEDS = (11, 22, 37, 54)
QUICK_PROGRAMS, FULL_PROGRAMS, FULL_CONFIGS = 50, 100, 20


def failures(config_seed: int, seeds: range) -> list[Difference]:
    bench = Bench(seeded_config(config_seed))
    try:
        return [d for seed in seeds if (d := bench.compare_seed(config_seed, seed)) is not None]
    finally:
        bench.close()


@pytest.mark.parametrize("config_seed", QUICK_SEEDS)
def test_sim_and_rtl_agree(toolchain: None, config_seed: int) -> None:
    assert failures(config_seed, range(QUICK_PROGRAMS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("config_seed", range(FULL_CONFIGS))
def test_sim_and_rtl_agree_in_full(toolchain: None, config_seed: int) -> None:
    assert failures(config_seed, range(1000, 1000 + FULL_PROGRAMS)) == []


def test_the_quick_configs_cover_the_parameters() -> None:
    configs = [seeded_config(seed) for seed in QUICK_SEEDS]
    assert {c.dsp_packing for c in configs} == {False, True}
    assert any(c.block_in > c.block_out for c in configs)
    assert any(c.block_in < c.block_out for c in configs)
    assert any(c.batch > 1 for c in configs)
    assert any(c.weight_bits < 8 for c in configs)
    assert len({c.axi_bits for c in configs}) >= 2
    assert {c.axi_version for c in configs} == {3, 4}


def test_bytes_stay_equal_whatever_the_dram_does(toolchain: None) -> None:
    """The cycle contract does not cover random stalls; the values do not depend on them."""
    bench = Bench(PRESETS["tiny"])
    try:
        found = [
            bench.compare(*seeded_program(bench.config, seed), Disturbance(stall=stall, seed=seed + 1))
            for seed in range(15)
            for stall in (30, 180)
        ]
    finally:
        bench.close()
    assert found == [None] * len(found)


def test_a_difference_is_found_and_told_with_its_seeds(toolchain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: a simulator that is a cycle late must not pass."""
    from tests.verification import differential

    real = differential.simulate

    def late(program: Program, segments: list[NDArray[np.uint8]]) -> SimResult:
        result = real(program, segments)
        assert result.timing is not None
        result.timing.retire[-1] += 1
        return result

    bench = Bench(PRESETS["tiny"])
    monkeypatch.setattr(differential, "simulate", late)
    try:
        difference = bench.compare_seed(7, 3)
    finally:
        bench.close()
    assert difference is not None
    assert (difference.config_seed, difference.program_seed, difference.size) == (7, 3, 1)
    assert "retire at" in difference.text
