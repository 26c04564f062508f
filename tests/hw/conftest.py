"""What the hardware tests share: a scripted bus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
