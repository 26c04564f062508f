"""The range of a softmax is the one that it shows where that leaves most of 0 to 1 unused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.quantize import quantize_file

Array = Any


def quantised(folder: Path, tokens: int, size: float) -> tuple[Array, Array, list[float]]:
    """Weights of 64 by an attention to ``tokens``, of scores of ``size``: float, quantised, and the latter's scales."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(0, size / 8, (64, tokens)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"], "scores"), helper.make_node("Softmax", ["a"], ["y"], "share")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, tokens])],
        [weight],
    )
    path, x = folder / "m.onnx", rng.normal(0, 1, (20, 4, 64)).astype(np.float32)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.save(folder / "x.npy", x)
    quantize_file(path, folder / "x.npy").save(folder / "q.onnx")
    real, got = (
        np.stack([session.run(None, {"x": one[None]})[0] for one in x])
        for session in map(onnxruntime.InferenceSession, map(str, (path, folder / "q.onnx")))
    )
    model = onnx.load(folder / "q.onnx")
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    last = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.output[0] == "y"]
    return real, got, [float(known[node.input[1]]) for node in last]


def test_an_attention_to_many_tokens(tmp_path: Path) -> None:
    """Each is below a step of 0 to 1 in 256."""
    real, got, (scale,) = quantised(tmp_path, 400, 1.0)
    assert np.median(real) < 1 / 256
    assert scale == pytest.approx(real.max() / 255, rel=0.01)
    assert 10 * np.log10((real**2).sum() / ((got - real) ** 2).sum()) > 25


def test_one_that_reaches_beyond_half_has_the_whole_range(tmp_path: Path) -> None:
    real, _, (scale,) = quantised(tmp_path, 6, 1.0)
    assert 0.5 < real.max() < 0.95
    assert scale == pytest.approx(1 / 255, rel=0.01)
