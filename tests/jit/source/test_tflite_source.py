"""``.tflite`` files read at their source: what runs where, and that all of it equals LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.jit.tflite_models import NONE, RELU, SAME, VALID, TfliteBuilder, litert
from tilewright.jit.importer import import_model
from tilewright.runtime.litert import kernels
from tilewright.runtime.litert.schema import read_model, written

POOL = {"Padding": VALID, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}


def conv(b: TfliteBuilder, x: int, channels: int, shape: list[int], scale: float = 0.09) -> int:
    entry = b.tensors[x]
    w, scales = b.weights([channels, 3, 3, entry["shape"][3]], 0)
    y = b.tensor([*shape[:3], channels], scale, 4)
    steps = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    operands = [x, w, b.bias(x, scales, channels)]
    return b.op("CONV_2D", operands, y, "Conv2DOptions", Padding=SAME, FusedActivationFunction=NONE, **steps)


def assert_equal(path: Path, seed: int = 0, count: int = 3, config: str | tw.Config = "tiny") -> Any:
    """Compile, run some random inputs, compare every output with LiteRT; returns the artifact."""
    exe = tw.compile(path, config, cache=False)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        values = []
        for tensor in exe.inputs:
            if tensor.dtype == "float32":
                values.append(rng.normal(0, 2, tensor.shape).astype(np.float32))
            else:
                info = np.iinfo(tensor.dtype)
                values.append(rng.integers(info.min, info.max + 1, tensor.shape).astype(tensor.dtype))
        stacked = [v if v.shape[:1] == (1,) else v[None] for v in values]
        outputs, _ = exe.run(stacked)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        for got, wanted in zip(outputs, litert(path, values), strict=True):
            np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)
    return exe.artifact


def places(artifact: Any) -> dict[str, str]:
    return {entry["op"]: entry["place"] for entry in artifact.options["operators"]}


@pytest.mark.parametrize("first", ["PAD", "MAX_POOL_2D", "AVERAGE_POOL_2D", "RELU"])
def test_float_input_ahead_of_an_operator_that_keeps_the_scale(first: str, tmp_path: Path) -> None:
    """The input must be quantised with the scale that the file's QUANTIZE gives it."""
    b = TfliteBuilder(seed=2)
    x = b.tensor([1, 6, 6, 3], dtype="float32")
    q = b.op("QUANTIZE", [x], b.tensor([1, 6, 6, 3], 0.031, 12), "QuantizeOptions")
    if first == "PAD":
        widths = b.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
        middle = b.op("PAD", [q, widths], b.tensor([1, 8, 8, 3], 0.031, 12), "PadOptions")
    elif first == "RELU":
        middle = b.op("RELU", [q], b.tensor([1, 6, 6, 3], 0.031, 12))
    else:
        out = b.tensor([1, 3, 3, 3], 0.031, 12)
        middle = b.op(first, [q], out, "Pool2DOptions", FusedActivationFunction=NONE, **POOL)
    y = conv(b, middle, 5, b.tensors[middle]["shape"])
    z = b.op("DEQUANTIZE", [y], b.tensor(b.tensors[y]["shape"], dtype="float32"), "DequantizeOptions")
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [z]))
    assert places(artifact)["CONV_2D"] == "accelerator"


def unary(kind: str, tmp_path: Path) -> Any:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = conv(b, x, 6, [1, 6, 6])
    fixed = {"L2_NORMALIZATION": (1 / 128, 0), "LOG_SOFTMAX": (16 / 256, 127)}[kind]
    z = b.op(kind, [y], b.tensor([1, 6, 6, 6], *fixed), {"L2_NORMALIZATION": "L2NormOptions"}.get(kind, ""))
    return assert_equal(b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, 6, 6])]))


@pytest.mark.parametrize("kind", ["L2_NORMALIZATION", "LOG_SOFTMAX"])
def test_an_operator_of_the_cpu_between_convolutions_is_exact(kind: str, tmp_path: Path) -> None:
    artifact = unary(kind, tmp_path)
    assert places(artifact) == {"CONV_2D": "accelerator", kind: "interpreter"}
    (step,) = [s for s in artifact.steps if s.kind == "interpreter"]
    assert step.operators == (f"op001_{kind}",)


