"""The builders: files that the reference interpreters take, with values that are spread over the output's range."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.fuzz import BuildError, OnnxNet, Tensor, TfliteNet, case_inputs
from tests.fuzz.seeds import input_tensors
from tests.fuzz.tensors import Range, choose_quantisation, limits
from tilewright.checking import reference_outputs

Made = Tensor | list[Tensor]

TFLITE: dict[str, Callable[[TfliteNet, Tensor], Made]] = {
    "conv": lambda n, x: n.conv(x, 5, kernel=(3, 2), stride=2, activation="relu6"),
    "depthwise": lambda n, x: n.depthwise(x, 2, padding="valid", dilation=2),
    "transpose_conv": lambda n, x: n.transpose_conv(x, 4, bias=False),
    "fully_connected": lambda n, x: n.fully_connected(x, 9),
    "kept axes": lambda n, x: n.fully_connected(x, 9, flatten=False, keep_num_dims=True),
    "residual": lambda n, x: n.add(x, n.conv(x, 6), activation="relu"),
    "arithmetic": lambda n, x: n.mul(n.sub(x, n.constant_tensor((6,))), n.logistic(x)),
    "chosen": lambda n, x: n.maximum(x, n.minimum(x, n.max_pool(x, 3, 1, "same"))),
    "pools": lambda n, x: n.mean(n.average_pool(x, 3, 1, "same"), keep_dims=True),
    "reductions": lambda n, x: [n.sum(x, [1]), n.reduce_max(x, [2])],
    "pads": lambda n, x: n.mirror_pad(n.pad(x, [[0, 0], [1, 2], [0, 0], [0, 1]]), [[0, 0], [1, 1], [2, 0], [0, 0]]),
    "padv2": lambda n, x: n.pad_value(x, [[0, 0], [1, 0], [0, 0], [0, 0]], 3),
    "shapes": lambda n, x: n.softmax(n.fully_connected(n.flatten_by_shape(x), 7)),
    "axes": lambda n, x: n.squeeze(n.expand_dims(n.transpose(x, [0, 3, 1, 2]), 1), [1]),
    "joined": lambda n, x: n.concatenation(*n.split(x, 2), *n.split(x, 3), axis=3),
    "cut": lambda n, x: n.slice(n.strided_slice(x, [0, 1, 0, 0], [1, 8, 8, 6], [1, 2, 1, 1]), [0] * 4, [1, 2, -1, 3]),
    "packed": lambda n, x: n.pack(*n.unpack(x, 1), axis=2),
    "gathered": lambda n, x: n.gather(x, [5, 0, 0]),
    "activations": lambda n, x: n.prelu(n.leaky_relu(n.hard_swish(n.tanh(n.relu_n1_to_1(x))))),
    "conversions": lambda n, x: n.quantize(n.neg(n.dequantize(n.requantize(x)))),
    "resized": lambda n, x: n.resize_nearest(n.resize_bilinear(x, (5, 11), half_pixel_centers=True), 10),
    "blocks": lambda n, x: n.space_to_depth(n.depth_to_space(n.conv(x, 8)), 2),
    "batches": lambda n, x: n.dilated_by_batches(x, 3, 5),
    "positions": lambda n, x: n.arg_max(x),
    "normal": lambda n, x: n.l2_normalization(x),
}

ONNX: dict[str, Callable[[OnnxNet, Tensor], Made]] = {
    "conv": lambda n, x: n.conv(x, 5, kernel=(3, 2), stride=2, activation="relu6"),
    "auto_pad": lambda n, x: n.conv(x, 5, padding="SAME_LOWER", stride=2, groups=1, bias="float"),
    "depthwise": lambda n, x: n.depthwise(x, 2, padding=(1, 0, 1, 2), bias="other"),
    "transposed": lambda n, x: n.conv_transpose(x, 4, kernel=3, pads=(1, 0, 1, 1), output_padding=1),
    "classifier": lambda n, x: n.softmax(n.gemm(n.flatten(n.global_average_pool(x), pair=False), 7)),
    "matmul": lambda n, x: n.matmul(x, 7, bias="exact", per_channel=True),
    "attention": lambda n, x: n.matmul_of(x, n.transpose(x, [0, 1, 3, 2])),
    "residual": lambda n, x: n.add(x, n.conv(x, 6), activation="relu"),
    "arithmetic": lambda n, x: n.mul(n.sub(x, n.constant_tensor((6, 1, 1))), n.sigmoid(x)),
    "extremes": lambda n, x: n.maximum(n.minimum(x, n.constant_tensor((6, 1, 8))), n.sigmoid(x), activation="relu"),
    "activations": lambda n, x: n.prelu(n.leaky_relu(n.hard_swish(n.tanh(n.clip(x, -1.0, 1.0))))),
    "pools": lambda n, x: n.average_pool(n.max_pool(x, kernel=3, stride=1), pads=(1, 0, 1, 0), ceil_mode=True),
    "means": lambda n, x: n.reduce_mean(x, [1], keep_dims=False),
    "pad": lambda n, x: n.pad(x, [0, 0, 1, 2, 0, 0, 0, 1], mode="reflect"),
    "axes": lambda n, x: n.squeeze(n.unsqueeze(n.reshape(x, [1, 4, -1]), 1), [1]),
    "joined": lambda n, x: n.concat(*n.split(x, 2), n.slice(x, [1], [6], [1], [2])),
    "resized": lambda n, x: n.resize(n.resize(x, 16), (5, 7), mode="linear", coordinates="half_pixel"),
    "other numbers": lambda n, x: n.requantise(x, then_scale=0.05, then_zero_point=7),
}


def listed(made: Made) -> list[Tensor]:
    return made if isinstance(made, list) else [made]


def check(net: Any, path: Path, ys: list[Tensor]) -> None:
    outputs = reference_outputs(path, case_inputs(input_tensors(net)))
    for y, found in zip(ys, outputs, strict=True):
        assert found.shape[1:] in (y.shape, y.shape[1:])
        assert str(found.dtype) == y.dtype
        if y.dtype in ("int8", "uint8"):
            low, high = limits(y.dtype)
            inside = (found > low) & (found < high)
            assert len(np.unique(found)) > 4
            assert inside.mean() > 0.05


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", TFLITE)
def test_tflite_operators(name: str, dtype: str, tmp_path: Path) -> None:
    net = TfliteNet(seed=2, dtype=dtype)
    ys = listed(TFLITE[name](net, net.input((1, 8, 8, 6), zero_point=3 if dtype == "int8" else 131)))
    check(net, net.save(tmp_path / "net.tflite", ys), ys)


def test_matrices_of_int8(tmp_path: Path) -> None:
    net = TfliteNet(seed=2)
    x = net.input((1, 8, 8, 6), zero_point=3)
    y = net.batch_matmul(net.batch_matmul(x, net.tanh(x), turned_b=True), x)
    check(net, net.save(tmp_path / "net.tflite", [y]), [y])
    other = TfliteNet(seed=2, dtype="uint8")
    x = other.input((1, 8, 8, 6))
    with pytest.raises(BuildError, match="no kernel for uint8"):
        other.batch_matmul(x, x, turned_b=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", ONNX)
def test_onnx_operators(name: str, dtype: str, tmp_path: Path) -> None:
    net = OnnxNet(seed=2, dtype=dtype)
    ys = listed(ONNX[name](net, net.input((1, 6, 8, 8), zero_point=3 if dtype == "int8" else 131)))
    path = net.save(tmp_path / "net.onnx", ys, stored=True)
    onnx.checker.check_model(str(path), full_check=True)
    check(net, path, ys)


def test_operator_form(tmp_path: Path) -> None:
    net = OnnxNet(seed=2, dtype="uint8")
    x = net.input((1, 6, 8, 8), zero_point=131)
    y = net.add(x, net.conv(x, 6, form="qlinear"), form="qlinear")
    y = net.concat(y, net.constant_tensor((1, 2, 8, 8)), x, form="qlinear")
    y = net.matmul(net.flatten(net.global_average_pool(y, form="qlinear")), 5, form="qlinear")
    check(net, net.save(tmp_path / "net.onnx", [y], stored=True), [y])


def test_narrow_weights_of_tflite(tmp_path: Path) -> None:
    """As few bits as each kernel takes."""
    net = TfliteNet(seed=2, weight_bits=2)
    x = net.input((1, 8, 8, 6), zero_point=3)
    y = net.fully_connected(net.transpose_conv(net.depthwise(net.conv(x, 8)), 4), 9)
    check(net, net.save(tmp_path / "net.tflite", [y]), [y])
    assert [t.dtype for t in net.tensors if t.name.startswith("w")] == ["int4", "int4", "int8", "int2"]


@pytest.mark.parametrize("cast", [False, True])
def test_narrow_weights_of_onnx(cast: bool, tmp_path: Path) -> None:
    net = OnnxNet(seed=2, dtype="uint8", opset=21, weight_bits=4, weight_cast=cast)
    y = net.conv(net.input((1, 6, 8, 8), zero_point=131), 6, weight_dtype="uint8", weight_zero_point=128)
    y = net.matmul(net.flatten(y), 5, form="qlinear")
    check(net, net.save(tmp_path / "net.onnx", [y], stored=True), [y])


def test_lstm(tmp_path: Path) -> None:
    net = TfliteNet(seed=2)
    y = net.lstm(net.input((1, 7, 9), zero_point=-3), 5)
    check(net, net.save(tmp_path / "net.tflite", [y]), [y])


@pytest.mark.parametrize("state", ["int16", "int8"])
def test_svdf(state: str, tmp_path: Path) -> None:
    net = TfliteNet(seed=2)
    y = net.svdf(net.input((2, 9), zero_point=-3), 5, 4, 2, state)
    check(net, net.save(tmp_path / "net.tflite", [y]), [y])
    assert net.macs == 2 * 10 * (9 + 4)


def test_multiply_accumulates() -> None:
    net = TfliteNet()
    y = net.conv(net.input((1, 8, 8, 3)), 5, kernel=(3, 2), stride=2)
    assert y.shape == (1, 4, 4, 5)
    assert net.macs == 4 * 4 * 5 * 3 * 2 * 3


@pytest.mark.parametrize(
    "call",
    [
        lambda n, x: n.conv(x, 4, kernel=9, padding="valid"),
        lambda n, x: n.conv(x, 4, groups=4),
        lambda n, x: n.add(x, n.constant_tensor((5,))),
        lambda n, x: n.reshape(x, [1, 5]),
        lambda n, x: n.lstm(x, 4),
        lambda n, x: n.svdf(x, 4),
        lambda n, x: n.softmax(n.reshape(n.resize_nearest(x, 30), [1, -1])),
    ],
)
def test_what_does_not_fit_is_said(call: Callable[[TfliteNet, Tensor], object]) -> None:
    net = TfliteNet()
    with pytest.raises(BuildError, match="[A-Z0-9_]+: "):
        call(net, net.input((1, 8, 8, 6)))


def test_scales_cover_the_values() -> None:
    scale, zero = choose_quantisation(Range(1.0, 2.0), "int8")
    assert scale * (-128 - zero) <= -5.0 + scale
    assert scale * (127 - zero) >= 7.0 - scale
    assert choose_quantisation(Range(1.0, 2.0), "int8", gain=0.5)[0] == pytest.approx(scale / 2)
    assert np.log2(choose_quantisation(Range(1.0, 2.0), "uint8", power_of_two=True)[0]) % 1 == 0
    assert choose_quantisation(Range(0.0, 2.0, 0.0, 6.0), "uint8", zero_point=0)[0] == pytest.approx(6 / 255)
