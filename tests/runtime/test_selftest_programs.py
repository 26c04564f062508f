"""The self-test's programs: legal on every preset, and the simulator computes what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.config import PRESETS, Config
from tilewright.isa.verifier import verify
from tilewright.isa.verify.errors import VerifyError
from tilewright.runtime.device import open_device
from tilewright.runtime.selftest import programs

CASES = {
    "fill": programs.fill_and_store,
    "copy": lambda config: programs.copy(config, 7),
    "alu": programs.alu,
    "rescale": programs.rescale,
    "gemm": programs.gemm,
    "batch": lambda config: programs.gemm(config, 3),
    "window": programs.window,
}
CONFIGS = {
    **{name: PRESETS[name] for name in ("tiny", "pynq-z2", "kv260")},
    "wide in, 4-bit weights, batch 2": PRESETS["tiny"].replace(block_in=16, weight_bits=4, batch=2),
    "wide out, 2-bit weights": PRESETS["tiny"].replace(block_out=16, weight_bits=2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_results_are_as_stated(name: str, config: Config) -> None:
    case = CASES[name](config)
    verify(case.program)
    device: Any = open_device("sim", config)
    count = len(case.inputs)
    allocation = device.allocate(case.program, count)
    device.write_stack(allocation, programs.INPUT, 0, case.inputs)
    device.launch(allocation, count)
    device.wait(allocation)
    found = device.read_stack(allocation, programs.OUTPUT, count, 0, case.outputs.shape[1])
    assert found.tolist() == case.outputs.tolist()
    assert name == "fill" or len(np.unique(case.outputs)) > 20, "the values tell something"


@pytest.mark.parametrize("opcode", ["load", "store"])
def test_moving_is_legal(opcode: str) -> None:
    for config in CONFIGS.values():
        program, size = programs.moving(config, opcode, 3)
        verify(program)
        assert size == 3 * program.segments[programs.INPUT].size
    verify(programs.waits(PRESETS["tiny"]))


def test_what_must_fault_is_illegal() -> None:
    with pytest.raises(VerifyError, match="token-underflow"):
        verify(programs.hang(PRESETS["tiny"]))
    with pytest.raises(VerifyError, match="extent"):
        verify(programs.outside(PRESETS["tiny"]))
