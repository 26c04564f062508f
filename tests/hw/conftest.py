"""What the hardware tests share: the toolchain or a skip that says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright.hw.verilated.build import build_library
from tilewright.hw.verilated.model import DesignModel
from tilewright.hw.verilated.toolchain import ToolError, compiler, verilator_root

HERE = Path(__file__).parent
OpenScript = Callable[..., DesignModel]


@pytest.fixture(scope="session")
def toolchain() -> None:
    """Skips the test where Verilator or g++ is missing."""
    try:
        verilator_root()
        compiler()
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def hls_toolchain() -> None:
    """Skips the test where the ap_int headers or g++ are missing."""
    if find_spec("hls4ml") is None:
        pytest.skip("hls4ml, whose ap_int.h the kernels need, is not installed: pip install 'tilewright[hls]'")
    try:
        compiler()
    except ToolError as error:
        pytest.skip(str(error))


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
