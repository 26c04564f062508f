"""The formulas behind the lowering, against LiteRT's own kernels: on both sides of their ties, and exhaustively.

Random data hardly ever meets an accumulator for which two ways to multiply the scales differ, so here biases put every
accumulator there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tests.fuzz import TfliteNet
from tests.jit.tflite_models import NONE, RELU, RELU6, SAME, VALID, TfliteBuilder, litert
from tilewright.jit.importer import import_model
from tilewright.jit.reference import evaluate

F = np.float32
CHANNELS = 2000
DRAWS = 40  #: of scales and zero points, one in three with powers of two
STEPS = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}

both = pytest.mark.parametrize("dtype", ["int8", "uint8"])


def differing(b: TfliteBuilder, inputs: list[int], output: int, values: list[NDArray[Any]], path: Path) -> int:
    """Elements of the integer graph's result that differ from LiteRT's; the accelerator must take the operator."""
    b.save(path, inputs, [output])
    (wanted,) = litert(path, values)
    model = import_model(path)
    assert not model.host_ops
    got = evaluate(model.graph, {spec.name: value for spec, value in zip(model.inputs, values, strict=True)})
    return int((got[model.outputs[0].name].reshape(wanted.shape) != wanted).sum())


def scale(b: TfliteBuilder) -> np.float32:
    if b.rng.integers(3) == 0:
        return F(2.0 ** -b.rng.integers(2, 9))
    return F(np.exp(b.rng.uniform(np.log(0.002), np.log(0.5))))


def zero(dtype: str) -> int:
    return 128 if dtype == "uint8" else 0


def every(dtype: str) -> NDArray[Any]:
    """All 256 values."""
    return (np.arange(256) - 128 + zero(dtype)).astype(dtype)


def tensor(b: TfliteBuilder, shape: list[int], dtype: str, like: int | None = None) -> int:
    if like is not None:
        return b.tensor(shape, b.tensors[like]["scale"], b.tensors[like]["zero_point"], dtype)
    return b.tensor(shape, scale(b), int(b.rng.integers(-128, 128)) + zero(dtype), dtype)


def weighted(kind: str, dtype: str, per_channel: bool, seed: int, path: Path, few_bits: bool) -> int:
    """One weight of 1 a channel: the accumulator is the bias, next to a tie of the float64 product of the scales.

    ``dtype``: of the weights; of the activations too, unless it is int4.
    """
    b = TfliteBuilder(seed)
    stored, dtype = dtype, "int8" if dtype == "int4" else dtype
    if few_bits:
        sx, sw, sy = F(2.0**-9), F(2.0**-13), F(1)
    else:
        sx, sw, sy = F(b.rng.uniform(0.001, 0.002)), F(b.rng.uniform(8e-5, 12e-5)), F(b.rng.uniform(0.8, 1.2))
    ties = (b.rng.integers(-120, 120, CHANNELS) + 0.5) / (float(sx) * float(sw) / float(sy))
    reach = b.rng.choice([1, 60], CHANNELS)
    bias = np.clip(np.round(ties + reach * b.rng.uniform(-1, 1, CHANNELS)), -(1 << 30), 1 << 30).astype(np.int32)
    dense = kind == "FULLY_CONNECTED"
    x = b.tensor([1, 1] if dense else [1, 1, 1, 1], sx, 7 + zero(dtype), dtype)
    shapes = {
        "CONV_2D": [CHANNELS, 1, 1, 1],
        "DEPTHWISE_CONV_2D": [1, 1, 1, CHANNELS],
        "FULLY_CONNECTED": [CHANNELS, 1],
    }
    shape = shapes[kind]
    scales: Any = np.full(CHANNELS, sw, F) if per_channel else sw
    axis = 3 if kind.startswith("DEPTHWISE") else 0
    w = b.tensor(shape, scales, zero(dtype), stored, np.full(shape, 1 + zero(dtype), dtype), axis)
    sb: Any = np.full(CHANNELS, sx * sw, F) if per_channel else F(sx * sw)
    offset = int(b.rng.integers(-20, 20))
    y = b.tensor([1, CHANNELS] if dense else [1, 1, 1, CHANNELS], sy, offset + zero(dtype), dtype)
    options = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}.get(
        kind, "FullyConnectedOptions"
    )
    fields: dict[str, Any] = {} if dense else {"Padding": VALID, **STEPS}
    if kind == "DEPTHWISE_CONV_2D":
        fields["DepthMultiplier"] = CHANNELS
    b.op(kind, [x, w, b.tensor([CHANNELS], sb, 0, "int32", bias)], y, options, **fields)
    return differing(b, [x], y, [np.full(b.tensors[x]["shape"], 7 + zero(dtype), dtype)], path)


@pytest.mark.parametrize("few_bits", [False, True])
@pytest.mark.parametrize(
    "dtype,per_channel", [("int8", True), ("int8", False), ("uint8", False), ("int4", True), ("int4", False)]
)
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_weighted_layers_at_their_ties(
    kind: str, dtype: str, per_channel: bool, few_bits: bool, tmp_path: Path
) -> None:
    """uint8 convolutions multiply scales in float32, the others in float64; dense layers scale in float64 as well."""
    for seed in range(3):
        assert weighted(kind, dtype, per_channel, seed, tmp_path / "m.tflite", few_bits) == 0


@both
@pytest.mark.parametrize("kind", ["RELU", "RELU6", "QUANTIZE", "QUANTIZE other"])
def test_changes_of_scale(kind: str, dtype: str, tmp_path: Path) -> None:
    """All 256 inputs. RELU and its kin divide the scales in float32."""
    result = {"int8": "uint8", "uint8": "int8"}[dtype] if kind.endswith("other") else dtype
    for seed in range(DRAWS * 2):
        b = TfliteBuilder(seed)
        x, y = tensor(b, [1, 16, 16, 1], dtype), tensor(b, [1, 16, 16, 1], result)
        b.op(kind.split()[0], [x], y, "QuantizeOptions" if kind.startswith("Q") else "")
        assert differing(b, [x], y, [every(dtype).reshape(1, 16, 16, 1)], tmp_path / "m.tflite") == 0


@both
def test_sums_of_all_pairs(dtype: str, tmp_path: Path) -> None:
    for seed in range(DRAWS // 2):
        b = TfliteBuilder(seed)
        shape = [1, 256, 256, 1]
        a, c, y = (tensor(b, shape, dtype) for _ in range(3))
        b.op("ADD", [a, c], y, "AddOptions", FusedActivationFunction=int(b.rng.choice([NONE, RELU])))
        pairs = [np.ascontiguousarray(v.reshape(shape)) for v in np.meshgrid(every(dtype), every(dtype))]
        assert differing(b, [a, c], y, pairs, tmp_path / "m.tflite") == 0


@both
def test_means_of_many_sums(dtype: str, tmp_path: Path) -> None:
    info = np.iinfo(dtype)
    for seed in range(DRAWS * 2):
        b = TfliteBuilder(seed)
        shape = [1, int(b.rng.integers(1, 9)), int(b.rng.integers(1, 9)), 400]
        x = tensor(b, shape, dtype)
        y = tensor(b, [1, 400], dtype, like=x if b.rng.integers(3) == 0 else None)
        b.op("MEAN", [x, b.constant(np.array([1, 2], np.int32))], y, "ReducerOptions", KeepDims=0)
        low, high = np.sort(b.rng.integers(info.min, info.max + 1, 2))
        value = b.rng.integers(low, high + 1, shape).astype(dtype)
        assert differing(b, [x], y, [value], tmp_path / "m.tflite") == 0


@both
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools(kind: str, dtype: str, tmp_path: Path) -> None:
    info = np.iinfo(dtype)
    for seed in range(DRAWS):
        b = TfliteBuilder(seed)
        size, stride, padding = int(b.rng.integers(1, 6)), int(b.rng.integers(1, 4)), int(b.rng.choice([SAME, VALID]))
        count = -(-24 // stride) if padding == SAME else (24 - size) // stride + 1
        x = tensor(b, [1, 24, 24, 3], dtype)
        y = tensor(b, [1, count, count, 3], dtype, like=x)
        b.op(
            kind, [x], y, "Pool2DOptions", Padding=padding, StrideH=stride, StrideW=stride, FilterHeight=size,
            FilterWidth=size, FusedActivationFunction=int(b.rng.choice([NONE, RELU, RELU6])),
        )  # fmt: skip
        value = b.rng.integers(info.min, info.max + 1, (1, 24, 24, 3)).astype(dtype)
        assert differing(b, [x], y, [value], tmp_path / "m.tflite") == 0


@both
@pytest.mark.parametrize("point", [0, 1, 255])
def test_floats_of_any_size(point: int, dtype: str, tmp_path: Path) -> None:
    """LiteRT quantises them by way of int32, and what does not fit that becomes what the CPU makes of it."""
    sizes = [1e5, 4.2e7, 4.29e7, 4.3e7, 8.6e7, 1e9, 3e38]
    x = np.array([np.nan, np.inf, -np.inf, *sizes, *(-size for size in sizes)], F).reshape(1, -1)
    net = TfliteNet(seed=1, dtype=dtype)
    real = net.input(x.shape, dtype="float32")
    path = net.save(
        tmp_path / "q.tflite", [net.quantize(real, dtype, scale=0.02, zero_point=point - 128 + zero(dtype))]
    )
    model = import_model(path)
    got = evaluate(model.graph, {model.inputs[0].name: x})[model.outputs[0].name]
    assert np.array_equal(got, litert(path, [x])[0])


@pytest.mark.parametrize("room, taken", [(700, True), (0, False)])
@both
def test_a_zero_point_on_sums_at_int32_s_end(dtype: str, room: int, taken: bool, tmp_path: Path) -> None:
    # LiteRT wraps where it adds the zero point to a scaled sum, so that a great sum gives the least result
    b = TfliteBuilder()
    sx, sw = (F(1), F(1 - 2.0**-24)) if dtype == "uint8" else (F(1 - 2.0**-13), F(1 + 2.0**-13))
    x = b.tensor([1, 16, 16, 1], sx, zero(dtype), dtype)
    w = b.tensor([2, 1, 1, 1], sw, zero(dtype), dtype, np.full((2, 1, 1, 1), zero(dtype) + 1, dtype))
    bias = np.array([(1 << 31) - 1 - 128 - room, 128 + room - (1 << 31)], np.int32)
    ends = [b.tensor([2], sx * sw, dtype="int32", data=bias)]
    y = b.tensor([1, 16, 16, 2], F(1), zero(dtype) + 127, dtype)
    b.op("CONV_2D", [x, w, *ends], y, "Conv2DOptions", Padding=VALID, FusedActivationFunction=NONE, **STEPS)
    values = every(dtype).reshape(1, 16, 16, 1)
    path = b.save(tmp_path / "ends.tflite", [x], [y])
    (wanted,) = litert(path, [values])
    top = every(dtype)[-1]
    assert (wanted[..., 0] == top).all() == taken
    executable = tilewright.compile(path, "tiny", cache=False, compare=False)
    np.testing.assert_array_equal(executable.run(values)[0], wanted)
    assert bool(import_model(path).host_ops) == (not taken)


@pytest.mark.parametrize("exponent", [-29, -31, -33, -120])
@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_N1_TO_1"])
@both
def test_bounds_beyond_int32(kind: str, dtype: str, exponent: int, tmp_path: Path) -> None:
    # which LiteRT converts to int32 before it clamps
    b = TfliteBuilder()
    x, y = (b.tensor([1, 16, 16, 1], F(2.0**exponent), zero(dtype) + point, dtype) for point in (0, -9))
    b.op(kind, [x], y)
    assert differing(b, [x], y, [every(dtype).reshape(1, 16, 16, 1)], tmp_path / "far.tflite") == 0
