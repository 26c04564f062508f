"""Activity against the counters of the run that it is derived from."""

from __future__ import annotations

import numpy as np
import pytest

from tests.verification.random_program import random_config, random_program
from tilewright.isa.spec import Engine, Opcode
from tilewright.runtime.activity import Activity
from tilewright.runtime.device_base import Events
from tilewright.sim import simulate_timing


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_busy_cycles_are_those_that_the_engine_counts(seed: int, packed: bool) -> None:
    """Window instructions on packed multipliers included: they end with the second half of their last emit."""
    rng = np.random.default_rng(seed)
    program = random_program(rng, random_config(rng).replace(dsp_packing=packed), 40)
    timing = simulate_timing(program)
    activity = Activity(program, Events(timing.dispatch, timing.issue, timing.retire), timing.cycles)
    for engine in (Engine.GEMM, Engine.ALU):
        waits = (activity.engine == engine) & (activity.opcode == Opcode.WAIT)
        waited = int(activity.service[waits].sum())
        assert activity.busy(engine) + waited == timing.engines[engine].busy
