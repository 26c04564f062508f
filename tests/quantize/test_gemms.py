"""Gemms with factors and with addends of any shape: the quantised network computes what the float one does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.quantize.test_runtime_takes import model, normal
from tilewright.checking import reference_outputs
from tilewright.quantize import quantize_file


def decibels(wanted: Any, got: Any) -> float:
    """Signal to noise of all elements."""
    noise = float(((wanted - got).astype(np.float64) ** 2).sum())
    return 10 * math.log10(float((wanted.astype(np.float64) ** 2).sum()) / noise) if noise else math.inf


def kept(path: Path, x: Any, folder: Path) -> float:
    """What quantising keeps of a network's result, in dB, as the accelerator computes it: ONNX Runtime's integers."""
    np.save(folder / "x.npy", x)
    quantize_file(path, folder / "x.npy").save(folder / "quantised.onnx")
    exe = tw.compile(folder / "quantised.onnx", "tiny", cache=False)
    np.testing.assert_array_equal(y := exe(x), reference_outputs(folder / "quantised.onnx", [x])[0])
    session = onnxruntime.InferenceSession(str(path))
    shape = session.get_inputs()[0].shape
    wanted = np.stack([session.run(None, {"x": one.reshape(shape)})[0] for one in x])
    return decibels(wanted.reshape(y.shape), y)


@pytest.mark.parametrize(
    "addend,options",
    [
        ((9,), {"alpha": 0.5, "beta": 2.0}),
        ((9,), {"beta": 0.0}),
        ((1, 9), {"alpha": -1.5}),
        ((), {}),
        ((1,), {"beta": 0.5}),
        ((1, 1), {}),
        ((6, 1), {"beta": 3.0}),
        ((6, 9), {"alpha": 0.25}),
        ((9,), {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ],
)
def test_factors_and_addends(addend: tuple[int, ...], options: dict[str, Any], tmp_path: Path) -> None:
    shapes = {"x": (6, 12), "w": (12, 9)}
    for name, option in (("x", "transA"), ("w", "transB")):
        if options.get(option):
            shapes[name] = shapes[name][::-1]
    constants = {"w": normal(*shapes["w"], seed=1), "c": normal(*addend, seed=2) * np.float32(4)}
    nodes = [helper.make_node("Gemm", ["x", "w", "c"], ["y"], "product", **options)]
    path = model(tmp_path / "float.onnx", nodes, list(shapes["x"]), constants)
    assert kept(path, normal(8, *shapes["x"], seed=3), tmp_path) > 30


def test_factors_without_constants(tmp_path: Path) -> None:
    """Then the factor is a product of its own; of square matrices, whose addend is a third tensor."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Gemm", ["x", "r", "r"], ["y"], "product", alpha=0.5, beta=4.0, transB=1),
    ]
    path = model(tmp_path / "float.onnx", nodes, [7, 7], {})
    assert kept(path, normal(8, 7, 7), tmp_path) > 30


def test_a_bias_that_a_sum_reads_too(tmp_path: Path) -> None:
    """Exporters merge equal constants; the layer's bias keeps its 32 bits."""
    constants = {"w": normal(8, 8, seed=1), "b": normal(8, seed=2)}
    nodes = [
        helper.make_node("Add", ["x", "b"], ["s"], "sum"),
        helper.make_node("Gemm", ["s", "w", "b"], ["y"], "product"),
    ]
    path = model(tmp_path / "float.onnx", nodes, [6, 8], constants)
    assert kept(path, normal(8, 6, 8, seed=3), tmp_path) > 30
    made = onnx.load(str(tmp_path / "quantised.onnx")).graph
    types = {tensor.name: tensor.data_type for tensor in made.initializer}
    product = next(node for node in made.node if node.op_type == "Gemm")
    (bias,) = [node.input[0] for node in made.node if product.input[2] in node.output]
    assert types[bias] == TensorProto.INT32
