"""QDQ ONNX models of every operator family, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.jit.onnx_models import QdqBuilder, onnx_runtime
from tilewright.jit.graph import DequantizeFloat, Interpreted
from tilewright.jit.importer import ImportedModel, import_model, lower_source
from tilewright.jit.reference import evaluate
from tilewright.jit.source import open_source

Made = tuple[str, list[int]]  # the output and its shape


def conv_plain(b: QdqBuilder) -> Made:
    x = b.input([1, 5, 9, 11])
    return b.quantised(b.conv(x, (7, 5, 3, 3), pads=[1, 1, 1, 1]), 0.11, -5), [1, 7, 9, 11]


def conv_strided_dilated_uneven(b: QdqBuilder) -> Made:
    x = b.input([1, 4, 13, 12])
    y = b.conv(x, (6, 4, 3, 2), pads=[2, 0, 1, 1], strides=[2, 1], dilations=[2, 1])
    return b.quantised(y, 0.07, 4), [1, 6, 6, 12]


def conv_relu(b: QdqBuilder) -> Made:
    x = b.input([1, 3, 8, 8])
    y = b.node("Relu", [b.conv(x, (8, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])])
    return b.quantised(y, 0.05, -128), [1, 8, 4, 4]


def conv_relu6_auto_pad(b: QdqBuilder) -> Made:
    x = b.input([1, 3, 9, 9])
    y = b.conv(x, (8, 3, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")
    y = b.node("Clip", [y, b.constant(np.float32(0)), b.constant(np.float32(6))])
    return b.quantised(y, 6 / 255, -128), [1, 8, 5, 5]


def conv_grouped_no_bias(b: QdqBuilder) -> Made:
    x = b.input([1, 8, 6, 6])
    return b.quantised(b.conv(x, (12, 2, 3, 3), bias=False, group=4, pads=[1, 1, 1, 1]), 0.04, 9), [1, 12, 6, 6]


def conv_depthwise(b: QdqBuilder) -> Made:
    x = b.input([1, 10, 7, 8])
    return b.quantised(b.conv(x, (10, 1, 3, 3), group=10, pads=[1, 1, 1, 1]), 0.02, -3), [1, 10, 7, 8]


def conv_depth_multiplier(b: QdqBuilder) -> Made:
    x = b.input([1, 5, 7, 8])
    return b.quantised(b.conv(x, (10, 1, 3, 3), group=5, pads=[0, 0, 0, 0]), 0.02, -3), [1, 10, 5, 6]


def gemm_and_matmul(b: QdqBuilder) -> Made:
    x = b.input([1, 20])
    w, scale = b.weight((16, 20), axis=None)
    y = b.quantised(b.node("Gemm", [x, w, b.bias(x, scale, 16)], transB=1), 0.06, 2)
    w2, _ = b.weight((16, 9), axis=None)
    return b.quantised(b.node("MatMul", [y, w2]), 0.08, -7), [1, 9]


def residual_add(b: QdqBuilder) -> Made:
    x = b.input([1, 4, 6, 6])
    y = b.quantised(b.conv(x, (4, 4, 3, 3), pads=[1, 1, 1, 1]), 0.09, 12)
    return b.quantised(b.node("Relu", [b.node("Add", [x, y])]), 0.043, -128), [1, 4, 6, 6]


def max_pool(b: QdqBuilder) -> Made:
    x = b.input([1, 6, 9, 9], scale=0.05, zero_point=-20)
    y = b.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return b.quantised(y, 0.05, -20), [1, 6, 5, 5]


def global_average(b: QdqBuilder) -> Made:
    x = b.input([1, 6, 5, 7])
    return b.quantised(b.node("GlobalAveragePool", [x]), 0.011, 6), [1, 6, 1, 1]


def pad_then_conv(b: QdqBuilder) -> Made:
    x = b.input([1, 4, 6, 6])
    pads = b.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64))
    y = b.quantised(b.node("Pad", [x, pads]), 0.02, 3)
    return b.quantised(b.conv(y, (5, 4, 3, 3)), 0.06, 0), [1, 5, 5, 7]


def flatten_then_gemm(b: QdqBuilder) -> Made:
    """A flatten of a map with height and width: the weights' rows must follow NHWC."""
    x = b.input([1, 3, 4, 5])
    y = b.quantised(b.conv(x, (6, 3, 3, 3), pads=[1, 1, 1, 1]), 0.06, 1)
    y = b.quantised(b.node("Flatten", [y], axis=1), 0.06, 1)
    w, scale = b.weight((11, 120), axis=None)
    return b.quantised(b.node("Gemm", [y, w, b.bias(y, scale, 11)], transB=1), 0.3, -2), [1, 11]


