"""Weights of 4 and 2 bits: what the interpreters make of them, and packed where the Config has such weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz.flatbuffer import NARROW, packed
from tests.jit.source.onnx_nets import NetBuilder
from tests.jit.source.onnx_run import compared
from tests.jit.source.test_tflite_source import assert_equal
from tests.jit.tflite_models import NONE, SAME, TfliteBuilder
from tilewright.checking import reference_outputs
from tilewright.jit.errors import ModelError, PlaceError
from tilewright.jit.graph import Conv2D, Interpreted
from tilewright.jit.kernels.weight_bits import MOST_PARTS, weight_parts, weight_range
from tilewright.jit.source.tflite.file import unpacked

STEPS = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
CONVS = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}


def layer(b: TfliteBuilder, kind: str, x: int, dtype: str, channels: int = 9, zero_point: int = 0) -> int:
    """One layer of 3x3 windows, or over all that there is, with weights over their whole range."""
    shape = b.tensors[x]["shape"]
    depth = shape[3] if kind in CONVS else int(np.prod(shape))
    if kind == "DEPTHWISE_CONV_2D":
        channels, axis, form = depth, 3, [1, 3, 3, depth]
    else:
        axis, form = 0, [channels, 3, 3, depth] if kind in CONVS else [channels, depth]
    w, scales = b.weights(form, axis, 0.2 / 2 ** (NARROW.get(dtype, 8) - 1), dtype)
    b.tensors[w]["zero_point"] = zero_point
    y = b.tensor([*shape[:3], channels] if kind in CONVS else [1, channels], 0.3, 4)
    fields: dict[str, Any] = {"Padding": SAME, **STEPS} if kind in CONVS else {}
    if kind == "DEPTHWISE_CONV_2D":
        fields["DepthMultiplier"] = 1
    options = CONVS.get(kind, "FullyConnectedOptions")
    return b.op(kind, [x, w, b.bias(x, scales, channels)], y, options, FusedActivationFunction=NONE, **fields)


def network(path: Path, dtypes: tuple[str, str, str], seed: int = 0) -> Path:
    """A convolution, a depthwise and a fully connected layer with weights of these types."""
    b = TfliteBuilder(seed)
    x = b.tensor([1, 6, 5, 3], 0.04, -7)
    y = layer(b, "CONV_2D", x, dtypes[0])
    y = layer(b, "DEPTHWISE_CONV_2D", y, dtypes[1])
    return b.save(path, [x], [layer(b, "FULLY_CONNECTED", y, dtypes[2], 11)])


def placed(artifact: Any) -> dict[str, tuple[str, str]]:
    return {entry["op"]: (entry["place"], entry["reason"]) for entry in artifact.options["operators"]}


@pytest.mark.parametrize("bits", [4, 2])
def test_numbers_share_bytes_from_the_lowest_bits_on(bits: int) -> None:
    """Of every length: the last byte may be filled partly."""
    half = 1 << bits - 1
    for count in range(1, 20):
        values = np.random.default_rng(count).integers(-half, half, count).astype(np.int8)
        content = packed(values, bits)
        assert content.size == -(-count * bits // 8)
        np.testing.assert_array_equal(unpacked(content, bits, (count,)), values)
    assert packed(np.array([1, -2]), 4).tolist() == [0xE1]


@pytest.mark.parametrize("weight_bits", [8, 4])
def test_four_bits_are_exact_widened_and_packed(weight_bits: int, tmp_path: Path) -> None:
    """All on the accelerator, with half the bytes of weights where they are packed."""
    path = network(tmp_path / "m.tflite", ("int4", "int4", "int4"))
    config = tw.PRESETS["tiny"].replace(weight_bits=weight_bits)
    artifact = assert_equal(path, config=config)
    assert {place for place, _ in placed(artifact).values()} == {"accelerator"}


def test_packed_weights_take_half_and_a_quarter_of_the_bytes(tmp_path: Path) -> None:
    """In the program's constants and on the bus, which this layer waits for."""
    b = TfliteBuilder(1)
    x = b.tensor([1, 256], 0.04, -7)
    path = b.save(tmp_path / "m.tflite", [x], [layer(b, "FULLY_CONNECTED", x, "int2", 128)])
    whole, cycles = 256 * 128, {}
    for bits in (8, 4, 2):
        config = tw.PRESETS["tiny"].replace(weight_bits=bits)
        artifact = assert_equal(path, config=config)
        assert placed(artifact)["FULLY_CONNECTED"][0] == "accelerator"
        constants = artifact.programs[0].segments[0].size - whole * bits // 8
        assert 0 < constants <= 128 * 16 + 4096  # parameters, micro-ops, the rest of a page
        exe = tw.compile(path, config, cache=False)
        cycles[bits] = exe.run(np.zeros((1, 256), np.int8))[1].cycles
    assert cycles[8] > 1.5 * cycles[4] > 2 * cycles[2]


