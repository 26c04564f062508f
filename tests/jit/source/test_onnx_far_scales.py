"""Scales so far apart that float32 results leave int32, or float32 itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted

CONTRIB = "com.microsoft"
SHAPE = (1, 4, 8, 8)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("scales", [(1e30, 0.02), (0.02, 1e-30), (1e38, 1e-38), (0.02, 1e-40), (1e9, 1.0)])
def test_requantisation_saturates_at_any_distance(dtype: str, scales: tuple[float, float], tmp_path: Path) -> None:
    """QuantizeLinear clamps ahead of the conversion to integers: far above is the most, not the least."""
    b = NetBuilder(0, dtype)
    x = b.raw_input(SHAPE, scales[0], 5)
    b.output(b.quantise(x.name, scales[1], -7), SHAPE, dtype)
    b.output(b.quantise(b.op("Relu", [x.name]), scales[1], -7), SHAPE, dtype)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert all(layer.proven for layer in built.exactness)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("scales", [(1e30, 1e-3, 0.02), (1e30, 1e30, 1.0), (1e37, 1e37, 1e36), (1e9, 1e9, 1e-9)])
def test_two_tensors_with_far_scales(kind: str, scales: tuple[float, float, float], tmp_path: Path) -> None:
    """Also where float32 has infinities for both, whose difference is no number."""
    b = NetBuilder(0, "uint8")
    a, c = b.raw_input(SHAPE, scales[0], 5), b.raw_input(SHAPE, scales[1], -9)
    b.output(b.quantise(b.op(kind, [a.name, c.name]), scales[2], 3), SHAPE, "uint8")
    b.output(b.quantise(b.op("Relu", [a.name]), scales[2], 3), SHAPE, "uint8")
    compared(b.save(tmp_path / "m.onnx"))


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("scales", [(1e8, 1.0, 0.1), (1e9, 1e3, 1e-3), (1e30, 1e30, 1e-20), (1.0, 1.0, 1e-40)])
def test_kernels_that_convert_first_are_onnx_runtimes_beyond_int32(
    kind: str, scales: tuple[float, float, float], tmp_path: Path
) -> None:
    """There the result is what the CPU's conversion leaves, not the nearest 8-bit number."""
    b = NetBuilder(0, "uint8")
    x, y = b.input(SHAPE, "uint8"), b.input(SHAPE, "uint8")
    numbers = [[b.constant(F(s)), b.constant(np.uint8(z))] for s, z in zip(scales, (128, 90, 150), strict=True)]
    b.output(b.op(kind, [x, *numbers[0], y, *numbers[1], *numbers[2]], CONTRIB), SHAPE, "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    (reason,) = interpreted(built).values()
    assert "leave int32" in reason


@pytest.mark.parametrize(
    ("scale", "weight_scale"), [(6e37, 0.004), (1e20, 1e19), (1e-30, 1e-9), (0.02, 1e-40), (1e-39, 0.01)]
)
def test_float_sums_beyond_float32(scale: float, weight_scale: float, tmp_path: Path) -> None:
    """Infinities, and digits lost next to zero, make other sums than exact ones: ONNX Runtime has them."""
    b = NetBuilder(0, "int8")
    x = b.raw_input((1, 48), scale, 5)
    values = b.constant(b.rng.integers(-128, 128, (48, 8)).astype(np.int8))
    weight = b.dequantise(values, weight_scale, np.int8(0))
    step = float(F(min(scale * 255 * weight_scale * 127 * 4, 1e37)))
    b.output(b.quantise(b.op("Gemm", [x.name, weight]), max(step, 1e-44), -3), (1, 8), "int8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert "leave what float32 holds" in next(iter(interpreted(built).values()))


@pytest.mark.parametrize(("scale", "ratio"), [(2.0**125, 0.1), (1e37, 0.1), (2.0**-147, 2.0)])
def test_float_totals_beyond_float32(scale: float, ratio: float, tmp_path: Path) -> None:
    b = NetBuilder(0, "int8")
    x = b.raw_input(SHAPE, scale, 5)
    total = b.op("ReduceSum", [x.name, b.constant(np.array([2, 3]))])
    b.output(b.quantise(total, scale * ratio, -3), (1, 4, 1, 1), "int8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert "float32 sums of 64 values" in next(iter(interpreted(built).values()))


def test_a_clip_within_a_convolution_whose_bounds_have_no_number_between_them(tmp_path: Path) -> None:
    """ONNX Runtime fuses such a Clip too, and gives the upper one."""
    b = NetBuilder(0, "int8")
    x = b.real_input((1, 4, 6, 6), 2.0**-5, 0)
    weight = b.dequantise(b.constant(b.rng.integers(-8, 8, (8, 4, 3, 3)).astype(np.int8)), 2.0**-4, np.int8(0))
    clipped = b.op("Clip", [b.op("Conv", [x.name, weight]), b.constant(F(2.05)), b.constant(F(-0.37))])
    b.output(b.quantise(clipped, 2.0**-4, 3), (1, 8, 4, 4), "int8")
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert any(reason.startswith("Clip to 2.0499") for reason in interpreted(built).values())


def test_a_clamp_of_8_bits_does_not_ask_for_the_scale(tmp_path: Path) -> None:
    """The float32 numbers that the values stand for are infinities, the values are none."""
    b = NetBuilder(0, "uint8")
    x = b.input(SHAPE, "uint8")
    b.output(b.dequantise(x, 1e38, np.uint8(3)), SHAPE)
    clipped = b.op("Clip", [x, b.constant(np.uint8(40)), b.constant(np.uint8(200))])
    b.output(clipped, SHAPE, "uint8")
    b.output(b.dequantise(clipped, 1e38, np.uint8(3)), SHAPE)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


@pytest.mark.parametrize("kind", ["QLinearMatMul", "MatMulInteger"])
def test_sums_times_an_infinity_are_onnx_runtimes(kind: str, tmp_path: Path) -> None:
    """A sum of 0 is no number then."""
    b = NetBuilder(0, "uint8")
    x = b.input((1, 16), "uint8")
    weight = b.constant(np.eye(16, dtype=np.int8))
    zero, none = b.constant(np.uint8(128)), b.constant(np.int8(0))
    if kind == "QLinearMatMul":
        scales = [b.constant(F(s)) for s in (100, 1e37, 1e38)]
        y = b.op(kind, [x, scales[0], zero, weight, scales[1], none, scales[2], zero])
    else:
        sums = b.op("Cast", [b.op(kind, [x, weight, zero, none])], to=1)
        scaled = b.op("Add", [b.op("Mul", [sums, b.constant(F(1e38))]), b.constant(np.full(16, -1e38, F))])
        y = b.quantise(scaled, 1e37, 0)
    b.output(y, (1, 16), "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"), count=20)
    assert interpreted(built)
