"""Layers whose float32 result meets something else than a quantiser: on the accelerator where close results will do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tw
from tests.jit.onnx_models import QdqBuilder
from tilewright.jit.source import open_source
from tilewright.runtime.artifact import placed_macs, unproven

Build = Callable[[QdqBuilder, str], str]
CHANNELS, SIZE = 8, 8


def number(b: QdqBuilder, *values: float) -> str:
    return b.constant(np.asarray(values, np.float32))


def per_channel(b: QdqBuilder, rank: int = 3) -> str:
    return b.constant(b.rng.uniform(0.5, 1.5, (CHANNELS,) + (1,) * (rank - 1)).astype(np.float32))


def quantised(b: QdqBuilder, y: str, scale: float, zero_point: int) -> str:
    """``zero_point``: as of int8."""
    return b.quantised(y, scale, zero_point + (128 if b.activations == np.uint8 else 0))


def conv(b: QdqBuilder, x: str, kernel: int = 3, channels: int = CHANNELS, bias: bool = True, **rest: Any) -> str:
    """A convolution whose operands are quantised; of a bias in float32 as TensorRT and ModelOpt leave it."""
    w, _ = b.weight((channels, CHANNELS, kernel, kernel), scale=0.004)
    operands = [x, w, *([b.constant(b.rng.normal(0, 0.3, channels).astype(np.float32))] if bias else [])]
    return b.node("Conv", operands, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, **rest)


def behind(b: QdqBuilder, y: str) -> str:
    """A second convolution, with a quantiser ahead."""
    return conv(b, quantised(b, y, 0.03, -20))


def hard_swish(b: QdqBuilder, x: str) -> str:
    y = conv(b, x)
    return b.node("Mul", [y, b.node("HardSigmoid", [y], alpha=1 / 6, beta=0.5)])


def gelu(b: QdqBuilder, x: str) -> str:
    y = conv(b, x)
    e = b.node("Erf", [b.node("Div", [y, number(b, np.sqrt(2.0))])])
    return b.node("Mul", [b.node("Mul", [y, b.node("Add", [e, number(b, 1.0)])]), number(b, 0.5)])


def silu(b: QdqBuilder, x: str) -> str:
    y = conv(b, x)
    return b.node("Mul", [y, b.node("Sigmoid", [y])])


def batch_norm(b: QdqBuilder, x: str) -> str:
    y = conv(b, x)
    scale, mean, variance = (b.rng.uniform(0.5, 1.5, CHANNELS).astype(np.float32) for _ in range(3))
    return b.node("BatchNormalization", [y, *map(b.constant, (scale, mean - 1, mean, variance))])


def squeeze_and_excite(b: QdqBuilder, x: str) -> str:
    y = b.node("Relu", [conv(b, x)])
    s = quantised(b, b.node("GlobalAveragePool", [y]), 0.01, -128)
    s = b.node("Relu", [conv(b, s, 1)])
    return b.node("Mul", [y, b.node("HardSigmoid", [conv(b, quantised(b, s, 0.02, -128), 1)])])


def resize(b: QdqBuilder, x: str) -> str:
    y = b.node("Relu", [conv(b, x)])
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return b.node("Resize", [y, "", number(b, 1, 1, 2, 2)], **attributes)


def gemm(b: QdqBuilder, x: str) -> str:
    y = quantised(b, b.node("Flatten", [b.node("GlobalAveragePool", [x])]), 0.01, 3)
    w, _ = b.weight((16, CHANNELS))
    y = b.node("Gemm", [y, w, b.constant(b.rng.normal(0, 0.3, 16).astype(np.float32))], transB=1)
    y = b.node("Mul", [y, b.node("Sigmoid", [y])])
    w, _ = b.weight((16, 12), axis=1)
    return b.node("Add", [b.node("MatMul", [quantised(b, y, 0.02, -3), w]), number(b, 0.25)])


def block(b: QdqBuilder, x: str, down: bool) -> str:
    """A residual block as TensorRT and ModelOpt quantise it: ahead of convolutions and on the residual, and not what is
    added to that."""
    ahead = quantised(b, x, 0.03, -128)
    y = b.node("Relu", [conv(b, ahead, strides=[1 + down] * 2)])
    y = conv(b, quantised(b, y, 0.03, -128))
    return b.node("Relu", [b.node("Add", [conv(b, ahead, 1, strides=[2, 2]) if down else ahead, y])])


def resnet8(b: QdqBuilder, x: str) -> str:
    y = b.node("Relu", [conv(b, x)])
    for down in (False, True, True):
        y = block(b, y, down)
    y = b.node("Flatten", [b.node("GlobalAveragePool", [y])])
    w, _ = b.weight((10, CHANNELS))
    return b.node("Gemm", [quantised(b, y, 0.02, -128), w, number(b, *range(10))], transB=1)


def split_and_joined(b: QdqBuilder, x: str) -> str:
    """A block of YOLO's: a half of the channels goes round a convolution."""
    y = silu(b, x)
    halves = [b.name("half") for _ in range(2)]
    b.nodes.append(helper.make_node("Split", [y], halves, axis=1))
    w, _ = b.weight((CHANNELS // 2, CHANNELS // 2, 3, 3))
    z = b.node("Conv", [quantised(b, halves[1], 0.03, -20), w], kernel_shape=[3, 3], pads=[1] * 4)
    z = b.node("Mul", [z, b.node("Sigmoid", [z])])
    return conv(b, quantised(b, b.node("Concat", [halves[0], b.node("Add", [halves[1], z])], axis=1), 0.03, 0))


def attention(b: QdqBuilder, x: str) -> str:
    """Scores, softmax and values of one head, quantised ahead of the products alone."""
    w = [b.weight((CHANNELS, CHANNELS), axis=1)[0] for _ in range(3)]
    rows = b.node("Reshape", [x, b.constant(np.array([1, SIZE * SIZE, CHANNELS]))])
    q, k, v = (quantised(b, b.node("MatMul", [rows, one]), 0.05, 0) for one in w)
    scores = b.node("MatMul", [q, b.node("Transpose", [k], perm=[0, 2, 1])])
    shares = b.node("Softmax", [b.node("Mul", [scores, number(b, 0.35)])], axis=-1)
    return b.node("Add", [rows, b.node("MatMul", [quantised(b, shares, 1 / 256, -128), v])])


BODIES: dict[str, Build] = {
    "residual": lambda b, x: b.node("Add", [x, conv(b, x)]),
    "two_residuals": lambda b, x: behind(b, b.node("Relu", [b.node("Add", [conv(b, x, 1), conv(b, x)])])),
    "silu": lambda b, x: behind(b, silu(b, x)),
    "silu_at_the_end": silu,
    "hard_swish": lambda b, x: behind(b, hard_swish(b, x)),
    "sigmoid": lambda b, x: b.node("Sigmoid", [conv(b, x)]),
    "gelu": lambda b, x: behind(b, gelu(b, x)),
    "prelu": lambda b, x: behind(b, b.node("PRelu", [conv(b, x), per_channel(b)])),
    "leaky_relu": lambda b, x: behind(b, b.node("LeakyRelu", [conv(b, x)], alpha=0.1)),
    "batch_norm": lambda b, x: behind(b, b.node("Relu", [batch_norm(b, x)])),
    "add_constant": lambda b, x: behind(b, b.node("Add", [conv(b, x), per_channel(b)])),
    "mul_constant": lambda b, x: behind(b, b.node("Mul", [conv(b, x), number(b, 0.7)])),
    "average_pool": lambda b, x: behind(
        b, b.node("AveragePool", [b.node("Relu", [conv(b, x)])], kernel_shape=[2, 2], strides=[2, 2])
    ),
    "resize": lambda b, x: behind(b, resize(b, x)),
    "squeeze_and_excite": lambda b, x: behind(b, squeeze_and_excite(b, x)),
    "concat": lambda b, x: b.node("Concat", [conv(b, x), conv(b, x)], axis=1),
    "gemm": gemm,
    "resnet8": resnet8,
    "split_and_joined": split_and_joined,
    "attention": attention,
    "float_output": lambda b, x: conv(b, x),
}


def saved(path: Path, body: Build, activations: str = "int8") -> Path:
    b = QdqBuilder(seed=3, activations=activations)
    zero = 3 if activations == "int8" else 131
    y = body(b, b.input([1, CHANNELS, SIZE, SIZE], "float32", 0.02, zero))
    ranks: dict[Build, int] = {gemm: 2, resnet8: 2, attention: 3}
    rank = ranks.get(body, 4)
    return b.save(path, y, [f"d{k}" for k in range(rank)])  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "activations"),
    [*((name, "int8") for name in BODIES), ("squeeze_and_excite", "uint8"), ("resnet8", "uint8")],
)
def test_all_multiplications_are_on_the_accelerator_and_the_difference_is_told(
    name: str, activations: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", BODIES[name], activations)
    exe = tw.compile(path, "tiny", cache=False, exact="close")
    here, everywhere = placed_macs(exe.artifact)
    assert here == everywhere > 0
    assert [op["name"] for op in exe.artifact.options["operators"]] == [op.name for op in open_source(path).operators]
    (measured,) = exe.artifact.options["measured"]
    assert 0 < measured["differ"] <= measured["elements"]
    assert measured["snr_db"] > 20
    assert unproven(exe.artifact)


def added(path: Path) -> set[str]:
    """The float32 tensors that close results take 8 bits for."""
    operators = open_source(path, exact="close").operators
    return {op.name.split("/")[0] for op in operators if op.added}


def test_what_the_accelerator_has_no_form_for_stays_in_float32(tmp_path: Path) -> None:
    """Of a norm that is written out, and of the softmax and its scaling, nothing becomes a table between CPU operators;
    what the layers ahead of them give is 8 bits."""
    b = QdqBuilder(seed=3)
    x = b.input([1, 4, CHANNELS], "float32", 0.02, 3)
    first = b.node("MatMul", [x, b.weight((CHANNELS, CHANNELS), axis=1)[0]])
    squares = b.node("Pow", [first, number(b, 2.0)])
    mean = b.node("Add", [b.node("ReduceMean", [squares], axes=[-1], keepdims=1), number(b, 1e-5)])
    norm = b.node("Div", [first, b.node("Sqrt", [mean])])
    second = b.node("MatMul", [quantised(b, norm, 0.02, 0), b.weight((CHANNELS, CHANNELS), axis=1)[0]])
    y = b.node("Softmax", [b.node("Mul", [second, number(b, 0.3)])], axis=-1)
    path = b.save(tmp_path / "net.onnx", y, [1, 4, CHANNELS])
    assert added(path) == {first, second}
    exe = tw.compile(path, "tiny", cache=False, exact="close")
    here, everywhere = placed_macs(exe.artifact)
    assert here == everywhere > 0


def test_a_quantiser_of_the_file_is_the_one_for_all_that_read_a_tensor(tmp_path: Path) -> None:
    b = QdqBuilder(seed=3)
    y = b.node("Relu", [conv(b, b.input([1, CHANNELS, SIZE, SIZE], "float32", 0.02, 3))])
    ahead = quantised(b, y, 0.03, -128)
    total = b.node("Add", [y, conv(b, ahead)])
    path = b.save(tmp_path / "net.onnx", total, [1, CHANNELS, SIZE, SIZE])
    source = open_source(path, exact="close")
    quantisers = [op.name for op in source.operators if op.added and op.kind == "QuantizeLinear"]
    assert len(quantisers) == 2  # of the second convolution and of the sum
    assert not any(name.startswith(y) for name in quantisers)


def test_a_file_that_is_whole_on_the_accelerator_gets_nothing_added(tmp_path: Path) -> None:
    b = QdqBuilder(seed=3, activations="uint8")
    y = quantised(b, conv(b, b.input([1, CHANNELS, SIZE, SIZE], "float32", 0.02, 131), bias=False), 0.03, 3)
    path = b.save(tmp_path / "net.onnx", y, [1, CHANNELS, SIZE, SIZE])
    assert added(path) == set()
    assert tw.compile(path, "tiny", cache=False, exact="close").artifact.options["compared"].startswith("equal to")


def test_a_batch_is_taken_apart_with_what_is_added(tmp_path: Path) -> None:
    b = QdqBuilder(seed=3)
    x = b.input([3, CHANNELS, SIZE, SIZE], "float32", 0.02, 3)
    path = b.save(tmp_path / "net.onnx", b.node("Add", [x, conv(b, x)]), [3, CHANNELS, SIZE, SIZE])
    exe = tw.compile(path, "tiny", cache=False, exact="close")
    here, everywhere = placed_macs(exe.artifact)
    assert (exe.artifact.batch, here) == (3, everywhere)
    (measured,) = exe.artifact.options["measured"]
    assert measured["snr_db"] > 30