def test_what_does_not_fit_the_weights_of_the_config_goes_to_the_cpu_by_name(tmp_path: Path) -> None:
    path = network(tmp_path / "m.tflite", ("int8", "int4", "int2"))
    artifact = assert_equal(path, config=tw.PRESETS["tiny"].replace(weight_bits=4))
    found = placed(artifact)
    assert [found[kind][0] for kind in found] == ["interpreter", "accelerator", "accelerator"]
    assert "do not fit weight_bits = 4; use a config with weight_bits = 8" in found["CONV_2D"][1]


def test_layers_of_eight_bits_whose_weights_are_small_are_packed_too(tmp_path: Path) -> None:
    """Ternary ones, as int8 files have them."""
    b = TfliteBuilder(3)
    x = b.tensor([1, 6, 5, 3], 0.04, -7)
    y = layer(b, "CONV_2D", x, "int8")
    w = b.tensors[b.operators[0]["inputs"][1]]
    w["data"] = b.rng.integers(-1, 2, w["data"].shape).astype(np.int8)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]), config=tw.PRESETS["tiny"].replace(weight_bits=2))
    assert placed(artifact)["CONV_2D"][0] == "accelerator"


def test_a_zero_point_of_depthwise_weights_is_left_to_litert(tmp_path: Path) -> None:
    """Its kernel ignores it; those of the other layers refuse it."""
    b = TfliteBuilder(4)
    x = b.tensor([1, 6, 5, 3], 0.04, -7)
    y = layer(b, "DEPTHWISE_CONV_2D", x, "int4", zero_point=3)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]))
    assert placed(artifact)["DEPTHWISE_CONV_2D"] == ("interpreter", "int4 weights with a zero point")
    layer(b, "CONV_2D", y, "int4", zero_point=3)
    with pytest.raises(ModelError, match="LiteRT cannot run it"):
        tw.compile(b.save(tmp_path / "m.tflite", [x], [len(b.tensors) - 1]), "tiny", cache=False)


def test_weights_alone_quantised_run_in_litert(tmp_path: Path) -> None:
    """DEQUANTIZE of packed numbers, ahead of a float layer."""
    b = TfliteBuilder(5)
    x = b.tensor([1, 7], dtype="float32")
    w, _ = b.weights([5, 7], None, dtype="int4")
    real = b.op("DEQUANTIZE", [w], b.tensor([5, 7], dtype="float32"), "DequantizeOptions")
    y = b.op("FULLY_CONNECTED", [x, real], b.tensor([1, 5], dtype="float32"), "FullyConnectedOptions")
    assert not assert_equal(b.save(tmp_path / "m.tflite", [x], [y])).programs


@pytest.mark.parametrize("kept", [0.5, 0.99, 1.01])
@pytest.mark.parametrize("dtype", ["int4", "int2"])
def test_damaged_buffers_are_refused_by_name(dtype: str, kept: float, tmp_path: Path) -> None:
    b = TfliteBuilder(6)
    x = b.tensor([1, 41], 0.04, -7)
    y = layer(b, "FULLY_CONNECTED", x, dtype)
    data = b.tensors[1]["data"].reshape(-1)
    b.tensors[1]["data"] = np.resize(data, round(data.size * kept))
    said = rf"tensor 1 't1' has \d+ bytes for shape \[9, 41\] of {NARROW[dtype]} bits each"
    with pytest.raises(ModelError, match=said):
        tw.compile(b.save(tmp_path / "m.tflite", [x], [y]), "tiny", cache=False)


def onnx_network(path: Path, dtype: str, cast: str, scale: float = 0.0217, seed: int = 0) -> Path:
    """A convolution and a fully connected layer between 8-bit tensors."""
    b = NetBuilder(seed, opset=25 if "2" in dtype else 21)
    zero = (1 << NARROW[dtype.removeprefix("u")] - 1) if dtype.startswith("u") else 0
    x = b.real_input((1, 3, 6, 5), scale)
    weight, scales = b.weight((9, 3, 3, 3), dtype=dtype, zero_point=zero, cast=cast)
    y = b.op("Conv", [x.name, weight, b.bias(x, scales, 9)], kernel_shape=[3, 3])
    flat = b.pair(b.op("Flatten", [b.pair(y, (1, 9, 4, 3), 2 * scale, 5).name]), (1, 108), 2 * scale, 5)
    weight, _ = b.weight((7, 108), dtype=dtype, zero_point=zero, cast=cast)
    z = b.pair(b.op("Gemm", [flat.name, weight], transB=1), (1, 7), 2 * scale, -3)
    b.output(z.name, (1, 7))
    return b.save(path)


