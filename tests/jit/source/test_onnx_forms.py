"""Every operator that has a rule, in its forms, and integer operators as files have them, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.seeds import draw_network
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds

IMAGE = (1, 4, 13, 12)
ACTIVATIONS = pytest.mark.parametrize("activations", ["uint8", "int8"])


def one(b: NetBuilder, kind: str, shape: tuple[int, ...], *more: str, like: bool = True, **attributes: Any) -> None:
    """x -> kind -> a pair with the input's numbers (``like``) or others."""
    x = b.real_input(IMAGE)
    y = b.op(kind, [x.name, *more], **attributes)
    b.output(b.pair(y, shape, *((x.scale, 3) if like else (0.031, -3))).name, shape)


def max_ceil(b: NetBuilder) -> list[str]:
    one(b, "MaxPool", (1, 4, 6, 6), kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1)
    return ["MaxPool2D"]


def max_ceil_padded(b: NetBuilder) -> list[str]:
    shape = (1, 4, 7, 7)
    one(b, "MaxPool", shape, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
    return ["MaxPool2D"]


def max_other_numbers(b: NetBuilder) -> list[str]:
    one(b, "MaxPool", (1, 4, 11, 10), like=False, kernel_shape=[3, 3])
    return ["MaxPool2D", "Requantize"]


def max_dilated(b: NetBuilder) -> list[str]:
    one(b, "MaxPool", (1, 4, 9, 8), kernel_shape=[3, 3], dilations=[2, 2])
    return []


def average_in_doubt(b: NetBuilder) -> list[str]:
    """Some sums of nine come nearer to a tie than ONNX Runtime's float32 roundings can carry them."""
    one(b, "AveragePool", (1, 4, 7, 6), like=False, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return []


def average_counting_padding(b: NetBuilder) -> list[str]:
    shape = (1, 4, 7, 6)
    one(b, "AveragePool", shape, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    return ["AvgPool2D"]


def average_ceil(b: NetBuilder) -> list[str]:
    one(b, "AveragePool", (1, 4, 7, 7), kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1)
    return ["AvgPool2D"]


def same_that_crops(b: NetBuilder) -> list[str]:
    """Of 12 columns a stride of 4 takes three; ONNX Runtime then begins with the second."""
    one(b, "MaxPool", (1, 4, 13, 3), kernel_shape=[1, 1], strides=[1, 4], auto_pad="SAME_UPPER")
    return []


def average_with_ties(b: NetBuilder) -> list[str]:
    """Every fourth sum of four lies between two integers, and float32 decides by the order of summation."""
    one(b, "AveragePool", (1, 4, 6, 6), kernel_shape=[2, 2])
    return []


def average_of_everything(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    b.output(b.pair(b.op("GlobalAveragePool", [x.name]), (1, 4, 1, 1), 0.0307, -3).name, (1, 4, 1, 1))
    return ["AvgPool2D"]


def average_of_everything_near_a_tie(b: NetBuilder) -> list[str]:
    """No half-up constants have the thresholds of this ratio."""
    one(b, "GlobalAveragePool", (1, 4, 1, 1), like=False)
    return ["AvgPool2D"]


def average_of_everything_with_ties(b: NetBuilder) -> list[str]:
    """One sum in 156 lies between two integers, of which ONNX Runtime takes the even one."""
    one(b, "GlobalAveragePool", (1, 4, 1, 1))
    return ["AvgPool2D"]


def mean_with_ties(b: NetBuilder) -> list[str]:
    """One sum in 156 lies between two integers, and float32 decides by the order of summation."""
    one(b, "ReduceMean", (1, 4), axes=[2, 3], keepdims=0)
    return []


def mean_in_doubt(b: NetBuilder) -> list[str]:
    """One sum in 1,600 comes nearer to a tie than ONNX Runtime's float32 roundings can carry it."""
    one(b, "ReduceMean", (1, 4), like=False, axes=[2, 3], keepdims=0)
    return []


def mean(b: NetBuilder) -> list[str]:
    """Few values, of which no sum comes near a tie."""
    x = b.real_input((1, 4, 3, 3), 0.0217, 3)
    y = b.op("ReduceMean", [x.name], axes=[2, 3], keepdims=0)
    b.output(b.pair(y, (1, 4), 0.01731, -3).name, (1, 4))
    return ["AvgPool2D"]


def pad_with_a_value(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.op("Pad", [x.name, b.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1])), b.constant(F(0.3))])
    b.output(b.pair(y, (1, 4, 14, 15), 0.031, -2).name, (1, 4, 14, 15))
    return ["Requantize", "Pad"]


def pad_of_channels(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.op("Pad", [x.name, b.constant(np.array([0, 1, 0, 0, 0, 0, 0, 0]))])
    b.output(b.pair(y, (1, 5, 13, 12), x.scale, 3).name, (1, 5, 13, 12))
    return ["Conv2D"]


def activations_that_clamp(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.fitted(b.op("Relu", [b.conv(x, 5)]), (1, 5, 11, 10), 1.0)
    z = b.op("Clip", [b.conv(y, 3, 1), b.constant(F(-1.03)), b.constant(F(1.7))])
    b.output(b.pair(z, (1, 3, 11, 10), 0.03, -60).name, (1, 3, 11, 10))
    return ["Conv2D", "Conv2D"]


def groups_and_dilations(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.fitted(b.conv(x, 6, group=2, dilations=[2, 1], pads=[2, 1, 2, 1]), (1, 6, 13, 12), 1.2)
    z = b.conv(y, 6, group=6, auto_pad="SAME_LOWER", strides=[2, 2])
    b.output(b.fitted(z, (1, 6, 7, 6), 1.0).name, (1, 6, 7, 6))
    return ["Conv2D", "DepthwiseConv2D"]


def one_axis(b: NetBuilder) -> list[str]:
    x = b.real_input((1, 4, 17))
    y = b.fitted(b.conv(x, 6, strides=[2], pads=[1, 0]), (1, 6, 8), 1.2)
    z = b.pair(b.op("MaxPool", [y.name], kernel_shape=[2], strides=[2]), (1, 6, 4), y.scale, 0)
    b.output(b.fitted(b.gemm(b.op("Flatten", [z.name]), z, 24, 5), (1, 5), 2.0).name, (1, 5))
    return ["Conv2D", "MaxPool2D", "Requantize", "Conv2D"]


def rows(b: NetBuilder) -> list[str]:
    x = b.real_input((1, 7, 20))
    weight, _ = b.weight((20, 5), axis=1)
    b.output(b.fitted(b.op("MatMul", [x.name, weight]), (1, 7, 5), 1.0).name, (1, 7, 5))
    return ["Conv2D"]


def product_of_activations(b: NetBuilder) -> list[str]:
    x, y = b.real_input((1, 7, 20)), b.real_input((1, 20, 7))
    b.output(b.fitted(b.op("MatMul", [x.name, y.name]), (1, 7, 7), 4.0).name, (1, 7, 7))
    return ["MatMul"]


def product_and_sum(b: NetBuilder) -> list[str]:
    x = b.real_input((1, 20))
    weight, scales = b.weight((20, 5), axis=1)
    y = b.op("Add", [b.op("MatMul", [x.name, weight]), b.bias(x, scales, 5)])
    b.output(b.fitted(y, (1, 5), 1.0).name, (1, 5))
    return ["Conv2D"]


def factors(b: NetBuilder) -> list[str]:
    x = b.real_input((1, 20))
    weight, scales = b.weight((5, 20))
    y = b.op("Gemm", [x.name, weight, b.bias(x, scales, 5)], transB=1, alpha=0.5, beta=2.0)
    b.output(b.fitted(y, (1, 5), 1.0).name, (1, 5))
    return []


def shapes(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.fitted(b.op("GlobalAveragePool", [x.name]), (1, 4, 1, 1), 0.3)
    z = b.op("Unsqueeze", [b.op("Squeeze", [y.name, b.constant(np.array([2, 3]))]), b.constant(np.array([2]))])
    z = b.op("Reshape", [z, b.constant(np.array([1, 4]))])
    b.output(b.fitted(b.gemm(z, y, 4, 5), (1, 5), 0.2).name, (1, 5))
    return ["AvgPool2D", "Conv2D"]


def flattened_output(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.fitted(b.conv(x, 3), (1, 3, 11, 10), 1.2)
    b.output(b.op("Flatten", [y.name]), (1, 330))
    return ["Conv2D"]


def channels_last_outside(b: NetBuilder) -> list[str]:
    x = b.real_input((1, 13, 12, 4))
    inner = b.pair(b.op("Transpose", [x.name], perm=[0, 3, 1, 2]), IMAGE, x.scale, 3)
    y = b.fitted(b.conv(inner, 3), (1, 3, 11, 10), 1.2)
    b.output(b.op("Transpose", [y.name], perm=[0, 2, 3, 1]), (1, 11, 10, 3))
    return ["Conv2D"]


def other_transpose(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.pair(b.op("Transpose", [x.name], perm=[0, 1, 3, 2]), (1, 4, 12, 13), x.scale, 3)
    b.output(b.fitted(b.conv(y, 3), (1, 3, 10, 11), 1.2).name, (1, 3, 10, 11))
    return ["Conv2D"]


def unknown(b: NetBuilder) -> list[str]:
    x = b.real_input(IMAGE)
    y = b.pair(b.op("Softmax", [b.op("Sigmoid", [x.name])], axis=1), IMAGE, 1 / 256, -128)
    b.output(b.fitted(b.conv(y, 3), (1, 3, 11, 10), 0.5).name, (1, 3, 11, 10))
    return ["Conv2D"]


FORMS: list[Callable[[NetBuilder], list[str]]] = [
    max_ceil, max_ceil_padded, max_other_numbers, max_dilated, average_in_doubt, average_counting_padding, average_ceil,
    same_that_crops, average_with_ties, average_of_everything, average_of_everything_near_a_tie,
    average_of_everything_with_ties, mean, mean_in_doubt, mean_with_ties, pad_with_a_value,
    pad_of_channels, activations_that_clamp,
    groups_and_dilations, one_axis, rows, product_of_activations, product_and_sum, factors,
    shapes, flattened_output, channels_last_outside, other_transpose, unknown,
]  # fmt: skip


@ACTIVATIONS
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_form(form: Callable[[NetBuilder], list[str]], activations: str, tmp_path: Path) -> None:
    b = NetBuilder(21, activations)
    wanted = form(b)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == wanted, interpreted(built)


def numbers(b: NetBuilder, scale: float, zero_point: int) -> list[str]:
    return [b.constant(F(scale)), b.constant(b.zero(zero_point))]


@ACTIVATIONS
@pytest.mark.parametrize("weights", ["uint8", "int8"])
def test_operator_form(activations: str, weights: str, tmp_path: Path) -> None:
    """Integer operators as a file has them; with int8 on both sides ONNX Runtime cannot take its own option."""
    if activations == "int8" and weights == "uint8":
        pytest.skip("ONNX Runtime has no such kernels")
    b = NetBuilder(31, activations)
    ms = "com.microsoft"
    at, out = numbers(b, 0.02, 3), numbers(b, 0.04, -5)
    shape = (1, 8, 9, 9)
    x = b.input(shape, activations)

    def weight(*size: int) -> list[str]:
        info = np.iinfo(weights)
        values = b.rng.integers(info.min, info.max + 1, size).astype(weights)
        scales = b.rng.uniform(0.002, 0.006, size[0]).astype(F)
        return [b.constant(values), b.constant(scales), b.constant(np.full(size[0], 0, weights))]

    bias = b.constant(b.rng.integers(-999, 999, 8).astype(np.int32))
    y = b.op("QLinearConv", [x, *at, *weight(8, 8, 3, 3), *out, bias], pads=[1, 1, 1, 1])
    z = b.op("QLinearAdd", [x, *at, y, *out, *numbers(b, 0.051, 9)], ms)
    z = b.op("MaxPool", [z], kernel_shape=[2, 2], strides=[2, 2])
    joined = b.op("QLinearConcat", [*out, z, *numbers(b, 0.051, 9), z, *out], ms, axis=1)
    pooled = b.op("QLinearAveragePool", [joined, *out, *out], ms, kernel_shape=[3, 3])
    pooled = b.op("QLinearGlobalAveragePool", [pooled, *out, *numbers(b, 0.02, 1)], ms)
    flat = b.op("Flatten", [pooled])
    last = b.constant(b.rng.integers(-999, 999, 5).astype(np.int32))
    logits = b.op("QGemm", [flat, *numbers(b, 0.02, 1), *weight(5, 16), last, *out], ms, transB=1)
    b.output(logits, (1, 5), activations)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert kinds(built) == ["Conv2D", "Add", "MaxPool2D", "Concat", "AvgPool2D", "AvgPool2D", "Conv2D"]


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 6, 7, 9, 10, 12, 14, 15])  # of one image each
def test_random_networks(seed: int, tmp_path: Path) -> None:
    path = draw_network("onnx", 1000 + seed, "small", tmp_path)[1]
    source, _ = compared(path, count=2)
    rng = np.random.default_rng(seed)
    compared(path, {op.index: "at random" for op in source.operators if rng.random() < 0.15}, count=1)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layers_between_pairs_say_what_would_bring_them_on_the_accelerator(
    kind: str, gates: int, tmp_path: Path
) -> None:
    b = NetBuilder(3)
    x = b.real_input((4, 1, 8))
    weights = [b.constant(b.rng.normal(0, 0.3, (1, gates * 8, 8)).astype(F)) for _ in range(2)]
    b.output(b.pair(b.op(kind, [x.name, *weights], hidden_size=8), (4, 1, 1, 8), 0.01, 0).name, (4, 1, 1, 8))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert [reason for reason in interpreted(built).values() if "tilewright quantize" in reason]
