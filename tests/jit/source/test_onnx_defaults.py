"""Numbers that a node leaves out, or has as attributes where later opsets have operands: ONNX Runtime's defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds

IMAGE = (1, 4, 6, 6)


def test_scales_without_an_axis_are_those_of_the_second(tmp_path: Path) -> None:
    """As many inputs as outputs hide that these are not the output channels'."""
    b = NetBuilder(1, "uint8")
    x = b.raw_input(IMAGE)
    values = b.constant(b.rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8))
    weight = b.dequantise(values, b.rng.uniform(0.002, 0.006, 4), np.zeros(4, np.int8))
    y = b.op("Conv", [x.name, weight], pads=[1] * 4)
    shape = (1, 8, 6, 6)
    b.output(b.pair(b.op("Concat", [y, x.name], axis=1), shape, 0.04, 3).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert list(interpreted(built).values()) == ["weight scales along an axis other than the output channel"]


def test_a_bias_that_is_scaled(tmp_path: Path) -> None:
    b = NetBuilder(2, "uint8")
    rows = b.op("Flatten", [b.raw_input(IMAGE).name])
    weight, _ = b.weight((5, 144))
    y = b.op("Gemm", [rows, weight, b.constant(b.rng.normal(0, 1, 5).astype(F))], transB=1, beta=0.5)
    b.output(b.pair(y, (1, 5), 0.05, 3).name, (1, 5))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert list(interpreted(built).values()) == ["Gemm with beta"]


def test_padding_by_attributes(tmp_path: Path) -> None:
    """Before opset 11."""
    b = NetBuilder(3, "uint8", opset=10)
    y = b.op("Pad", [b.raw_input(IMAGE).name], pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.7)
    shape = (1, 4, 7, 8)
    b.output(b.pair(y, shape, 0.03, 4).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert kinds(built)


def test_bounds_by_attributes(tmp_path: Path) -> None:
    """Before opset 11."""
    b = NetBuilder(4, "uint8", opset=10)
    y = b.op("Clip", [b.raw_input(IMAGE).name], min=-0.4, max=1.1)
    b.output(b.pair(y, IMAGE, 0.03, 4).name, IMAGE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Requantize"]


def test_averages_that_count_padding_and_round_sizes_up(tmp_path: Path) -> None:
    """What lies beyond the padding is not counted, and no size tells where that begins."""
    b = NetBuilder(5, "uint8")
    options: dict[str, Any] = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1] * 4,
        "ceil_mode": 1,
        "count_include_pad": 1,
    }
    y = b.op("AveragePool", [b.raw_input(IMAGE).name], **options)
    shape = (1, 4, 4, 4)
    b.output(b.pair(y, shape, 0.03, 4).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    why = "average pooling that counts padding and rounds sizes up"
    assert list(interpreted(built).values()) == [why]