@pytest.mark.parametrize("dtype,cast", [("int4", "int8"), ("uint4", "uint8"), ("uint4", "int8"), ("int2", "int8")])
def test_onnx_weights_that_are_cast_are_proven_exact(dtype: str, cast: str, tmp_path: Path) -> None:
    """ONNX Runtime widens them when it loads the file, and then has integer kernels for them."""
    path = onnx_network(tmp_path / "m.onnx", dtype, cast)
    _, built = compared(path)
    assert not [op for op in built.graph.ops if isinstance(op, Interpreted)]
    assert all("adds in float32" not in layer.method for layer in built.exactness)
    weights = [op.weight for op in built.graph.ops if isinstance(op, Conv2D)]
    limit = 1 << NARROW[dtype.removeprefix("u")] - 1
    assert [int(np.abs(w).max()) <= limit for w in weights] == [True, True]


@pytest.mark.parametrize("zero_point", [0, 3, 15])
def test_weights_beyond_their_bits_are_sums(zero_point: int, tmp_path: Path) -> None:
    """UINT4 less any zero point: two or three passes of 4 bits, dense and in window mode."""
    b = NetBuilder(zero_point, opset=21)
    x = b.real_input((1, 9, 6, 5), 0.03)
    weight, scales = b.weight((9, 1, 3, 3), dtype="uint4", zero_point=zero_point, cast="uint8")
    y = b.op("Conv", [x.name, weight, b.bias(x, scales, 9)], kernel_shape=[3, 3], group=9)
    weight, _ = b.weight((7, 9, 3, 3), dtype="uint4", zero_point=zero_point, cast="uint8")
    y = b.op("Conv", [b.pair(y, (1, 9, 4, 3), 0.06, 5).name, weight], kernel_shape=[3, 3], pads=[1] * 4)
    b.output(b.pair(y, (1, 7, 4, 3), 0.2, 5).name, (1, 7, 4, 3))
    path = b.save(tmp_path / "m.onnx")
    exe = tw.compile(path, tw.PRESETS["tiny"].replace(weight_bits=4), cache=False)
    given = np.random.default_rng(0).normal(0, 1.5, (3, 9, 6, 5)).astype(np.float32)
    np.testing.assert_array_equal(exe(given), reference_outputs(path, [given])[0])
    assert {o["place"] for o in exe.artifact.options["operators"] if o["op"] == "Conv"} == {"accelerator"}


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_parts_add_up_to_the_weights(bits: int) -> None:
    low, high = weight_range(bits)
    for parts in range(1, MOST_PARTS + 1):
        weights = np.arange(max(-255, parts * low), min(255, parts * high) + 1)
        found = weight_parts(weights, bits, "conv")
        assert len(found) == -(-max(-weights[0] / -low, weights[-1] / high) // 1)
        assert all(part.min() >= low and part.max() <= high for part in found)
        np.testing.assert_array_equal(np.sum(found, axis=0, dtype=np.int64), weights)
    if bits < 8:
        for beyond in (MOST_PARTS * low - 1, MOST_PARTS * high + 1):
            with pytest.raises(PlaceError, match=f"conv: weights from .* do not fit weight_bits = {bits}"):
                weight_parts(np.array([beyond]), bits, "conv")


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_onnx_weights_between_pairs_are_within_the_stated_bound(dtype: str, tmp_path: Path) -> None:
    """ONNX Runtime multiplies them in float32: exact where all scales are powers of two, else within an LSB."""
    _, built = compared(onnx_network(tmp_path / "m.onnx", dtype, ""))
    stated = [layer for layer in built.exactness if "adds in float32" in layer.method]
    assert [layer.bound for layer in stated] == [1, 1]


def test_onnx_weights_whose_zero_points_are_shared(tmp_path: Path) -> None:
    """As PyTorch's exporter writes them; ONNX Runtime would give its own new zero point one name twice."""
    b = NetBuilder(1, opset=21)
    x = b.real_input((1, 3, 6, 5))
    zero, y = b.constant(np.zeros((), np.int8)), x.name
    for _ in range(2):
        stored = b.op("Cast", [b.constant(b.rng.integers(-8, 8, (3, 3, 1, 1)).astype("int4"))], to=3)
        weight = b.op("DequantizeLinear", [stored, b.constant(np.float32(0.05)), zero])
        y = b.pair(b.op("Conv", [y, weight], kernel_shape=[1, 1]), (1, 3, 6, 5), 0.04, 2).name
    b.output(y, (1, 3, 6, 5))
    compared(b.save(tmp_path / "m.onnx"))
