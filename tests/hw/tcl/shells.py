"""The board scripts' tools: a Tcl shell with the checking stub as Vivado and Vitis HLS, and a design of ports alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HANG
from tests.preflight import APT
from tilewright.config import Config
from tilewright.hw.rtl.axi3_ports import board_ports

STUB = Path(__file__).parent / "stub.tcl"
TOP = "tilewright.v"


def python_tclsh(folder: Path) -> str:
    """A shell on Python's interpreter of Tcl; skips the test where Python has none."""
    pytest.importorskip("tkinter", reason=f"no Tcl to execute the scripts with: {APT}")
    path = folder / "tclsh"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STUB.parent / "tclsh.py"} "$@"\n')
    path.chmod(0o755)
    return str(path)


def port_verilog(config: Config, control_axi: int) -> str:
    """A top module with the ports of the RTL for a board and nothing inside."""
    declared = [("input", 1, "clk"), ("input", 1, "rst")]
    declared += [(f"{p.direction}put", p.width, p.name) for p in board_ports(config, control_axi)]
    lines = [f"  {way} {f'[{width - 1}:0] ' if width > 1 else ''}{name};" for way, width, name in declared]
    return f"module tilewright({', '.join(n for _, _, n in declared)});\n" + "\n".join(lines) + "\nendmodule\n"


def stub(tclsh: str, tool: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tclsh, str(STUB), tool, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **variables}, timeout=HANG,
    )  # fmt: skip


def vivado(tclsh: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return stub(tclsh, "vivado", "-mode", "batch", "-source", str(folder / "tcl" / "build.tcl"), **variables)


def hls(tclsh: str, folder: Path, netlists: Path) -> subprocess.CompletedProcess[str]:
    return stub(tclsh, "vitis_hls", "-f", str(folder / "tcl" / "hls.tcl"), STUB_NETLISTS=str(netlists))


def join(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "hls.join", "hls"], cwd=folder, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
