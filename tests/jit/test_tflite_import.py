"""TFLite operators that the real networks lack, against LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.tflite_models import NONE, RELU, RELU6, SAME, VALID, TfliteBuilder, litert
from tilewright.jit.importer import import_model
from tilewright.jit.reference import evaluate

Made = tuple[list[int], list[int]]  # inputs and outputs


def _conv(b: TfliteBuilder, x: int, weight: list[int], out: int, act: int = NONE, pad: int = SAME, **extra: int) -> int:
    w, scales = b.weights(weight, 0)
    fields = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1} | extra
    return b.op(
        "CONV_2D",
        [x, w, b.bias(x, scales, weight[0])],
        out,
        "Conv2DOptions",
        Padding=pad,
        FusedActivationFunction=act,
        **fields,
    )


def conv_dilated(b: TfliteBuilder) -> Made:
    x = b.tensor([1, 11, 10, 5], 0.02, -4)
    y = b.tensor([1, 11, 10, 7], 0.06, 8)
    return [x], [_conv(b, x, [7, 3, 3, 5], y, RELU6, DilationHFactor=2, DilationWFactor=3)]


def conv_grouped(b: TfliteBuilder) -> Made:
    x = b.tensor([1, 8, 8, 6], 0.02, -4)
    y = b.tensor([1, 3, 4, 9], 0.05, 3)
    return [x], [_conv(b, x, [9, 3, 2, 2], y, RELU, VALID, StrideH=2, StrideW=2)]


def depthwise(multiplier: int, channels: int = 5) -> Callable[[TfliteBuilder], Made]:
    def make(b: TfliteBuilder) -> Made:
        x = b.tensor([1, 9, 9, channels], 0.03, 11)
        out = channels * multiplier
        w, scales = b.weights([1, 3, 3, out], 3)
        y = b.tensor([1, 5, 5, out], 0.04, -17)
        b.op(
            "DEPTHWISE_CONV_2D",
            [x, w, b.bias(x, scales, out)],
            y,
            "DepthwiseConv2DOptions",
            Padding=SAME,
            StrideH=2,
            StrideW=2,
            DepthMultiplier=multiplier,
            DilationHFactor=1,
            DilationWFactor=1,
            FusedActivationFunction=NONE,
        )
        return [x], [y]

    make.__name__ = f"depthwise_{channels}x{multiplier}"
    return make


def fully_connected(b: TfliteBuilder) -> Made:
    x = b.tensor([1, 30], 0.05, 9)
    w, scales = b.weights([12, 30], None)
    y = b.tensor([1, 12], 0.11, -3)
    b.op(
        "FULLY_CONNECTED",
        [x, w, b.bias(x, scales, 12)],
        y,
        "FullyConnectedOptions",
        FusedActivationFunction=RELU,
    )
    return [x], [y]


def _pool(b: TfliteBuilder, kind: str, act: int, pad: int, out: list[int]) -> Made:
    x = b.tensor([1, 9, 10, 6], 0.04, 12)
    y = b.tensor(out, 0.04, 12)
    b.op(
        kind,
        [x],
        y,
        "Pool2DOptions",
        Padding=pad,
        StrideH=2,
        StrideW=2,
        FilterHeight=3,
        FilterWidth=3,
        FusedActivationFunction=act,
    )
    return [x], [y]


def average_pool_same(b: TfliteBuilder) -> Made:
    return _pool(b, "AVERAGE_POOL_2D", NONE, SAME, [1, 5, 5, 6])


def average_pool_valid_relu(b: TfliteBuilder) -> Made:
    return _pool(b, "AVERAGE_POOL_2D", RELU, VALID, [1, 4, 4, 6])


def max_pool_same_relu6(b: TfliteBuilder) -> Made:
    return _pool(b, "MAX_POOL_2D", RELU6, SAME, [1, 5, 5, 6])


def max_pool_valid(b: TfliteBuilder) -> Made:
    return _pool(b, "MAX_POOL_2D", NONE, VALID, [1, 4, 4, 6])


def mean(out_scale: float, size: int) -> Callable[[TfliteBuilder], Made]:
    def make(b: TfliteBuilder) -> Made:
        x = b.tensor([1, size, size + 1, 9], 0.031, -21)
        y = b.tensor([1, 1, 1, 9], out_scale, 6)
        b.op("MEAN", [x, b.constant(np.array([1, 2], np.int32))], y, "ReducerOptions", KeepDims=1)
        return [x], [y]

    make.__name__ = f"mean_{size}_{out_scale}"
    return make


def add_relu6(b: TfliteBuilder) -> Made:
    x, z = b.tensor([1, 6, 7, 8], 0.03, 11), b.tensor([1, 6, 7, 8], 0.051, -100)
    y = b.tensor([1, 6, 7, 8], 0.027, -128)
    b.op("ADD", [x, z], y, "AddOptions", FusedActivationFunction=RELU6)
    return [x, z], [y]


def pad(b: TfliteBuilder) -> Made:
    x = b.tensor([1, 5, 6, 4], 0.03, 11)
    y = b.tensor([1, 8, 7, 4], 0.03, 11)
    b.op("PAD", [x, b.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))], y, "PadOptions")
    return [x], [y]


def concatenation(b: TfliteBuilder) -> Made:
    """TFLite's int8 kernel needs equal quantisation: a copy."""
    x, z = b.tensor([1, 4, 4, 5], 0.03, 11), b.tensor([1, 4, 4, 3], 0.03, 11)
    y = b.tensor([1, 4, 4, 8], 0.03, 11)
    b.op("CONCATENATION", [x, z], y, "ConcatenationOptions", Axis=3)
    return [x, z], [y]