def concat_of_scales(b: QdqBuilder) -> Made:
    x = b.input([1, 4, 6, 6])
    y = b.quantised(b.conv(x, (5, 4, 3, 3), pads=[1, 1, 1, 1]), 0.08, 11)
    z = b.quantised(b.conv(x, (3, 4, 1, 1)), 0.05, -4)
    return b.quantised(b.node("Concat", [y, z, x], axis=1), 0.08, 11), [1, 12, 6, 6]


def lone_relu_and_requantise(b: QdqBuilder) -> Made:
    x = b.input([1, 4, 6, 6])
    y = b.quantised(b.node("Relu", [x]), 0.013, -100)
    y = b.quantised(b.node("MaxPool", [y], kernel_shape=[2, 2]), 0.013, -100)
    y = b.node("Clip", [y, b.constant(np.float32(0.3)), b.constant(np.float32(1.5))])
    return b.quantised(y, 0.007, -128), [1, 4, 5, 5]


def transposes_fold_away(b: QdqBuilder) -> Made:
    """An NHWC user interface around NCHW operators, as tf2onnx writes it."""
    x = b.input([1, 8, 9, 3])
    x = b.quantised(b.node("Transpose", [x], perm=[0, 3, 1, 2]), 0.02, 3)
    y = b.quantised(b.conv(x, (6, 3, 3, 3), pads=[1, 1, 1, 1]), 0.05, -9)
    return b.quantised(b.node("Transpose", [y], perm=[0, 2, 3, 1]), 0.05, -9), [1, 8, 9, 6]


def power_of_two_scales(b: QdqBuilder) -> Made:
    """Every second accumulator is a tie: only ties-to-even is exact."""
    x = b.input([1, 4, 6, 6], scale=0.25, zero_point=0)
    values = b.rng.integers(-127, 128, (5, 4, 1, 1)).astype(np.int8)
    w = b.dequantised(b.constant(values), np.float32(0.5), 0, np.dtype(np.int8))
    return b.quantised(b.node("Conv", [x, w], kernel_shape=[1, 1]), 8.0, 3), [1, 5, 6, 6]


FAMILIES: list[Callable[[QdqBuilder], Made]] = [
    conv_plain,
    conv_strided_dilated_uneven,
    conv_relu,
    conv_relu6_auto_pad,
    conv_grouped_no_bias,
    conv_depthwise,
    conv_depth_multiplier,
    gemm_and_matmul,
    residual_add,
    max_pool,
    global_average,
    pad_then_conv,
    flatten_then_gemm,
    concat_of_scales,
    lone_relu_and_requantise,
    transposes_fold_away,
    power_of_two_scales,
]


def run(model: ImportedModel, x: Any) -> Any:
    assert not model.host_ops
    return evaluate(model.graph, {model.inputs[0].name: x})[model.outputs[0].name]


def step(model: ImportedModel) -> float:
    """The scale behind the only output, which is float32."""
    return next(op.scale for op in reversed(model.graph.ops) if isinstance(op, DequantizeFloat))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_equals_onnx_runtime(family: Callable[[QdqBuilder], Made], tmp_path: Path) -> None:
    builder = QdqBuilder(seed=7)
    output, shape = family(builder)
    path = builder.save(tmp_path / "model.onnx", output, shape)
    model = import_model(path)
    rng = np.random.default_rng(1)
    exact = all(layer.proven for layer in model.exactness)
    for _ in range(4):
        x = rng.normal(0, 1.5, model.inputs[0].shape).astype(np.float32)
        (wanted,) = onnx_runtime(path, {model.inputs[0].name: x})
        got = run(model, x)
        if exact:
            np.testing.assert_array_equal(got, wanted)
        else:
            assert np.abs(got - wanted).max() <= sum(layer.bound for layer in model.exactness) * step(model) * 1.001


@pytest.mark.parametrize("interface", ["int8", "uint8"])
def test_integer_interface(interface: str, tmp_path: Path) -> None:
    """uint8 activations are held as int8; the graph's own inputs and outputs keep the file's type."""
    shift = 128 if interface == "uint8" else 0
    builder = QdqBuilder(seed=3, activations=interface)
    x = builder.input([1, 3, 8, 8], interface, 0.02, 3 + shift)
    y = builder.quantised(builder.conv(x, (8, 3, 3, 3), pads=[1, 1, 1, 1]), 0.06, shift - 9)
    path = builder.save(tmp_path / "model.onnx", y, [1, 8, 8, 8], interface)
    model = import_model(path)
    assert model.inputs[0].dtype == model.outputs[0].dtype == interface
    value = np.random.default_rng(0).integers(-128 + shift, 128 + shift, (1, 3, 8, 8)).astype(interface)
    (wanted,) = onnx_runtime(path, {model.inputs[0].name: value})
    # between int8 inputs and outputs ONNX Runtime has no integer convolution, and adds in float32
    assert all(layer.proven for layer in model.exactness) == (interface == "uint8")
    np.testing.assert_array_equal(run(model, value), wanted)


