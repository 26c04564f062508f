"""Sums, products, extremes and joins with a constant tensor: it comes into the program beside the network's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import OnnxNet
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds
from tests.jit.source.test_onnx_arithmetic import CONTRIB
from tests.jit.source.test_tflite_arithmetic import both, differing, every, tensor, zero
from tests.jit.source.test_tflite_source import assert_equal, places
from tests.jit.source.test_tflite_tables import OPTIONS
from tests.jit.tflite_models import TfliteBuilder
from tilewright.runtime import interpreters
from tilewright.runtime.steps import ConstantStep, LaunchStep

SHAPE = [1, 5, 6, 7]
CONSTANTS = ([1, 5, 6, 7], [5, 6, 1], [1, 1, 6, 7], [5, 1, 1])


@both
@pytest.mark.parametrize("first", [False, True], ids=["second", "first"])
@pytest.mark.parametrize("size", CONSTANTS, ids=str)
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"])
def test_tflite(kind: str, size: list[int], first: bool, dtype: str, tmp_path: Path) -> None:
    extreme = kind.endswith("IMUM")
    for seed in range(4):
        b = TfliteBuilder(seed)
        x = tensor(b, SHAPE, dtype)
        like = b.tensors[x]
        step, offset = (like["scale"], like["zero_point"]) if extreme else (0.031, -9 + zero(dtype))
        c = b.tensor(size, step, offset, dtype, data=b.rng.choice(every(dtype), size))
        y = tensor(b, SHAPE, dtype, like=x if extreme else None)
        b.op(kind, [c, x] if first else [x, c], y, OPTIONS.get(kind, ""))
        assert differing(b, [x], y, [b.rng.choice(every(dtype), SHAPE)], tmp_path / "m.tflite") == 0


def test_a_tensor_that_has_fewer_pixels_than_the_constant(tmp_path: Path) -> None:
    b = TfliteBuilder(7)
    x = tensor(b, [1, 1, 1, 7], "int8")
    c = b.tensor(SHAPE, 0.031, -9, data=b.rng.choice(every("int8"), SHAPE))
    y = b.op("ADD", [x, c], tensor(b, SHAPE, "int8"), OPTIONS["ADD"])
    assert differing(b, [x], y, [b.rng.choice(every("int8"), [1, 1, 1, 7])], tmp_path / "m.tflite") == 0


@both
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_constant_part_of_a_concatenation(axis: int, dtype: str, tmp_path: Path) -> None:
    """As the class token of a vision transformer is."""
    b = TfliteBuilder(axis)
    x = tensor(b, SHAPE, dtype)
    size = [2 if a == axis else n for a, n in enumerate(SHAPE)]
    c = b.tensor(size, b.tensors[x]["scale"], b.tensors[x]["zero_point"], dtype, data=b.rng.choice(every(dtype), size))
    result = [n + 2 if a == axis else n for a, n in enumerate(SHAPE)]
    y = b.op("CONCATENATION", [c, x], tensor(b, result, dtype, like=x), "ConcatenationOptions", Axis=axis)
    assert differing(b, [x], y, [b.rng.choice(every(dtype), SHAPE)], tmp_path / "m.tflite") == 0


@both
@pytest.mark.parametrize("size", [(1, 7, 5, 6), (5, 6), (7, 5, 1), (1, 1, 1, 6)], ids=str)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max", "Min", "QLinearAdd", "QLinearMul"])
def test_onnx(kind: str, size: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    b = NetBuilder(len(size), dtype)
    values = b.constant(b.rng.integers(0, 256, size).astype(np.uint8).view(dtype))
    numbers = [b.constant(F(0.04)), b.constant(b.zero(-3)), b.constant(F(0.0271)), b.constant(b.zero(7))]
    out = [b.constant(F(0.0313)), b.constant(b.zero(-5))]
    if kind.startswith("QLinear"):
        x = b.input((1, 7, 5, 6), dtype)
        y = b.op(kind, [x, *numbers[:2], values, *numbers[2:], *out], CONTRIB)
        b.output(b.dequantise(y, 0.0313, b.zero(-5)), (1, 7, 5, 6))
    else:
        x = b.real_input((1, 7, 5, 6)).name
        c = b.op("DequantizeLinear", [values, *numbers[2:]])
        y = b.op(kind, [c, x] if kind == "Sub" else [x, c])
        b.output(b.pair(y, (1, 7, 5, 6), 0.0313, -5).name, (1, 7, 5, 6))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)
    assert {"Add": "Add", "Sub": "Add", "Mul": "Multiply"}.get(kind.removeprefix("QLinear"), f"{kind}imum") in kinds(
        built
    )


def test_positions_are_added_in_the_program(tmp_path: Path) -> None:
    """An embedding of positions between two layers: one launch, and a batch of inferences each of which has it."""
    net = OnnxNet(seed=2, dtype="uint8")
    x = net.matmul(net.input((1, 20, 8), scale=0.02), 16)
    y = net.matmul(net.add(x, net.constant_tensor((1, 20, 16), zero_point=119)), 12)
    path = net.save(tmp_path / "m.onnx", [y])
    exe: Any = tw.compile(path, "pynq-z2", cache=False)
    steps = exe.artifact.steps
    assert sum(isinstance(step, LaunchStep) for step in steps) == 1
    assert sum(isinstance(step, ConstantStep) for step in steps) == 1
    assert set(places(exe.artifact).values()) <= {"accelerator", "host", "none"}
    run = interpreters.load("onnxruntime", path.read_bytes(), "whole")
    given = np.random.default_rng(1).integers(0, 256, (3, 20, 8)).astype(np.uint8)
    got, _ = exe.run(given)
    np.testing.assert_array_equal(got.reshape(3, 20, 12), np.concatenate([run([image[None]])[0] for image in given]))
    again, _ = tw.load(exe.save(tmp_path / "m.twa") or tmp_path / "m.twa").run(given)
    np.testing.assert_array_equal(again, got)


@pytest.mark.parametrize("config", ["tiny", "pynq-z2"])
def test_programs_of_several_forms(config: str, tmp_path: Path) -> None:
    b = TfliteBuilder(3)
    x = b.tensor([1, 9, 11, 20], 0.04, -3)
    c = b.tensor([1, 9, 11, 20], 0.031, -9, data=b.rng.choice(every("int8"), [1, 9, 11, 20]))
    d = b.tensor([9, 11, 1], 0.0171, 4, data=b.rng.choice(every("int8"), [9, 11, 1]))
    y = b.op("ADD", [x, c], b.tensor([1, 9, 11, 20], 0.05, 2), OPTIONS["ADD"])
    z = b.op("MUL", [y, d], b.tensor([1, 9, 11, 20], 0.02, 0), OPTIONS["MUL"])
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [z]), config=config)
    assert set(places(artifact).values()) == {"accelerator"}


@both
@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("form", ["pair", "float", "QLinearConcat", "integers"])
def test_constant_parts_of_a_join_of_onnx(form: str, axis: int, dtype: str, tmp_path: Path) -> None:
    b = NetBuilder(axis, dtype)
    size = [3 if a == axis else n for a, n in enumerate((1, 7, 5, 6))]
    result = [n + 6 if a == axis else n for a, n in enumerate((1, 7, 5, 6))]
    stored = [b.constant(b.rng.integers(0, 256, size).astype(np.uint8).view(dtype)) for _ in range(2)]
    numbers = [b.constant(F(0.0271)), b.constant(b.zero(7))]
    if form in ("QLinearConcat", "integers"):
        x = b.input((1, 7, 5, 6), dtype)
        own = [b.constant(F(0.04)), b.constant(b.zero(-3))]
        if form == "integers":
            y = b.op("Concat", [stored[0], x, stored[1]], axis=axis)
        else:
            out = [b.constant(F(0.0313)), b.constant(b.zero(-5))]
            y = b.op(form, [*out, stored[0], *numbers, x, *own, stored[1], *own], CONTRIB, axis=axis)
        b.output(b.dequantise(y, 0.0313, b.zero(-5)), tuple(result))
    else:
        x = b.real_input((1, 7, 5, 6)).name
        parts = [b.dequantise(c, F(0.0271), b.zero(7)) for c in stored]
        if form == "float":
            parts[0] = b.constant(b.rng.normal(0, 3, size).astype(F))
        y = b.op("Concat", [parts[0], x, parts[1]], axis=axis)
        b.output(b.pair(y, tuple(result), 0.0313, -5).name, tuple(result))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


@both
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_constant_part_of_a_pack(axis: int, dtype: str, tmp_path: Path) -> None:
    b = TfliteBuilder(axis)
    x = tensor(b, [1, 5, 6], dtype)
    c = b.tensor([1, 5, 6], b.tensors[x]["scale"], b.tensors[x]["zero_point"], dtype)
    b.tensors[c]["data"] = b.rng.choice(every(dtype), [1, 5, 6])
    result = [1, 5, 6]
    result.insert(axis, 2)
    y = b.op("PACK", [c, x], tensor(b, result, dtype, like=x), "PackOptions", Axis=axis, ValuesCount=2)
    assert differing(b, [x], y, [b.rng.choice(every(dtype), [1, 5, 6])], tmp_path / "m.tflite") == 0
