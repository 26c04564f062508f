"""The formulas behind the lowering, against ONNX Runtime's own kernels: where they could differ, and exhaustively."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.jit.source.onnx_nets import F, NetBuilder
from tilewright.jit.numbers.float_pairs import Term, fit_sum
from tilewright.jit.numbers.float_scaling import float_output, thresholds
from tilewright.jit.numbers.float_tables import add_table, float_pair_table, requantize_table
from tilewright.runtime import interpreters

CONTRIB = "com.microsoft"
ALL = np.arange(-128, 128)


def ran(b: NetBuilder, path: Path, *inputs: NDArray[Any]) -> NDArray[Any]:
    (result,) = interpreters.load("onnxruntime", b.save(path).read_bytes(), "kernel")(list(inputs))
    return result


def critical(b: NetBuilder, count: int, sx: Any, sw: NDArray[Any], sy: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """(accumulators on both sides of random thresholds of each way to multiply the scales, scales of their channels)"""
    found = []
    for scale in ((sx * sw) / sy, sx * (sw / sy), (sx / sy) * sw):
        table = thresholds(scale, np.full(count, -1 << 21), np.full(count, 1 << 21), 0, -128, 127)
        picked = table[np.arange(count), b.rng.integers(0, 255, count)]
        found += [picked, picked - 1]
    return np.concatenate(found), np.tile(sw, 6)


@pytest.mark.parametrize("kind", ["QLinearConv", "QGemm"])
def test_output_stage_at_its_thresholds(kind: str, tmp_path: Path) -> None:
    """``rint(float32(acc) * (sx * sw / sy)) + zy``, multiplied in this order; biases put every accumulator there."""
    for seed in range(6):
        b = NetBuilder(seed)
        sx, sy = F(b.rng.uniform(0.002, 0.2)), F(b.rng.uniform(0.01, 0.5))
        acc, sw = critical(b, 300, sx, b.rng.uniform(1e-4, 0.02, 300).astype(F), sy)
        zero = int(b.rng.integers(-128, 128))
        n = len(acc)
        x = b.input((1, 1, 1, 1) if kind == "QLinearConv" else (1, 1), "uint8")
        weight = np.ones((n, 1, 1, 1) if kind == "QLinearConv" else (n, 1), np.uint8)
        head = [x, b.constant(sx), b.constant(np.uint8(7)), b.constant(weight), b.constant(sw)]
        head.append(b.constant(np.zeros(n, np.uint8)))
        bias, end = b.constant(acc.astype(np.int32)), [b.constant(sy), b.constant(np.uint8(zero + 128))]
        if kind == "QLinearConv":
            y = b.op(kind, [*head, *end, bias])
        else:
            y = b.op(kind, [*head, bias, *end], CONTRIB, transB=1)
        b.output(y, (1, n, 1, 1) if kind == "QLinearConv" else (1, n), "uint8")
        value = np.full((1, 1, 1, 1) if kind == "QLinearConv" else (1, 1), 7, np.uint8)
        got = ran(b, tmp_path / "m.onnx", value).reshape(-1).astype(int) - 128
        np.testing.assert_array_equal(got, float_output(acc, (sx * sw) / sy, zero, -128, 127))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("powers", [False, True])
def test_addition_of_all_pairs(dtype: str, powers: bool, tmp_path: Path) -> None:
    """QLinearAdd rounds after the zero point is added, and rounds differently for uint8 and int8."""
    moved = 128 if dtype == "uint8" else 0
    for seed in range(12):
        b = NetBuilder(seed, dtype)
        scales = [F(2.0 ** b.rng.integers(-5, 0)) if powers else F(b.rng.uniform(0.002, 0.2)) for _ in range(3)]
        zeros = b.rng.integers(-128, 128, 3)
        x, y = b.input((256, 256), dtype), b.input((256, 256), dtype)
        numbers = [[b.constant(s), b.constant(b.zero(int(z)))] for s, z in zip(scales, zeros, strict=True)]
        b.output(b.op("QLinearAdd", [x, *numbers[0], y, *numbers[1], *numbers[2]], CONTRIB), (256, 256), dtype)
        grid = np.meshgrid(ALL + moved, ALL + moved, indexing="ij")
        got = ran(b, tmp_path / "m.onnx", *(v.astype(dtype) for v in grid)).astype(int) - moved
        a, c, d = (float(s) for s in scales)
        i, j, k = (int(z) for z in zeros)
        wanted = add_table((a, c, d), (i, j, k), unsigned=dtype == "uint8")
        np.testing.assert_array_equal(got, np.clip(wanted, -128, 127))
        if powers:
            fitted = fit_sum(wanted, (Term(a / d, i), Term(c / d, j)), -moved, -128, 127, 1)
            assert fitted is not None, "ties are decided behind the zero point"


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_float_addition_and_requantisation_of_all_values(dtype: str, tmp_path: Path) -> None:
    moved = 128 if dtype == "uint8" else 0
    for seed in range(8):
        b = NetBuilder(seed, dtype)
        scales = [float(F(b.rng.uniform(0.002, 0.2))) for _ in range(3)]
        i, j, k = (int(z) for z in b.rng.integers(-128, 128, 3))
        x, y = b.input((256, 256), dtype), b.input((256, 256), dtype)
        total = b.op("Add", [b.dequantise(x, scales[0], b.zero(i)), b.dequantise(y, scales[1], b.zero(j))])
        # two readers keep it from becoming one integer kernel
        b.output(b.quantise(total, scales[2], k), (256, 256), dtype)
        b.output(total, (256, 256))
        moving = b.dequantise(x, scales[0], b.zero(i))
        b.output(b.quantise(moving, scales[2], k), (256, 256), dtype)
        grid = [v.astype(dtype) for v in np.meshgrid(ALL + moved, ALL + moved, indexing="ij")]
        run = interpreters.load("onnxruntime", b.save(tmp_path / "m.onnx").read_bytes(), "kernels")
        added, _, requantised = run(grid)
        wanted = np.clip(float_pair_table(np.add, (scales[0], scales[1], scales[2]), (i, j, k)), -128, 127)
        np.testing.assert_array_equal(added.astype(int) - moved, wanted)
        single = np.clip(requantize_table(scales[0], i, scales[2], k), -128, 127)
        np.testing.assert_array_equal(requantised.astype(int)[:, 0] - moved, single)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_concatenation_is_requantisation(dtype: str, tmp_path: Path) -> None:
    moved = 128 if dtype == "uint8" else 0
    for seed in range(8):
        b = NetBuilder(seed, dtype)
        sx, sy = (float(F(b.rng.uniform(0.002, 0.2))) for _ in range(2))
        i, k = (int(z) for z in b.rng.integers(-128, 128, 2))
        x = b.input((1, 256), dtype)
        numbers = [b.constant(F(sx)), b.constant(b.zero(i))]
        out = [b.constant(F(sy)), b.constant(b.zero(k))]
        b.output(b.op("QLinearConcat", [*out, x, *numbers, x, *out], CONTRIB, axis=1), (1, 512), dtype)
        got = ran(b, tmp_path / "m.onnx", (ALL + moved).astype(dtype)[None]).astype(int)[0] - moved
        np.testing.assert_array_equal(got[:256], np.clip(requantize_table(sx, i, sy, k), -128, 127))
        np.testing.assert_array_equal(got[256:], ALL)


@pytest.mark.parametrize("size", [(7, 7), (3, 5)])
def test_global_average_at_its_thresholds(size: tuple[int, int], tmp_path: Path) -> None:
    count = size[0] * size[1]
    for seed in range(8):
        b = NetBuilder(seed)
        sx = F(b.rng.uniform(0.002, 0.2))
        sy, zx, zy = F(sx * b.rng.uniform(0.05, 0.4)), int(b.rng.integers(0, 256)), int(b.rng.integers(0, 256))
        scale = sx / (sy * F(count))
        table = thresholds(np.array([scale]), np.array([-255 * count]), np.array([255 * count]), zy, 0, 255)[0]
        sums = np.unique(np.concatenate([table, table - 1])) + zx * count
        sums = sums[(sums >= 0) & (sums <= 255 * count)]
        pixels = np.clip(sums[:, None] - 255 * np.arange(count)[None, :], 0, 255).astype(np.uint8)
        shape = (1, len(sums), *size)
        numbers = [b.constant(sx), b.constant(np.uint8(zx)), b.constant(sy), b.constant(np.uint8(zy))]
        x = b.input(shape, "uint8")
        b.output(b.op("QLinearGlobalAveragePool", [x, *numbers], CONTRIB), (1, len(sums), 1, 1), "uint8")
        got = ran(b, tmp_path / "m.onnx", pixels.reshape(shape)).reshape(-1)
        np.testing.assert_array_equal(got, float_output(sums - zx * count, scale, zy, 0, 255))


def test_average_decides_ties_behind_the_zero_point_where_it_is_one_kernel(tmp_path: Path) -> None:
    """QLinearAveragePool adds the zero point ahead of rounding, AveragePool and QuantizeLinear behind it."""
    b = NetBuilder(0)
    numbers = [b.constant(F(0.25)), b.constant(np.uint8(0)), b.constant(F(0.5)), b.constant(np.uint8(3))]
    x = b.input((1, 1, 16, 16), "uint8")
    fused = b.op("QLinearAveragePool", [x, *numbers], CONTRIB, kernel_shape=[1, 1])
    b.output(fused, (1, 1, 16, 16), "uint8")
    apart = b.op("AveragePool", [b.dequantise(x, 0.25, np.uint8(0))], kernel_shape=[1, 1])
    b.output(apart, (1, 1, 16, 16))
    b.output(b.op("QuantizeLinear", [apart, *numbers[2:]]), (1, 1, 16, 16), "uint8")
    value = np.arange(256, dtype=np.uint8)
    run = interpreters.load("onnxruntime", b.save(tmp_path / "m.onnx").read_bytes(), "kernels")
    first, _, second = (v.reshape(-1) for v in run([value.reshape(1, 1, 16, 16)]))
    np.testing.assert_array_equal(first, np.rint(value / 2.0 + 3))
    np.testing.assert_array_equal(second, np.rint(value / 2.0) + 3)