def test_average_pool_within_its_stated_bound(tmp_path: Path) -> None:
    builder = QdqBuilder(seed=5)
    x = builder.input([1, 6, 12, 12], scale=0.03, zero_point=-7)
    y = builder.node("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    path = builder.save(tmp_path / "model.onnx", builder.quantised(y, 0.021, 5), [1, 6, 6, 6])
    assert any("AveragePool" in op.source for op in import_model(path).graph.ops if isinstance(op, Interpreted))
    model = lower_source(open_source(path, exact="close"), {})
    value = np.random.default_rng(0).normal(0, 1.5, (1, 6, 12, 12)).astype(np.float32)
    (wanted,) = onnx_runtime(path, {model.inputs[0].name: value})
    (layer,) = (entry for entry in model.exactness if not entry.proven)
    assert np.abs(run(model, value) - wanted).max() <= layer.bound * step(model) * 1.001


def test_average_pool_is_exact_for_power_of_two_scales(tmp_path: Path) -> None:
    builder = QdqBuilder(seed=5)
    x = builder.input([1, 6, 12, 12], scale=0.25, zero_point=4)
    y = builder.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    path = builder.save(tmp_path / "model.onnx", builder.quantised(y, 0.25, 4), [1, 6, 6, 6])
    model = import_model(path)
    assert all(layer.proven for layer in model.exactness)
    value = np.random.default_rng(0).normal(0, 15, (1, 6, 12, 12)).astype(np.float32)
    (wanted,) = onnx_runtime(path, {model.inputs[0].name: value})
    np.testing.assert_array_equal(run(model, value), wanted)


def test_averages_whose_ties_an_odd_zero_point_would_turn_are_left_to_onnx_runtime(tmp_path: Path) -> None:
    """Its kernels for other shapes and layouts add the zero point on other sides of the rounding."""
    builder = QdqBuilder(seed=5)
    x = builder.input([1, 6, 12, 12], scale=0.25, zero_point=3)
    y = builder.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    model = import_model(builder.save(tmp_path / "model.onnx", builder.quantised(y, 0.25, 3), [1, 6, 6, 6]))
    assert any("of the sums that a channel can reach" in reason for _, reason in model.host_ops)


def test_operators_keep_their_names(tmp_path: Path) -> None:
    builder = QdqBuilder()
    output, shape = conv_relu(builder)
    model = import_model(builder.save(tmp_path / "model.onnx", output, shape))
    names = {op.index: op.name for op in model.source.operators}
    (conv,) = (op for op in model.graph.ops if op.kind == "Conv2D")
    assert (conv.name, conv.source) == ("conv16", "op004 Conv")
    assert {names[i] for i in conv.covers} >= {"conv16", "relu17", "quantizelinear20"}


def test_what_is_not_claimed_says_why(tmp_path: Path) -> None:
    builder = QdqBuilder()
    x = builder.input([1, 4, 6, 6])
    y = builder.quantised(builder.conv(x, (5, 4, 3, 3)), 0.06, 0)
    y = builder.quantised(builder.node("Softmax", [y], axis=2), 1 / 256, -128)
    model = import_model(builder.save(tmp_path / "model.onnx", y, [1, 5, 4, 4]))
    reasons = {name.rstrip("0123456789"): reason for name, reason in model.host_ops}
    assert "a softmax over axis 2" in reasons["softmax"]
    assert "conv" not in reasons


def test_refused_match_gives_its_reason(tmp_path: Path) -> None:
    builder = QdqBuilder()
    x = builder.input([1, 4, 6, 6])
    y = builder.node("MaxPool", [x], kernel_shape=[2, 2], dilations=[2, 2])
    y = builder.quantised(y, 0.05, -3)
    model = import_model(builder.save(tmp_path / "model.onnx", y, [1, 4, 4, 4]))
    assert "pooling with dilations (2, 2)" in [reason for _, reason in model.host_ops]


@pytest.mark.parametrize("activations", ["int8", "uint8"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_float_input_has_the_scale_of_what_quantises_it(activations: str, moved: bool, tmp_path: Path) -> None:
    """Zero points as of int8, which those who draw inputs count from."""
    b = QdqBuilder(activations=activations)
    b.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 6, 4] if moved else [1, 4, 6, 6]))
    x = b.node("Transpose", ["x"], perm=[0, 3, 1, 2]) if moved else "x"
    y = b.conv(b.quantised(x, 0.031, 7), (4, 4, 3, 3), pads=[1, 1, 1, 1])
    model = import_model(b.save(tmp_path / "net.onnx", b.quantised(y, 0.1, 3), [1, 4, 6, 6]))
    (spec,) = model.inputs
    assert spec.scale == np.float32(0.031)
    assert spec.zero_point == (7 if activations == "int8" else 7 - 128)
