"""Two memory ports, each of which is slow, late or wrong by itself."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.bench import SEEDS, Bench, agree
from tests.hw.cocotb.dram import CHANNELS, SLVERR, Failure
from tests.hw.cocotb.programs import reading_and_writing
from tests.verification.random_program import random_program, random_segments
from tilewright.isa.registers import FaultCode

__all__ = ["an_error_of_one_port_ends_the_run", "each_port_pauses_by_itself", "one_port_lags_behind_the_other"]


@cocotb.test()
@cocotb.parametrize(slow=[0, 1], channel=list(CHANNELS))
async def one_port_lags_behind_the_other(dut: Any, slow: int, channel: str) -> None:
    """A channel of one port stands still four cycles out of five: that delays both, and changes nothing."""
    bench = await Bench.open(dut, seed=3)
    bench.drams[slow].pause(**{channel: 0.8})
    for seed in SEEDS:
        await agree(bench, reading_and_writing(bench.config, seed), seed)
    late, prompt = bench.watched[slow].held, bench.watched[1 - slow].held
    if channel in ("ar", "aw", "w"):  # channels that the accelerator drives
        assert late[channel] > 20 > prompt[channel], "the other port is shown nothing that it has taken already"
    else:  # what the other port has to give waits for this one's
        assert prompt[channel] > 20 > late[channel], (late, prompt)
    assert [rules.lengths for rules in bench.watched] == 2 * [bench.rules.lengths]


@cocotb.test()
@cocotb.parametrize(chances=[(0.1, 0.8), (0.9, 0.2), (0.6, 0.6)])
async def each_port_pauses_by_itself(dut: Any, chances: tuple[float, float]) -> None:
    """Every channel of both ports pauses and every burst is late at random, in one differently than in the other."""
    bench = await Bench.open(dut, seed=int(100 * chances[0]))
    for dram, chance in zip(bench.drams, chances):
        dram.pause(**dict.fromkeys(CHANNELS, chance))
        dram.latency = int(100 * chance)
    for seed in SEEDS:
        await agree(bench, random_program(np.random.default_rng(800 + seed), bench.config, 16), seed)


@cocotb.test()
@cocotb.parametrize(port=[0, 1], what=["fetch", "load", "store"])
async def an_error_of_one_port_ends_the_run(dut: Any, port: int, what: str) -> None:
    """Fault BUS, whichever port says so; bursts of both complete, and the next run is right."""
    bench = await Bench.open(dut, seed=port)
    bench.drams[1 - port].pause(**dict.fromkeys(CHANNELS, 0.4))
    program = reading_and_writing(bench.config, port)
    bench.drams[port].failure = Failure(what, 1, SLVERR)
    outcome = await bench.run(program, random_segments(np.random.default_rng(0), program))
    assert (outcome.fault, outcome.completed) == (FaultCode.BUS, 0)
    assert [dram.failed >= 1 for dram in bench.drams] == [port == 0, port == 1]
    bench.drams[port].failure = None
    await agree(bench, program)