def quantize_chain(b: TfliteBuilder) -> Made:
    """uint8 -> int8, then to a smaller and to a larger scale."""
    x = b.tensor([1, 8, 8, 4], 0.03, 140, "uint8")
    a = b.op("QUANTIZE", [x], b.tensor([1, 8, 8, 4], 0.03, 12), "QuantizeOptions")
    c = b.op("QUANTIZE", [a], b.tensor([1, 8, 8, 4], 0.047, -7), "QuantizeOptions")
    return [x], [b.op("QUANTIZE", [c], b.tensor([1, 8, 8, 4], 0.021, 3), "QuantizeOptions")]


def relus(b: TfliteBuilder) -> Made:
    x = b.tensor([1, 8, 8, 4], 0.05, -11)
    y = b.op("RELU", [x], b.tensor([1, 8, 8, 4], 0.03, -128))
    return [x], [b.op("RELU6", [y], b.tensor([1, 8, 8, 4], 0.0235, -128))]


def softmax(scale: float) -> Callable[[TfliteBuilder], Made]:
    def make(b: TfliteBuilder) -> Made:
        x = b.tensor([1, 37], scale, 5)
        y = b.tensor([1, 37], 1 / 256, -128)
        b.op("SOFTMAX", [x], y, "SoftmaxOptions", Beta=1.0)
        return [x], [y]

    make.__name__ = f"softmax_{scale}"
    return make


def flatten_and_dense(b: TfliteBuilder) -> Made:
    x = b.tensor([1, 3, 4, 5], 0.05, 9)
    flat = b.op("RESHAPE", [x, b.constant(np.array([1, 60], np.int32))], b.tensor([1, 60], 0.05, 9))
    w, scales = b.weights([7, 60], None)
    y = b.tensor([1, 7], 0.17, -3)
    b.op("FULLY_CONNECTED", [flat, w, b.bias(flat, scales, 7)], y, "FullyConnectedOptions")
    return [x], [y]


FAMILIES: list[Callable[[TfliteBuilder], Made]] = [
    conv_dilated,
    conv_grouped,
    depthwise(1),
    depthwise(3),
    depthwise(4, 1),
    fully_connected,
    average_pool_same,
    average_pool_valid_relu,
    max_pool_same_relu6,
    max_pool_valid,
    mean(0.02, 7),
    mean(0.031, 4),
    mean(0.044, 12),
    add_relu6,
    pad,
    concatenation,
    quantize_chain,
    relus,
    softmax(0.01),
    softmax(0.09),
    softmax(0.7),
    flatten_and_dense,
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_equals_litert(family: Callable[[TfliteBuilder], Made], tmp_path: Path) -> None:
    builder = TfliteBuilder(seed=4)
    inputs, outputs = family(builder)
    path = builder.save(tmp_path / "model.tflite", inputs, outputs)
    model = import_model(path)
    assert not model.host_ops
    assert all(layer.proven for layer in model.exactness)
    rng = np.random.default_rng(1)
    for _ in range(8):
        values = []
        for spec in model.inputs:
            info = np.iinfo(spec.dtype)
            values.append(rng.integers(info.min, info.max + 1, spec.shape).astype(spec.dtype))
        feed = {spec.name: value for spec, value in zip(model.inputs, values, strict=True)}
        got = evaluate(model.graph, feed)
        for spec, wanted in zip(model.outputs, litert(path, values), strict=True):
            np.testing.assert_array_equal(got[spec.name], wanted)


def test_dense_multiplier_is_a_float64_product(tmp_path: Path) -> None:
    """LiteRT multiplies the scales in float64."""
    builder = TfliteBuilder(seed=1)
    scale_in, scale_out = np.float32(builder.rng.uniform(0.01, 0.1)), np.float32(builder.rng.uniform(0.2, 0.5))
    x = builder.tensor([1, 64], scale_in, 7)
    w, scales = builder.weights([4000, 64], None)
    y = builder.tensor([1, 4000], scale_out, 0)
    builder.op("FULLY_CONNECTED", [x, w, builder.bias(x, scales, 4000)], y, "FullyConnectedOptions")
    path = builder.save(tmp_path / "model.tflite", [x], [y])
    model = import_model(path)
    assert not model.host_ops
    for _ in range(40):
        value = builder.rng.integers(-128, 128, (1, 64)).astype(np.int8)
        got = evaluate(model.graph, {model.inputs[0].name: value})[model.outputs[0].name]
        np.testing.assert_array_equal(got, litert(path, [value])[0])


def test_two_outputs_of_which_one_is_also_read(tmp_path: Path) -> None:
    builder = TfliteBuilder(seed=6)
    x = builder.tensor([1, 8, 8, 4], 0.05, -11)
    middle = _conv(builder, x, [6, 3, 3, 4], builder.tensor([1, 8, 8, 6], 0.09, 4))
    last = _conv(builder, middle, [5, 1, 1, 6], builder.tensor([1, 8, 8, 5], 0.13, -2))
    path = builder.save(tmp_path / "model.tflite", [x], [last, middle])
    model = import_model(path)
    assert not model.host_ops
    assert [spec.shape[-1] for spec in model.outputs] == [5, 6]
    value = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)
    got = evaluate(model.graph, {model.inputs[0].name: value})
    for spec, wanted in zip(model.outputs, litert(path, [value]), strict=True):
        np.testing.assert_array_equal(got[spec.name], wanted)