@pytest.mark.parametrize("kind,options", [("SUB", "SubOptions"), ("MUL", "MulOptions"), ("MAXIMUM", "")])
def test_an_operator_of_two_operands_on_the_cpu_is_exact(kind: str, options: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    left, right = conv(b, x, 6, [1, 6, 6], 0.07), conv(b, x, 6, [1, 6, 6], 0.07)
    z = b.op(kind, [left, right], b.tensor([1, 6, 6, 6], 0.07, 4), options)
    assert_equal(b.save(tmp_path / "m.tflite", [x], [z]))


def test_a_lone_transpose_and_a_reshape_at_the_end(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=6)
    x = b.tensor([1, 5, 6, 4], 0.04, -3, "uint8")
    axes = b.constant(np.array([0, 3, 1, 2], np.int32))
    y = b.op("TRANSPOSE", [x, axes], b.tensor([1, 4, 5, 6], 0.04, -3, "uint8"), "TransposeOptions")
    shape = b.constant(np.array([1, 120], np.int32))
    z = b.op("RESHAPE", [y, shape], b.tensor([1, 120], 0.04, -3, "uint8"))
    assert not assert_equal(b.save(tmp_path / "m.tflite", [x], [z])).programs


def test_shapes_computed_in_the_file_are_constants(tmp_path: Path) -> None:
    """SHAPE -> STRIDED_SLICE -> PACK -> RESHAPE, as converters of dynamic batches write it."""
    b = TfliteBuilder(seed=7)
    x = b.tensor([1, 4, 4, 4], 0.04, -3)
    y = conv(b, x, 5, [1, 4, 4])
    shape = b.op("SHAPE", [y], b.tensor([4], dtype="int32"), "ShapeOptions", OutType=2)
    ends = [b.constant(np.array([v], np.int32)) for v in (0, 1, 1)]
    first = b.op("STRIDED_SLICE", [shape, *ends], b.tensor([], dtype="int32"), "StridedSliceOptions", ShrinkAxisMask=1)
    rest = b.constant(np.array(80, np.int32))
    wanted = b.op("PACK", [first, rest], b.tensor([2], dtype="int32"), "PackOptions", ValuesCount=2, Axis=0)
    flat = b.op("RESHAPE", [y, wanted], b.tensor([1, 80], 0.09, 4))
    w, scales = b.weights([7, 80], None)
    z = b.op("FULLY_CONNECTED", [flat, w, b.bias(flat, scales, 7)], b.tensor([1, 7], 0.5, 1), "FullyConnectedOptions")
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [z]))
    found = places(artifact)
    assert found["SHAPE"] == found["PACK"] == "none"
    assert found["FULLY_CONNECTED"] == "accelerator"
    assert not artifact.blobs


@pytest.mark.parametrize("shape", [[1, 2, 3, 10], [3, 10], [1, 1, 1, 60]])
def test_fully_connected_layers_of_any_rank(shape: list[int], tmp_path: Path) -> None:
    b = TfliteBuilder(seed=8)
    x = b.tensor(shape, 0.05, 9)
    inner = 60 if shape[-1] == 60 else 10
    rows = int(np.prod(shape)) // inner
    w, scales = b.weights([12, inner], None)
    y = b.tensor([rows, 12], 0.11, -3)
    b.op("FULLY_CONNECTED", [x, w, b.bias(x, scales, 12)], y, "FullyConnectedOptions", FusedActivationFunction=RELU)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]))
    assert places(artifact)["FULLY_CONNECTED"] == "accelerator"


def test_weights_beside_float_activations_run_in_the_interpreter(tmp_path: Path) -> None:
    """A dynamic-range model: int8 weights, float tensors."""
    b = TfliteBuilder(seed=9)
    x = b.tensor([1, 20], dtype="float32")
    w, _ = b.weights([6, 20], None)
    y = b.op("FULLY_CONNECTED", [x, w], b.tensor([1, 6], dtype="float32"), "FullyConnectedOptions")
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]))
    assert places(artifact) == {"FULLY_CONNECTED": "interpreter"}


def uint8_conv(b: TfliteBuilder, zero_point: int) -> tuple[list[int], list[int]]:
    x = b.tensor([1, 6, 7, 9], np.float32(0.04), 131, "uint8")
    values = b.rng.integers(0, 256, [11, 3, 3, 9]).astype(np.uint8)
    w = b.tensor([11, 3, 3, 9], np.float32(0.01), zero_point, "uint8", data=values)
    bias = b.tensor([11], 0.0004, 0, "int32", data=b.rng.integers(-3000, 3000, 11).astype(np.int32))
    y = b.tensor([1, 6, 7, 11], 0.2, 90, "uint8")
    steps = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    b.op("CONV_2D", [x, w, bias], y, "Conv2DOptions", Padding=SAME, FusedActivationFunction=RELU, **steps)
    return [x], [y]


