"""Files in operator form, of ONNX's own integer operators and ONNX Runtime's: all equal to ONNX Runtime's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, difference, interpreted, kinds
from tilewright.jit.source.onnx.source import OnnxSource

TYPES = pytest.mark.parametrize("activations,weights", [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
MS = "com.microsoft"


def weight(b: NetBuilder, shape: tuple[int, ...], dtype: str, zero_point: int) -> list[str]:
    info = np.iinfo(dtype)
    values = b.rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return [b.constant(values), b.constant(np.asarray(zero_point, dtype))]


@TYPES
@pytest.mark.parametrize("per_channel", [False, True])
def test_sums_that_are_scaled_and_quantised(activations: str, weights: str, per_channel: bool, tmp_path: Path) -> None:
    """ConvInteger and MatMulInteger with Cast, Mul, Add, Relu and QuantizeLinear behind them, as dynamic quantisation
    writes them, with constant scales."""
    b = NetBuilder(5, activations)
    x = b.input((1, 6, 9, 8), activations)
    w, wz = weight(b, (7, 6, 3, 3), weights, 0 if weights == "int8" else 121)
    y = b.op("ConvInteger", [x, w, b.constant(b.zero(-9)), wz], pads=[1, 1, 1, 1], strides=[2, 2])
    scale = b.rng.uniform(1e-4, 2e-4, (1, 7, 1, 1) if per_channel else ()).astype(F)
    y = b.op("Mul", [b.op("Cast", [y], to=1), b.constant(scale)])
    y = b.op("Add", [b.constant(b.rng.normal(0, 1, (7, 1, 1)).astype(F)), y])
    y = b.quantise(b.op("Relu", [y]), 0.0193, -70)
    flat = b.op("Flatten", [y])
    m, mz = weight(b, (7 * 5 * 4, 11), weights, 3)
    z = b.op("MatMulInteger", [flat, m, b.constant(b.zero(-70)), mz])
    z = b.op("Mul", [b.op("Cast", [z], to=1), b.constant(F(1.7e-5))])
    z = b.op("Mul", [z, b.constant(b.rng.uniform(0.5, 2, 11 if per_channel else 1).astype(F))])
    b.output(b.quantise(b.op("Add", [z, b.constant(b.rng.normal(0, 1, 11).astype(F))]), 0.03, 7), (1, 11), activations)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    left = interpreted(built)
    assert all("for some sums" in reason for reason in left.values())
    assert kinds(built) == ["Conv2D"] * (2 - len(left))
    close = OnnxSource(tmp_path / "m.onnx", exact="close").build({})
    assert kinds(close) == ["Conv2D", "Conv2D"]
    assert all(layer.bound <= 1 for layer in close.exactness)


@pytest.mark.parametrize(
    "scale,dtype,why", [(-0.01, "uint8", "positive"), (0.01, "float32", "type float32"), (0.01, "int32", "type int32")]
)
def test_sums_without_a_staircase_run_in_the_interpreter(scale: float, dtype: str, why: str, tmp_path: Path) -> None:
    """Negative scales, and results that nothing quantises."""
    b = NetBuilder(6)
    x = b.input((1, 16), "uint8")
    y = b.op("MatMulInteger", [x, *weight(b, (16, 5), "int8", 0)[:1], b.constant(np.uint8(7))])
    if dtype != "int32":
        y = b.op("Mul", [b.op("Cast", [y], to=1), b.constant(F(scale))])
    b.output(b.quantise(y, 0.05, 3) if dtype == "uint8" else y, (1, 5), dtype)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert [why in reason for reason in interpreted(built).values()] == [True]


def reason_of(b: NetBuilder, sums: str, tmp_path: Path, *bias: float) -> str:
    """Why sums of one column, scaled and quantised, are left to the interpreter; "" where they are not."""
    y = b.op("Mul", [b.op("Cast", [sums], to=1), b.constant(F(2**-20))])
    for value in bias:
        y = b.op("Add", [y, b.constant(F(value))])
    b.output(b.quantise(y, 0.5, 0), (1, 1), "uint8")
    _, built = compared(b.save(tmp_path / "m.onnx"), count=1)
    return next(iter(interpreted(built).values()), "")


@pytest.mark.parametrize("count,why", [(33025, ""), (33026, "a sum that can leave int32")])
def test_sums_that_can_leave_int32_are_the_interpreters(count: int, why: str, tmp_path: Path) -> None:
    """255 times 255 for each: ONNX Runtime's wrap beyond."""
    b = NetBuilder(12)
    weights = b.constant(np.full((count, 1), 255, np.uint8))
    assert reason_of(b, b.op("MatMulInteger", [b.input((1, count), "uint8"), weights]), tmp_path) == why


