"""Results in float32 that change their shape before they are quantised, and what ONNX Runtime's reshapes hang on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds, run
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

both = pytest.mark.parametrize("dtype", ["uint8", "int8"])


def node_kinds(path: Path) -> list[str]:
    return [node.kind for node in OnnxSource(path).prepared.nodes]


@both
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activation", ["", "Relu", "Clip"])
@pytest.mark.parametrize("raw", [False, True], ids=["pool ahead", "input ahead"])
def test_rows_of_a_tensor_of_three_axes(
    raw: bool, activation: str, per_channel: bool, dtype: str, tmp_path: Path
) -> None:
    """ONNX Runtime makes a Gemm of MatMul and Add, between reshapes, and quantises behind the second."""
    b = NetBuilder(3, dtype)
    x = b.real_input((1, 6, 10, 20) if raw else (1, 6, 20, 40))
    read = x.name if raw else b.op("MaxPool", [x.name], kernel_shape=[2, 2], strides=[2, 2])
    if not raw:
        read = b.pair(read, (1, 6, 10, 20), x.scale, 3).name
    weight, scales = b.weight((20, 9), per_channel=per_channel, axis=1)
    y = b.op("Add", [b.op("MatMul", [read, weight]), b.bias(x, scales, 9)])
    if activation:
        y = b.op(activation, [y, *([b.constant(F(-0.5)), b.constant(F(1.5))] if activation == "Clip" else [])])
    b.output(b.pair(y, (1, 6, 10, 9), 0.031, 7).name, (1, 6, 10, 9))
    path = b.save(tmp_path / "m.onnx")
    _, built = compared(path, count=8)
    assert interpreted(built) == {}
    assert kinds(built).count("Conv2D") == 1


@pytest.mark.parametrize("seed", range(6))
def test_an_integer_gemm_to_float32_is_proven(seed: int, tmp_path: Path) -> None:
    """Its sums times one float32 number, which is rounded, and the quotient again: ties included, every pair."""
    rng = np.random.default_rng(seed)
    b = NetBuilder(seed, "uint8")
    x = b.input((1, 256, 256, 2), "uint8")
    scale = F(2.0**-5) if seed % 2 else F(rng.uniform(0.01, 0.1))
    values = rng.integers(-60, 61, (2, 12)).astype(np.int8)
    scales = F(2.0 ** rng.integers(-9, -5, 12)) if seed % 2 else rng.uniform(0.001, 0.02, 12).astype(F)
    weight = b.dequantise(b.constant(values), scales, np.zeros(12, np.int8), axis=1)
    given = rng.integers(-900, 900, 12).astype(np.int32)
    bias = b.dequantise(b.constant(given), scale * scales, np.zeros(12, np.int32), axis=0)
    y = b.op("Add", [b.op("MatMul", [b.dequantise(x, scale, b.zero(int(rng.integers(-99, 99)))), weight]), bias])
    y = b.op("Relu", [y])
    b.output(b.quantise(y, float(scale * scales.mean()) * 60.7, -128), (1, 256, 256, 12), "uint8")
    path = b.save(tmp_path / "m.onnx")
    assert "QGemm" in node_kinds(path)
    assert "QuantizeLinear" in node_kinds(path)
    source = OnnxSource(path, exact="proven")
    built = source.build({})
    every = np.arange(256).astype(np.uint8)
    pairs = np.stack(np.meshgrid(every, every, indexing="ij"), axis=-1)[None]
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([pairs])
    assert np.array_equal(run(source, built, [pairs])[0], wanted)
    (layer,) = OnnxSource(path).build({}).exactness
    assert layer.exact >= 10


@both
@pytest.mark.parametrize("move", ["Flatten", "Transpose", "Reshape", "Reshape and Relu", "twice"])
@pytest.mark.parametrize("kind", ["Conv", "Max"])
def test_a_result_that_changes_its_shape_before_it_is_quantised(
    kind: str, move: str, dtype: str, tmp_path: Path
) -> None:
    b = NetBuilder(5, dtype)
    x = b.real_input((1, 8, 6, 5))
    if kind == "Conv":
        weight, scales = b.weight((8, 8, 1, 1))
        y = b.op("Conv", [x.name, weight, b.bias(x, scales, 8)])
    else:
        y = b.op("Max", [x.name, b.real_input((1, 8, 6, 5)).name])
    shape: tuple[int, ...] = (1, 8, 6, 5)
    if move == "Flatten":
        y, shape = b.op("Flatten", [y]), (1, 240)
    if move in ("Transpose", "twice"):
        y, shape = b.op("Transpose", [y], perm=[0, 2, 3, 1]), (1, 6, 5, 8)
    if move.startswith("Reshape") or move == "twice":
        y, shape = b.op("Reshape", [y, b.constant(np.array([1, 48, 5]))]), (1, 48, 5)
    if move == "Reshape and Relu":
        y = b.op("Relu", [y])
    b.output(b.pair(y, shape, 0.043, -7).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    assert interpreted(built) == {}
    assert ("Conv2D" if kind == "Conv" else "Maximum") in kinds(built)
