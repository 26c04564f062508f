"""Pools that ONNX Runtime's integer kernel computes otherwise than its float kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.quantize import onnx_runtime, quantize_file

Array = Any


@pytest.fixture(params=["N", 1], ids=["open batch", "one image"])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A convolution and a pool that counts padding and rounds its size up, and ``x.npy`` beside it."""
    rng = np.random.default_rng(0)
    pool: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1]),
            helper.make_node("AveragePool", ["c"], ["y"], "pool", ceil_mode=1, count_include_pad=1, **pool),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [request.param, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.normal(0, 0.3, (4, 3, 1, 1)).astype(np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", rng.normal(0, 1, (16, 3, 8, 8)).astype(np.float32))
    return tmp_path / "m.onnx"


def decibels(before: Path, after: Path) -> float:
    x = np.load(before.with_name("x.npy"))
    expected, got = (
        np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])
        for session in map(onnxruntime.InferenceSession, map(str, (before, after)))
    )
    return float(10 * np.log10((expected**2).mean() / ((got - expected) ** 2).mean()))


def test_padding_counts_as_in_the_float_model_where_sizes_are_rounded_up(network: Path) -> None:
    made = quantize_file(network, network.with_name("x.npy"))
    made.save(network.with_name("q.onnx"))
    assert decibels(network, network.with_name("q.onnx")) > 24
    assert made.stay == ()


def test_what_integer_kernels_change_is_said(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_runtime, "settle_pools", lambda _: None)
    made = quantize_file(network, network.with_name("x.npy"))
    made.save(network.with_name("q.onnx"))
    assert decibels(network, network.with_name("q.onnx")) < 20
    (said,) = made.stay
    assert "output 'y' is at 1" in said
    assert "dB: one of them computes something else" in said
