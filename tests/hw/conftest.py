"""What the hardware tests share: a scripted bus, a Tcl shell, designs that are quickly written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hw.tcl.shells import TOP, port_verilog, python_tclsh
from tilewright.hw.boards import project
from tilewright.hw.hls import control
from tilewright.hw.verilated.build import build_library
from tilewright.hw.verilated.model import DesignModel

HERE = Path(__file__).parent
OpenScript = Callable[..., DesignModel]


@pytest.fixture
def bus_script(toolchain: None) -> OpenScript:
    """``bus_script(latency, seed=0, wave="", **parameters)``: a model of ``bus_script.v``."""

    def open_model(latency: int, seed: int = 0, wave: str = "", **parameters: int) -> DesignModel:
        text = (HERE / "bus_script.v").read_text()
        for name, value in parameters.items():
            default = f"parameter {name} = {64 if name == 'DATA_BITS' else 0}"
            assert default in text
            text = text.replace(default, f"parameter {name} = {value}")
        return DesignModel(build_library({"bus_script.v": text}, wave=wave), latency, seed)

    return open_model


@pytest.fixture(scope="session")
def tclsh(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Tcl shell: the system's, else Python's own; skips the test where there is neither."""
    return shutil.which("tclsh") or python_tclsh(tmp_path_factory.mktemp("tcl"))


@pytest.fixture
def shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated Verilog is left out of the build folders: the scripts look at the top module's ports only."""
    monkeypatch.setattr(
        project, "design_sources", lambda config, events, control_axi: {TOP: port_verilog(config, control_axi)}
    )
    monkeypatch.setattr(control, "control_verilog", lambda config: "module tilewright_control;\nendmodule\n")
