"""The simulator is fast enough to compile by and to test with; bench/bench_sim_speed.py has the real numbers."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.sim.naive_timing import NaiveTiming
from tests.sim.reference import Reference
from tilewright.config import PRESETS
from tilewright.isa.program import Program
from tilewright.jit.compiler import compile_graph
from tilewright.sim import Functional, initial_segments, simulate_timing


def best_seconds(call: Callable[[], object], runs: int = 10) -> float:
    """Least processor time of a call after one to warm up: other processes do not count."""
    call()
    times = []
    for _ in range(runs):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture(scope="module")
def resnet8() -> Program:
    """A program with the layers of MLPerf Tiny's ResNet-8 and random constants."""
    b = GraphBuilder(0, (32, 32, 3), "resnet8")
    x = b.conv("x", 16)
    x = b.add(x, b.conv(b.conv(x, 16), 16))
    for channels in (32, 64):
        skipped = b.conv(x, channels, (1, 1), (2, 2), (0, 0, 0, 0))
        x = b.add(skipped, b.conv(b.conv(x, channels, strides=(2, 2)), channels))
    graph = b.graph(b.dense(b.average_pool(x, (8, 8)), 10))
    (program,) = compile_graph(graph, PRESETS["pynq-z2"]).programs
    return program


def test_the_compiled_timing_is_the_naive_one_on_a_whole_network(resnet8: Program) -> None:
    assert NaiveTiming(resnet8).run(100_000) == simulate_timing(resnet8).cycles


@pytest.mark.slow
def test_a_whole_network_runs_as_in_the_reference(resnet8: Program) -> None:
    segments = initial_segments(resnet8)
    rng = np.random.default_rng(0)
    for segment, memory in zip(resnet8.segments, segments):
        if segment.kind == "input":
            memory[:] = rng.integers(0, 256, memory.size)
    copies = [s.copy() for s in segments]
    Functional(resnet8).run(segments)
    Reference(resnet8).run(copies)
    for segment, found, expected in zip(resnet8.segments, segments, copies):
        assert segment.kind != "output" or found.any()
        np.testing.assert_array_equal(found, expected)


def test_a_billion_multiply_accumulates_a_second_with_timing(resnet8: Program) -> None:
    functional, segments = Functional(resnet8), initial_segments(resnet8)
    macs = 256 * functional.run(segments).gemm_uops
    assert macs > 12e6
    seconds = best_seconds(lambda: functional.run(segments)) + best_seconds(lambda: simulate_timing(resnet8))
    assert macs / seconds > 1e9
