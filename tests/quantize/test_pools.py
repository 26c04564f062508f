"""Pools that ONNX Runtime's integer kernel computes otherwise than its float kernel."""

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


def ran(path: Path, x: Array) -> Array:
    session = onnxruntime.InferenceSession(str(path))
    return np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])


@pytest.mark.parametrize("batch", ["N", 1])
def test_padding_counts_as_in_the_float_model_where_sizes_are_rounded_up(batch: str | int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pool: dict[str, Any] = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
        "count_include_pad": 1,
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1]),
            helper.make_node("AveragePool", ["c"], ["y"], "pool", **pool),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.normal(0, 0.3, (4, 3, 1, 1)).astype(np.float32), "w")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), str(path))
    x = rng.normal(0, 1, (16, 3, 8, 8)).astype(np.float32)
    expected = ran(path, x)
    np.save(tmp_path / "x.npy", x)
    quantize_file(path, tmp_path / "x.npy").save(tmp_path / "q.onnx")
    noise = ran(tmp_path / "q.onnx", x) - expected
    assert 10 * np.log10((expected**2).mean() / (noise**2).mean()) > 24
