"""The simulator is fast enough to compile by and to test with; bench/bench_sim_speed.py has the real numbers."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from bench.resnet8_like import resnet8_like
from tests.sim.naive_timing import NaiveTiming
from tilewright.config import PRESETS
from tilewright.isa.verifier import verify
from tilewright.sim import Functional, initial_segments, simulate_timing
from tilewright.sim.reference import Reference


def best_seconds(call: Callable[[], object], runs: int = 10) -> float:
    """Least processor time of a call after one to warm up: other processes do not count."""
    call()
    times = []
    for _ in range(runs):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def test_resnet8_like_program_is_legal_and_has_the_shapes_of_resnet8() -> None:
    made = resnet8_like(PRESETS["pynq-z2"])
    verify(made)
    result = Functional(made).run(initial_segments(made))
    macs = 256 * (2048 + 2 * 1024 * 9 + 256 * 9 * (2 + 4) + 256 * 2 + 64 * 9 * (8 + 16) + 64 * 8 + 4)
    assert (result.gemm_uops * 256, result.emits) == (macs, 0)
    assert result.gemm_uops == 49156
    assert NaiveTiming(made).run(100_000) == simulate_timing(made).cycles


@pytest.mark.slow
def test_resnet8_like_program_runs_as_in_the_reference() -> None:
    made = resnet8_like(PRESETS["pynq-z2"])
    segments = initial_segments(made)
    segments[1][:] = np.random.default_rng(0).integers(0, 256, segments[1].size)
    copies = [s.copy() for s in segments]
    Functional(made).run(segments)
    Reference(made).run(copies)
    assert segments[2].any()
    np.testing.assert_array_equal(segments[2], copies[2])


def test_a_billion_multiply_accumulates_a_second_with_timing() -> None:
    made = resnet8_like(PRESETS["pynq-z2"])
    functional, segments = Functional(made), initial_segments(made)
    seconds = best_seconds(lambda: functional.run(segments)) + best_seconds(lambda: simulate_timing(made))
    assert 49156 * 256 / seconds > 1e9