@pytest.mark.parametrize("given", [[1, 7, 7, 4, 0], [1, 7, 7, 4, 3], [1, 4]], ids=str)
@pytest.mark.parametrize("stated", [[1, 7, 7, 0], [1, 7, 7, 4], [0], []], ids=str)
@pytest.mark.parametrize("kind", ["QUANTIZE", "DEQUANTIZE", "ABS"])
def test_a_result_has_the_shape_that_litert_finds(
    kind: str, stated: list[int], given: list[int], tmp_path: Path
) -> None:
    """A file may state another shape of a result, and tensors without elements or axes."""
    builder = TfliteBuilder()
    real, stored = (None, 0, "float32"), (0.05, 3)
    x = builder.tensor(given, *(real if kind == "QUANTIZE" else stored))
    y = builder.op(kind, [x], builder.tensor(stated, *(real if kind == "DEQUANTIZE" else stored)))
    path = builder.save(tmp_path / "model.tflite", [x], [y])
    value = builder.rng.uniform(-100, 100, given).astype(builder.tensors[x]["dtype"])
    got, _ = tw.compile(path, "tiny", cache=False).run(value)
    wanted = litert(path, [value])[0]
    np.testing.assert_array_equal(got, wanted)
    assert got.shape == wanted.shape


@pytest.mark.parametrize("dtypes", [("int8", "uint8"), ("uint8", "int8"), ("uint8", "uint8")], ids=str)
def test_casts_of_tensors_without_elements(dtypes: tuple[str, str], tmp_path: Path) -> None:
    """They are the interpreter's, of which there is nothing to schedule."""
    builder = TfliteBuilder()
    x = builder.tensor([1, 4, 0, 3], 0.05, 3, dtypes[0])
    zero = 3 + 128 * ((dtypes[1] == "uint8") - (dtypes[0] == "uint8"))
    y = builder.op("QUANTIZE", [x], builder.tensor([1, 5, 4, 3], 0.05, zero, dtypes[1]))
    path = builder.save(tmp_path / "model.tflite", [x], [y])
    got, _ = tw.compile(path, "tiny", cache=False).run(np.zeros((1, 4, 0, 3), dtypes[0]))
    assert (got.shape, got.dtype.name) == ((1, 4, 0, 3), dtypes[1])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 2, 1, 3)], ids=str)
def test_moves_of_tensors_without_elements(order: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    builder, shape = TfliteBuilder(), (1, 4, 0, 3)
    x = builder.tensor(list(shape), 0.05, 3, dtype)
    axes = builder.tensor([4], None, 0, "int32", np.array(order, np.int32))
    moved = tuple(shape[axis] for axis in order)
    y = builder.op("TRANSPOSE", [x, axes], builder.tensor(list(moved), 0.05, 3, dtype))
    path = builder.save(tmp_path / "model.tflite", [x], [y])
    got, _ = tw.compile(path, "tiny", cache=False).run(np.zeros(shape, dtype))
    assert (got.shape, got.dtype.name) == (moved, dtype)
