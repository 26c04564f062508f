"""The sentence of a layer says why it takes its cycles, from its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import TfliteNet
from tilewright.compiling import compile as compile_model
from tilewright.config import PRESETS
from tilewright.runtime.attribution import CAUSES
from tilewright.runtime.report.explain import why

PYNQ = PRESETS["pynq-z2"]


def layer(bound: str, causes: dict[str, int], **needs: Any) -> dict[str, Any]:
    """A layer whose cycles went where ``causes`` says; a 1x1 convolution of 16 to 16 channels on 10 x 10 pixels."""
    spent = dict.fromkeys(CAUSES, 0) | causes
    own = {"cycles": sum(causes.values()), "cycles_by_cause": spent, "bound": bound, "array_cycles": 100}
    return own | {"shape": [1, 10, 10, 16], "weight_shape": [16, 1, 1, 16], "useful": 25_600, **needs}


WIDE = PYNQ.replace(name="wide", block_in=32, block_out=8, axi_ports=1, dsp_packing=False)


def run_wide(folder: Path, channels: int, outputs: int) -> dict[str, Any]:
    """What the report says of a 1x1 convolution on an array of 32 x 8 multipliers."""
    net = TfliteNet(seed=1)
    x = net.conv(net.input((1, 24, 24, channels), scale=1 / 128), channels, kernel=3)
    net.save(folder / "net.tflite", [net.conv(x, outputs, kernel=1)])
    _, report = compile_model(folder / "net.tflite", WIDE).run(np.zeros((1, 24, 24, channels), np.int8))
    _, found = (each for each in report.to_dict()["layers"] if each["place"] == "accelerator")
    return found


def test_a_wide_array_at_a_quarter_says_which_lanes_are_empty(tmp_path: Path) -> None:
    """``compute-bound`` alone would explain nothing."""
    found = run_wide(tmp_path, channels=8, outputs=32)
    assert found["bound"] == "padding"
    assert (
        "with 25% of its multipliers at work for this layer: 8 input values fill 25% of block_in = 32" in found["why"]
    )


def test_channels_that_are_not_there_are_not_computed(tmp_path: Path) -> None:
    found = run_wide(tmp_path, channels=32, outputs=8)
    assert (found["array_cycles"], found["cycles_by_cause"]["padding"]) == (24 * 24, 0)
    assert "100% of its multipliers" in found["why"]


def test_channels_that_are_not_there_are_named_where_they_are_computed() -> None:
    """In tiles, whose vectors are stored in whole blocks."""
    given = layer("padding", {"compute": 100, "padding": 300}, weight_shape=[8, 1, 1, 32])
    assert "300 cycles go to output channels that are not there: 8 are stored as whole blocks" in why(given, WIDE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (layer("compute", {"compute": 100}),
         "The array works 100% of these cycles, with 100% of its multipliers at work for this layer."),
        (layer("padding", {"compute": 25, "padding": 75}, weight_shape=[16, 1, 1, 4]),
         "The array works 100% of these cycles, with 25% of its multipliers at work for this layer: "
         "4 input values fill 25% of block_in = 16 lanes."),
        (layer("padding", {"compute": 56, "padding": 64}, weight_shape=[3, 3, 16]),
         "The array works 100% of these cycles, with 47% of its multipliers at work for this layer: a depthwise layer "
         "multiplies no channel with another: of block_in = 16 multipliers for a channel, its 3 x 3 kernel has work "
         "for 9; 20 cycles are more than the layer needs: filling windows, or rows done twice."),
        (layer("load", {"compute": 100, "load": 300}, read_bytes=6400),
         "The array works 25% of these cycles, with 100% of its multipliers at work for this layer. It waits for data "
         "from DRAM 75% of these cycles. It must read 6,400 bytes, 400 cycles of a bus of 16 bytes; its array work "
         "takes 100 cycles."),
        (layer("store", {"compute": 100, "store": 100}, write_bytes=0),
         "The array works 50% of these cycles, with 100% of its multipliers at work for this layer. It waits for data "
         "to reach DRAM 50% of these cycles. It has nothing of its own to write: it waits for what other layers share "
         "with it, or for a tensor that goes through DRAM because the chip cannot hold it until it is used last."),
        (layer("alu", {"alu": 7}, array_cycles=0, alu_cycles=9),
         "ALU works for it 100% of these cycles, while the array idles. It takes 9 passes of ALU over a vector, and 0 "
         "cycles of the array."),
        (layer("alu", {}), "All of its work ran while other layers had the array."),
    ],
)  # fmt: skip
def test_sentences(given: dict[str, Any], said: str) -> None:
    assert why(given, PYNQ) == said