@pytest.mark.parametrize("zero_point", [0, 1, 77, 128, 203, 255])
def test_uint8_weights_of_any_zero_point(zero_point: int, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=zero_point)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", *uint8_conv(b, zero_point)))
    assert places(artifact) == {"CONV_2D": "accelerator"}


@pytest.mark.parametrize("kind,kernel", [("AVERAGE_POOL_2D", 3), ("AVERAGE_POOL_2D", 2), ("MAX_POOL_2D", 3)])
def test_uint8_pools(kind: str, kernel: int, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=4)
    x = b.tensor([1, 9, 10, 6], 0.04, 12, "uint8")
    y = b.tensor([1, 5, 5, 6], 0.04, 12, "uint8")
    window = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FilterHeight": kernel, "FilterWidth": kernel}
    b.op(kind, [x], y, "Pool2DOptions", FusedActivationFunction=NONE, **window)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]), count=8)
    assert places(artifact) == {kind: "accelerator"}


@pytest.mark.parametrize("side", ["FilterHeight", "FilterWidth"])
@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools_over_nothing_are_left_to_litert(kind: str, size: int, side: str, tmp_path: Path) -> None:
    """It gives images without rows."""
    b = TfliteBuilder(seed=4)
    x, y = b.tensor([1, 4, 4, 6], 0.04, 12), b.tensor([1, 2, 2, 6], 0.04, 12)
    b.op(kind, [x], y, "Pool2DOptions", FusedActivationFunction=NONE, **POOL | {side: size})
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]), count=1)
    assert artifact.options["operators"][0]["reason"].startswith("a pooling window (")


def test_uint8_concatenation_of_other_scales(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=12)
    a = b.tensor([1, 4, 4, 16], 0.031, 100, "uint8")
    c = b.tensor([1, 4, 4, 16], 0.05, 13, "uint8")
    y = b.tensor([1, 4, 4, 32], 0.05, 30, "uint8")
    b.op("CONCATENATION", [a, c], y, "ConcatenationOptions", Axis=3)
    assert_equal(b.save(tmp_path / "m.tflite", [a, c], [y]), count=6)


def test_an_input_that_is_an_output_and_one_that_nobody_reads(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=13)
    x = b.tensor([1, 4, 4, 4], 0.04, -3)
    unused = b.tensor([1, 3], 0.04, -3)
    y = conv(b, x, 5, [1, 4, 4])
    assert_equal(b.save(tmp_path / "m.tflite", [x, unused], [y, x]))


def test_every_operator_is_listed_with_its_place_and_reason(tmp_path: Path) -> None:
    artifact = unary("L2_NORMALIZATION", tmp_path)
    entries = artifact.options["operators"]
    assert [e["name"] for e in entries] == ["op000_CONV_2D", "op001_L2_NORMALIZATION", "op002_CONV_2D"]
    assert entries[1]["reason"] == "L2_NORMALIZATION has no exact integer form on the accelerator"
    assert [e["exact"] for e in entries] == ["proven", "by construction", "proven"]


def test_intermediates_of_a_model_that_is_partly_on_the_cpu(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = conv(b, x, 6, [1, 6, 6])
    z = b.op("L2_NORMALIZATION", [y], b.tensor([1, 6, 6, 6], 1 / 128, 0), "L2NormOptions")
    path = b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, 6, 6])])
    exe = tw.compile(path, "tiny", keep_intermediates=True, cache=False)
    value = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)
    exe.run(value, keep_intermediates=tmp_path / "layers")
    assert len(list((tmp_path / "layers").glob("*.npy"))) == 3


