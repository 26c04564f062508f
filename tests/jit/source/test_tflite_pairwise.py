"""Operators of two tensors equal LiteRT's own kernels: all pairs of values, broadcasting, numbers per channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.source.test_tflite_arithmetic import DRAWS, STEPS, both, differing, every, tensor
from tests.jit.source.test_tflite_source import assert_equal, conv, places
from tests.jit.tflite_models import NONE, RELU, RELU6, VALID, TfliteBuilder

OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
KINDS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")


def operator(b: TfliteBuilder, kind: str, inputs: list[int], output: int) -> int:
    """``kind`` with a fused activation, where it can have one."""
    fused = {"FusedActivationFunction": int(b.rng.choice([NONE, RELU, RELU6]))} if kind in OPTIONS else {}
    return b.op(kind, inputs, output, OPTIONS.get(kind, ""), **fused)


def alike(kind: str, x: int) -> int | None:
    """What a result has its scale from: LiteRT's extremes have one for all."""
    return x if kind in ("MAXIMUM", "MINIMUM") else None


@both
@pytest.mark.parametrize("kind", KINDS)
def test_all_pairs(kind: str, dtype: str, tmp_path: Path) -> None:
    for seed in range(DRAWS // 2):
        b = TfliteBuilder(seed)
        shape = [1, 256, 256, 1]
        a = tensor(b, shape, dtype)
        c, y = (tensor(b, shape, dtype, alike(kind, a)) for _ in range(2))
        operator(b, kind, [a, c], y)
        pairs = [np.ascontiguousarray(v.reshape(shape)) for v in np.meshgrid(every(dtype), every(dtype))]
        assert differing(b, [a, c], y, pairs, tmp_path / "m.tflite") == 0


@both
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_broadcasting(kind: str, swapped: bool, dtype: str, tmp_path: Path) -> None:
    """One operand has a single row, column, channel, or several of them, or fewer axes."""
    for seed, other in enumerate(
        ([1, 1, 1, 9], [1, 1, 7, 9], [1, 5, 1, 9], [1, 5, 7, 1], [1, 1, 1, 1], [7, 9], [9], [1, 1, 7, 1])
    ):
        b = TfliteBuilder(seed)
        a = tensor(b, [1, 5, 7, 9], dtype)
        c, y = tensor(b, other, dtype, alike(kind, a)), tensor(b, [1, 5, 7, 9], dtype, alike(kind, a))
        inputs = [c, a] if swapped else [a, c]
        operator(b, kind, inputs, y)
        values = [b.rng.choice(every(dtype), b.tensors[t]["shape"]) for t in inputs]
        assert differing(b, inputs, y, values, tmp_path / "m.tflite") == 0


@both
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
def test_numbers_per_channel(kind: str, swapped: bool, dtype: str, tmp_path: Path) -> None:
    """All values of the tensor with all values of the constant."""
    for seed in range(DRAWS // 2):
        b = TfliteBuilder(seed)
        shape = [1, 16, 16, 256]
        a = tensor(b, shape, dtype)
        c = tensor(b, [256], dtype)
        b.tensors[c]["data"] = every(dtype)
        y = tensor(b, shape, dtype)
        operator(b, kind, [c, a] if swapped else [a, c], y)
        value = np.broadcast_to(every(dtype).reshape(1, 16, 16, 1), shape).copy()
        assert differing(b, [a], y, [value], tmp_path / "m.tflite") == 0


@both
def test_slopes_per_channel(dtype: str, tmp_path: Path) -> None:
    """All values of the tensor with all slopes."""
    for seed in range(DRAWS // 2):
        b = TfliteBuilder(seed)
        shape = [1, 16, 16, 256]
        x, slopes, y = tensor(b, shape, dtype), tensor(b, [1, 1, 256], dtype), tensor(b, shape, dtype)
        b.tensors[slopes]["data"] = every(dtype).reshape(1, 1, 256)
        b.op("PRELU", [x, slopes], y)
        value = np.broadcast_to(every(dtype).reshape(1, 16, 16, 1), shape).copy()
        assert differing(b, [x], y, [value], tmp_path / "m.tflite") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_squeeze_and_excite(kind: str, tmp_path: Path) -> None:
    """Compiled: an image and what is made of its mean."""
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = conv(b, x, 6, [1, 6, 6])
    same = b.tensors[y]
    pooled = b.tensor([1, 1, 1, 6], same["scale"], same["zero_point"])
    b.op("MEAN", [y, b.constant(np.array([1, 2], np.int32))], pooled, "ReducerOptions", KeepDims=1)
    z = b.tensor([1, 6, 6, 6], *((same["scale"], same["zero_point"]) if alike(kind, y) else (0.5, 3)))
    operator(b, kind, [y, pooled], z)
    artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, 6, 6])]))
    assert set(places(artifact).values()) == {"accelerator"}


@both
def test_a_block_as_efficientnet_has_it(dtype: str, tmp_path: Path) -> None:
    """x times sigmoid(x), squeeze-and-excite, a projection and a residual sum: one program, nothing on the host."""
    b = TfliteBuilder(seed=6)
    moved = 128 if dtype == "uint8" else 0

    def convolved(x: int, channels: int, shape: list[int]) -> int:
        weight = b.tensor(
            [channels, 1, 1, b.tensors[x]["shape"][3]], 0.01, moved, dtype,
            b.rng.integers(-100, 100, (channels, 1, 1, b.tensors[x]["shape"][3])).astype(np.int16).astype(dtype),
        )  # fmt: skip
        y = b.tensor(shape, 0.05, moved + 4, dtype)
        bias = b.bias(x, np.full(1, 0.01, np.float32), channels)
        return b.op("CONV_2D", [x, weight, bias], y, "Conv2DOptions", Padding=VALID, **STEPS)

    def gated(x: int, gate: int) -> int:
        y = b.tensor(b.tensors[gate]["shape"], 1 / 256, moved - 128, dtype)
        b.op("LOGISTIC", [gate], y)
        z = b.tensor(b.tensors[x]["shape"], 0.03, moved - 100, dtype)
        return b.op("MUL", [x, y], z, "MulOptions")

    x = b.tensor([1, 8, 9, 6], 0.04, moved - 3, dtype)
    y = convolved(x, 20, [1, 8, 9, 20])
    y = gated(y, y)
    pooled = b.tensor([1, 1, 1, 20], 0.01, moved - 90, dtype)
    b.op("MEAN", [y, b.constant(np.array([1, 2], np.int32))], pooled, "ReducerOptions", KeepDims=1)
    inner = convolved(pooled, 5, [1, 1, 1, 5])
    y = gated(y, convolved(gated(inner, inner), 20, [1, 1, 1, 20]))
    out = b.tensor([1, 8, 9, 6], 0.06, moved + 1, dtype)
    b.op("ADD", [x, convolved(y, 6, [1, 8, 9, 6])], out, "AddOptions")
    artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], [out]), config="pynq-z2")
    assert set(places(artifact).values()) == {"accelerator"}
    assert len(artifact.programs) == 1