@pytest.mark.parametrize("bias,why", [(16.0, ""), (16.5, "a bias that is large beside the unit of the sum")])
def test_a_bias_that_float32_adds_no_unit_to_is_the_interpreters(bias: float, why: str, tmp_path: Path) -> None:
    """Of 2**24 units, and of more."""
    b = NetBuilder(13)
    weights = b.constant(b.rng.integers(0, 255, (16, 1)).astype(np.uint8))
    sums = b.op("MatMulInteger", [b.input((1, 16), "uint8"), weights])
    assert reason_of(b, sums, tmp_path, bias) == why


def test_weights_that_share_a_zero_point(tmp_path: Path) -> None:
    """ONNX Runtime itself cannot load such a file without saturating products."""
    b = NetBuilder(10, "int8")
    x = b.real_input((1, 4, 8, 8))
    zero = b.constant(np.zeros(4, np.int8))
    for scale in (0.04, 0.06):
        values = b.constant(b.rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8))
        scales = b.constant(b.rng.uniform(0.002, 0.006, 4).astype(F))
        w = b.op("DequantizeLinear", [values, scales, zero], axis=0)
        x = b.pair(b.op("Conv", [x.name, w], pads=[1, 1, 1, 1]), x.shape, scale, -3)
    b.output(x.name, x.shape)
    source = OnnxSource(b.save(tmp_path / "m.onnx"))
    content, _, _ = source.reference()
    built = source.build({})
    assert kinds(built) == ["Conv2D", "Conv2D"]
    (tmp_path / "m.onnx").write_bytes(content)
    assert difference(tmp_path / "m.onnx", source, built) == 0


@TYPES
def test_dynamic_quantisation_stays_on_the_host(activations: str, weights: str, tmp_path: Path) -> None:
    """Scales that follow each input have no program; what lies between runs on the accelerator."""
    b = NetBuilder(7, activations)
    x = b.fitted(b.conv(b.real_input((1, 6, 9, 8)), 8, pads=[1, 1, 1, 1]), (1, 8, 9, 8), 0.5)
    flat = b.op("Flatten", [x.name])
    outputs = ["dynamic", "dynamic_scale", "dynamic_zero"]
    b.nodes.append(helper.make_node("DynamicQuantizeLinear", [flat], outputs))
    w, wz = weight(b, (8 * 72, 10), weights, 0)
    y = b.op("Cast", [b.op("MatMulInteger", [outputs[0], w, outputs[2], wz])], to=1)
    y = b.op("Mul", [y, b.op("Mul", [outputs[1], b.constant(F(0.004))])])
    b.output(b.op("Add", [y, b.constant(b.rng.normal(0, 1, 10).astype(F))]), (1, 10))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]
    assert interpreted(built)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_functions_of_onnx_runtimes_between_convolutions(activations: str, tmp_path: Path) -> None:
    """QLinearLeakyRelu, QLinearSigmoid and QLinearMul; the layers around them keep their numbers and layout."""
    b = NetBuilder(8, activations)
    shape = (1, 8, 9, 7)

    def numbers(scale: float, zero_point: int) -> list[str]:
        return [b.constant(F(scale)), b.constant(b.zero(zero_point))]

    def conv(x: str, at: list[str], channels: int, out: list[str]) -> str:
        values = b.rng.integers(-127, 128, (channels, 8, 3, 3)).astype(np.int8)
        scales = b.rng.uniform(0.002, 0.006, channels).astype(F)
        w = [b.constant(values), b.constant(scales), b.constant(np.zeros(channels, np.int8))]
        return b.op("QLinearConv", [x, *at, *w, *out], pads=[1, 1, 1, 1])

    at, mid, narrow = numbers(0.02, 3), numbers(0.05, -4), numbers(1 / 256, -128)
    y = conv(b.input(shape, activations), at, 8, mid)
    leaky = b.op("QLinearLeakyRelu", [y, *mid, *numbers(0.03, -90)], MS, alpha=0.1)
    gate = b.op("QLinearSigmoid", [y, *mid, *narrow], MS)
    z = b.op("QLinearMul", [leaky, *numbers(0.03, -90), gate, *narrow, *numbers(0.02, -60)], MS)
    b.output(conv(z, numbers(0.02, -60), 5, mid), (1, 5, 9, 7), activations)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D", "Requantize", "Requantize", "Multiply", "Conv2D"]


@TYPES
def test_matmul_with_scales_by_column(activations: str, weights: str, tmp_path: Path) -> None:
    b = NetBuilder(9, activations)
    x = b.input((1, 4, 24), activations)
    values = b.rng.integers(0, 127, (24, 9)).astype(weights)
    w = [b.constant(values), b.constant(b.rng.uniform(0.002, 0.006, 9).astype(F)), b.constant(np.zeros(9, weights))]
    at, out = ([b.constant(F(s)), b.constant(b.zero(z))] for s, z in ((0.02, 3), (0.06, -11)))
    b.output(b.op("QLinearMatMul", [x, *at, *w, *out]), (1, 4, 9), activations)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert kinds(built) == ["Conv2D"]