def test_a_refused_operator_goes_to_the_interpreter(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    path = b.save(tmp_path / "m.tflite", [x], [conv(b, conv(b, x, 6, [1, 6, 6]), 5, [1, 6, 6])])
    model = import_model(path, {1: "because"})
    assert model.host_ops == [("op001_CONV_2D", "because")]


def test_constants_behind_the_flatbuffer(tmp_path: Path) -> None:
    """Files beyond 2 GB keep their buffers behind the model, at ``offset`` bytes from its beginning."""
    net = TfliteNet(seed=3)
    y = net.fully_connected(net.conv(net.input((1, 6, 6, 3)), 20), 7)
    inside = net.save(tmp_path / "inside.tflite", [y])
    model = read_model(inside.read_bytes())
    stored = [bytes(b.data) if b.data is not None else b"" for b in model.buffers]
    for buffer, data in zip(model.buffers, stored, strict=True):
        if data:
            buffer.data, buffer.offset, buffer.size = None, 2, len(data)

    position = -(-len(written(model)) // 64) * 64
    tail = b""
    for buffer, data in zip(model.buffers, stored, strict=True):
        if data:
            buffer.offset = position + len(tail)
            tail += data + bytes(-len(data) % 64)
    head = written(model)
    behind = tmp_path / "behind.tflite"
    behind.write_bytes(head + bytes(position - len(head)) + tail)
    assert places(assert_equal(behind)) == {"CONV_2D": "accelerator", "FULLY_CONNECTED": "accelerator"}


def test_two_tensors_of_equal_content_on_both_sides_of_a_cut(tmp_path: Path) -> None:
    """A RELU6 that clips nothing is no operator; what reads its result reads its input, in the interpreter too."""
    net = TfliteNet(seed=3)
    x = net.input((1, 6, 6, 4), scale=0.02, zero_point=-128)
    y = net.logistic(net.conv(x, 5))
    same = net.relu6(y, scale=y.scale, zero_point=y.zero_point)
    path = net.save(tmp_path / "m.tflite", [net.mul(same, y), same, net.tanh(same), net.conv(same, 3)])
    assert places(assert_equal(path))["RELU6"] == "none"


def test_what_follows_from_a_shape_that_is_computed_in_the_file_has_its_real_shape(tmp_path: Path) -> None:
    """A converter writes what it guesses there: rows of a matrix as one."""
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 6, 3, 8], 0.04, -3)
    sizes = b.op("SHAPE", [x], b.tensor([4], dtype="int32"), "ShapeOptions", OutType=2)
    ends = [b.constant(np.array([v], np.int32)) for v in (1, 2, 1)]
    rows = b.op(
        "STRIDED_SLICE", [sizes, *ends], b.tensor([], dtype="int32"), "StridedSliceOptions",
        BeginMask=0, EndMask=0, EllipsisMask=0, NewAxisMask=0, ShrinkAxisMask=1,
    )  # fmt: skip
    count = b.op("MUL", [rows, b.constant(np.array(3, np.int32))], b.tensor([], dtype="int32"), "MulOptions")
    fields = {"ValuesCount": 2, "Axis": 0}
    shape = b.op(
        "PACK", [count, b.constant(np.array(8, np.int32))], b.tensor([2], dtype="int32"), "PackOptions", **fields
    )
    flat = b.op("RESHAPE", [x, shape], b.tensor([1, 8], 0.04, -3), "ReshapeOptions")
    w, scales = b.weights([5, 8], 0)
    y = b.op(
        "FULLY_CONNECTED", [flat, w, b.bias(flat, scales, 5)], b.tensor([1, 5], 0.09, 4), "FullyConnectedOptions",
        FusedActivationFunction=NONE, WeightsFormat=0, KeepNumDims=0,
    )  # fmt: skip
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]))
    assert places(artifact)["FULLY_CONNECTED"] == "accelerator"
    assert artifact.outputs[0].shape == (18, 5)


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", -3), ("uint8", 125), ("int16", 0), ("int32", 7)])
def test_inputs_and_outputs_have_the_numbers_that_litert_says(dtype: str, zero_point: int, tmp_path: Path) -> None:
    numbers = (np.array([0.05], np.float32), np.array([zero_point]))
    tensors = [StoredTensor(name, (1, 6), dtype, *numbers) for name in ("x", "y")]
    shape = StoredTensor("shape", (2,), "int32", data=np.array([1, 6], np.int32))
    beside = [StoredTensor(name, (1, 4), "int8", np.array([0.5]), np.array([2])) for name in ("a", "b")]
    operators = [StoredOperator("RESHAPE", [0, 2], [1]), StoredOperator("RELU", [3], [4])]
    path = write_tflite(tmp_path / "net.tflite", [*tensors, shape, *beside], operators, [0, 3], [1, 4])
    exe = tw.compile(path, "tiny", cache=False)
    interpreter = kernels.prepared(path.read_bytes(), fast=False)
    details = (*interpreter.get_input_details(), *interpreter.get_output_details())
    for own, said in zip((*exe.inputs, *exe.outputs), details, strict=True):
        assert (own.name, own.dtype, own.shape) == (said["name"], np.dtype(said["dtype"]).name, tuple(said["shape"]))
        assert (np.float32(own.scale), own.zero_point) == said["quantization"]
