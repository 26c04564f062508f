"""Every engine alone: random programs about one engine, from the doorbell to the interrupt, against the simulator."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np

from tests.hw.cocotb.bench import SEEDS, Bench, agree
from tests.hw.cocotb.dram import CHANNELS
from tests.verification.random_engine import random_engine_program
from tilewright.isa.spec import Engine

__all__ = ["every_engine_alone"]

SIZE = 10  #: instructions of the engine under test


@cocotb.test()
@cocotb.parametrize(engine=list(Engine), disturbed=[False, True])
async def every_engine_alone(dut: Any, engine: Engine, disturbed: bool) -> None:
    """All bytes of DRAM as the simulator's, on a quiet bus and on one that pauses and is late at random."""
    bench = await Bench.open(dut, seed=int(engine))
    if disturbed:
        bench.dram.pause(**dict.fromkeys(CHANNELS, 0.25))
        bench.dram.latency = 24
    for seed in SEEDS:
        program = random_engine_program(np.random.default_rng(2 * seed + disturbed), bench.config, engine, SIZE)
        await agree(bench, program, seed)
        busy = {e: await bench.read(f"{e.name}_BUSY") for e in Engine}
        assert busy[engine] > 0, busy
