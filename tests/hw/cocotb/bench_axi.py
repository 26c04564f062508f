"""The AXI4 master under a bus that is slow, late or wrong."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.bench import SEEDS, Bench, agree
from tests.hw.cocotb.dram import CHANNELS, DECERR, SLVERR, Failure
from tests.hw.cocotb.programs import copying, reading_and_writing
from tests.hw.cocotb.rules import PAGE
from tests.verification.random_program import random_program, random_segments
from tilewright.isa.registers import FaultCode

__all__ = [
    "an_error_response_ends_the_run_and_the_next_is_right", "back_pressure_on_one_channel",
    "bursts_stop_at_page_boundaries", "random_latency_and_pauses_everywhere", "reads_and_writes_reach_their_limit",
]  # fmt: skip


@cocotb.test()
@cocotb.parametrize(channel=list(CHANNELS))
async def back_pressure_on_one_channel(dut: Any, channel: str) -> None:
    """A channel that stands still four cycles out of five delays, and changes nothing."""
    bench = await Bench.open(dut, seed=3)
    bench.dram.pause(**{channel: 0.8})
    for seed in SEEDS:
        await agree(bench, reading_and_writing(bench.config, seed), seed)
    if channel in bench.rules.lengths or channel == "w":  # channels that the accelerator drives: it was kept waiting
        assert bench.rules.held[channel] > 20, bench.rules.held
    assert (bench.rules.held["r"], bench.rules.held["b"]) == (0, 0), "data and responses are always taken at once"


@cocotb.test()
@cocotb.parametrize(chance=[0.1, 0.5, 0.9])
async def random_latency_and_pauses_everywhere(dut: Any, chance: float) -> None:
    """Every channel pauses and every burst is late at random."""
    bench = await Bench.open(dut, seed=int(100 * chance))
    bench.dram.pause(**dict.fromkeys(CHANNELS, chance))
    bench.dram.latency = 80
    for seed in SEEDS:
        program = random_program(np.random.default_rng(500 + seed), bench.config, 16)
        await agree(bench, program, seed)


@cocotb.test()
async def bursts_stop_at_page_boundaries(dut: Any) -> None:
    """Long rows that begin anywhere: no burst crosses 4 KiB, and some end exactly there."""
    bench = await Bench.open(dut)
    beat, longest = bench.config.beat_bytes, bench.config.burst_beats
    offsets = (PAGE // beat - 1, PAGE // beat - longest - 1, 1, 0)
    for seed, offset in enumerate(offsets):
        size = PAGE + beat if offset in (0, 1) else 3 * longest * beat
        await agree(bench, copying(bench.config, offset, size), seed)
    for name in ("ar", "aw"):
        ends = sum(rules.page_ends[name] for rules in bench.watched)  # of two ports the second has a page's end
        assert ends >= len(offsets), ends
        assert max(bench.rules.lengths[name]) == longest
        assert len(bench.rules.lengths[name]) > 2, "bursts of several lengths"


@cocotb.test()
async def reads_and_writes_reach_their_limit(dut: Any) -> None:
    """Against a late DRAM, as many bursts are in flight as the config allows, and the monitor sees no more."""
    bench = await Bench.open(dut)
    bench.dram.pause(b=0.97, r=0.9)
    bursts = 2 * bench.config.outstanding
    await agree(bench, copying(bench.config, 0, bursts * bench.config.burst_beats * bench.config.beat_bytes))
    assert bench.rules.most_reads == bench.config.outstanding
    assert bench.rules.most_writes == bench.config.outstanding


@cocotb.test()
@cocotb.parametrize(
    (("burst", "response", "paused"), [(0, SLVERR, False), (2, DECERR, True), (1, SLVERR, True)]),
    what=["fetch", "load", "store"],
)
async def an_error_response_ends_the_run_and_the_next_is_right(
    dut: Any, what: str, burst: int, response: int, paused: bool
) -> None:
    """Fault BUS; bursts that are under way complete (else the slave would be stuck); the next run is right."""
    bench = await Bench.open(dut, seed=burst)
    if paused:
        bench.dram.pause(**dict.fromkeys(CHANNELS, 0.4))
        bench.dram.latency = 30
    program = reading_and_writing(bench.config, burst)
    bench.dram.failure = Failure(what, burst, response)
    outcome = await bench.run(program, random_segments(np.random.default_rng(0), program))
    assert (outcome.fault, outcome.completed) == (FaultCode.BUS, 0)
    assert bench.dram.failed >= 1
    bench.dram.failure = None
    await agree(bench, program)
