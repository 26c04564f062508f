"""Forms in which other makers than ONNX Runtime's own quantiser write quantised networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.jit.source.onnx_nets import F, NetBuilder, Tensor
from tests.jit.source.onnx_run import compared, interpreted, kinds

IMAGE = (1, 8, 10, 9)


def _clipped(b: NetBuilder, name: str, bits: int, signed: bool) -> str:
    """An 8-bit tensor as values of fewer bits, as Brevitas writes it."""
    kind: Any = np.int8 if signed else np.uint8
    low, high = (1 - (1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return b.op("Clip", [name, b.constant(kind(low)), b.constant(kind(high))])


def _narrow_weights(b: NetBuilder, shape: tuple[int, ...], zero_point: str, bits: int = 4) -> str:
    """One scale, and a zero point that other weights share."""
    values = b.constant(b.rng.integers(-127, 128, shape).astype(np.int8))
    return b.op("DequantizeLinear", [_clipped(b, values, bits, True), b.constant(F(0.011)), zero_point])


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_values_of_fewer_bits_with_biases_that_are_not_quantised(tmp_path: Path, bits: int) -> None:
    """Weights and activations are clipped behind QuantizeLinear; all zero points are one constant, biases float."""
    b = NetBuilder(3, "int8", opset=17)
    zero = b.constant(np.int8(0))
    x, channels = b.real_input(IMAGE, 0.031, 0).name, 8
    for made in (12, 8):
        weights = _narrow_weights(b, (made, channels, 3, 3), zero, bits)
        bias = b.constant(b.rng.normal(0, 0.3, made).astype(F))
        y = b.op("Conv", [x, weights, bias], kernel_shape=[3, 3], pads=[1] * 4)
        stored = b.quantise(y, 0.9 / 2**bits, 0)
        stored = _clipped(b, stored, bits, True) if bits < 8 else stored
        x, channels = b.dequantise(stored, 0.9 / 2**bits, np.int8(0)), made
    b.output(x, IMAGE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert kinds(built) == (["Conv2D", "Conv2D"] if bits == 8 else ["Conv2D", "Requantize"] * 2)


@pytest.mark.parametrize("kind", ["Clip", "Relu"])
def test_clamps_of_8_bit_tensors(tmp_path: Path, kind: str) -> None:
    b = NetBuilder(5, "int8", opset=17)
    stored = b.quantise(b.input(IMAGE), 0.02, -7)
    bounds = [b.constant(np.int8(-20)), b.constant(np.int8(33))] if kind == "Clip" else []
    b.output(b.dequantise(b.op(kind, [stored, *bounds]), 0.02, np.int8(-7)), IMAGE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Requantize"], interpreted(built)


def _real_conv(b: NetBuilder, x: Tensor, channels: int) -> str:
    return b.op("Relu", [b.conv(x, channels, pads=[1] * 4)])


def test_maxima_of_what_is_quantised_behind_them(tmp_path: Path) -> None:
    b = NetBuilder(7, "uint8")
    pooled = b.op("MaxPool", [_real_conv(b, b.real_input(IMAGE), 6)], kernel_shape=[2, 2], strides=[2, 2])
    b.output(b.pair(pooled, (1, 6, 5, 4), 0.11, -128).name, (1, 6, 5, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D", "MaxPool2D"], interpreted(built)


def test_concatenation_of_what_is_quantised_behind_it(tmp_path: Path) -> None:
    """A clamped convolution, another one, and a tensor with other numbers."""
    b = NetBuilder(9, "uint8")
    x = b.real_input(IMAGE)
    joined = b.op("Concat", [_real_conv(b, x, 16), b.conv(x, 16, pads=[1] * 4), x.name], axis=1)
    shape = (1, 40, *IMAGE[2:])
    b.output(b.pair(joined, shape, 0.13, -60).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sorted(kinds(built)) == ["Concat", "Conv2D", "Conv2D"], interpreted(built)


def test_concatenation_that_is_not_quantised_again(tmp_path: Path) -> None:
    """Tensors with the same numbers, as makers give them to all that is joined, and another convolution of them."""
    b = NetBuilder(13, "uint8")
    x = b.real_input(IMAGE)
    shape = (1, 16, *IMAGE[2:])
    parts = [b.pair(b.conv(x, 16, pads=[1] * 4), shape, 0.11, -20).name for _ in range(2)]
    joined = Tensor(b.op("Concat", parts, axis=1), (1, 32, *IMAGE[2:]), 0.11, 1.0)
    result = b.pair(b.conv(joined, 5), (1, 5, 8, 7), 0.9, 4)
    b.output(result.name, result.shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sorted(kinds(built)) == ["Concat", "Conv2D", "Conv2D", "Conv2D"], interpreted(built)


def test_why_activations_of_16_bits_and_of_computed_scales_stay_on_the_cpu(tmp_path: Path) -> None:
    b = NetBuilder(17, "uint8", opset=21)
    numbers = [b.constant(F(0.01)), b.constant(np.uint16(3))]
    stored = b.op("QuantizeLinear", [b.input(IMAGE), *numbers])
    x = Tensor(b.op("DequantizeLinear", [stored, *numbers]), IMAGE, 0.01, 1.0)
    y = b.op("QuantizeLinear", [b.conv(x, 4), *numbers])
    b.output(b.op("DequantizeLinear", [y, *numbers]), (1, 4, 8, 7))
    _, built = compared(b.save(tmp_path / "wide.onnx"))
    assert set(interpreted(built).values()) == {"activations quantised to uint16; the accelerator's have 8 bits"}
    b = NetBuilder(17)
    names = ["q", "s", "z"]
    b.nodes.append(helper.make_node("DynamicQuantizeLinear", [b.input((3, 8))], names))
    product = b.op("MatMulInteger", ["q", b.constant(b.rng.integers(-9, 9, (8, 5)).astype(np.int8)), "z"])
    b.output(b.op("Mul", [b.op("Cast", [product], to=1), "s"]), (3, 5))
    _, built = compared(b.save(tmp_path / "dynamic.onnx"))
    assert set(interpreted(built).values()) == {"dynamic quantisation: scales that are computed for every input"}


@pytest.mark.parametrize("powers", [False, True], ids=["any scale", "powers of two"])
@pytest.mark.parametrize("slope", [0.01, 26 / 256, 0.75])
def test_leaky_relu_that_is_quantised_behind_it_alone(tmp_path: Path, slope: float, powers: bool) -> None:
    """ONNX Runtime fuses it into a float32 convolution, of which nothing is rounded with scales of powers of two."""
    b = NetBuilder(19, "int8")
    x = b.real_input(IMAGE, 2.0**-6 if powers else 0.0217, -9)
    values = b.constant(b.rng.integers(-127, 128, (6, 8, 3, 3)).astype(np.int8))
    weights = b.dequantise(values, 2.0**-7 if powers else 0.0123, np.int8(0))
    y = b.op("Conv", [x.name, weights], kernel_shape=[3, 3], pads=[1] * 4)
    result = b.pair(b.op("LeakyRelu", [y], alpha=slope), (1, 6, *IMAGE[2:]), 2.0**-2 if powers else 0.171, 5)
    b.output(result.name, result.shape)
    _, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    assert sorted(kinds(built)) == ["Conv2D", "Conv2D", "Maximum"], interpreted(built)
    if powers and slope != 0.01:
        assert all(layer.proven for layer in built.exactness)


@pytest.mark.parametrize("slope", [-0.5, 1.5])
def test_leaky_relu_that_is_no_maximum_stays_on_the_cpu(tmp_path: Path, slope: float) -> None:
    b = NetBuilder(19, "int8")
    y = b.op("LeakyRelu", [b.conv(b.real_input(IMAGE), 6)], alpha=slope)
    result = b.pair(y, (1, 6, 8, 7), 0.171, 5)
    b.output(result.name, result.shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not kinds(built)


def test_a_residual_that_is_not_quantised(tmp_path: Path) -> None:
    """A float32 tensor is quantised for convolutions and added to what they give: these are on the accelerator still,
    what makes the tensor and the sum run on the CPU."""
    b = NetBuilder(23, "uint8")
    y = b.op("HardSwish", [b.conv(b.real_input(IMAGE), 8, pads=[1] * 4)])
    for _ in range(2):
        x = b.pair(y, IMAGE, 0.12, -70)
        inner = b.pair(b.op("Relu", [b.conv(x, 16)]), (1, 16, 8, 7), 0.4, -128)
        y = b.op("Add", [y, b.conv(inner, 8, pads=[2] * 4)])
    b.output(b.pair(y, IMAGE, 0.9, 3).name, IMAGE)
    b.opset = 14
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D", "Conv2D"], interpreted(built)
