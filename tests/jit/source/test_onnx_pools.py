"""Average pools of PyTorch's making: ONNX Runtime's integer kernel gives what its float kernel does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.jit.source.onnx.pools import settle_pools

SHAPE = (1, 2, 8, 9)


def network(**attributes: Any) -> Any:
    """An AveragePool between Q/DQ pairs of a quantised input."""
    constants = [
        numpy_helper.from_array(np.array(0.02, np.float32), "scale"),
        numpy_helper.from_array(np.array(128, np.uint8), "zero"),
    ]  # fmt: skip

    def pair(name: str, made: str) -> list[Any]:
        return [
            helper.make_node("QuantizeLinear", [name, "scale", "zero"], [f"{made}_q"]),
            helper.make_node("DequantizeLinear", [f"{made}_q", "scale", "zero"], [made]),
        ]

    pool = helper.make_node("AveragePool", ["a"], ["b"], "pool", **attributes)
    graph = helper.make_graph(
        [*pair("x", "a"), pool, *pair("b", "y")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def ran(model: Any, x: Any, level: str = "ORT_ENABLE_ALL") -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    "given,kinds",
    [
        ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, ["AveragePool", "Mul"]),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 0, 1]}, ["AveragePool", "Mul"]),
        ({"kernel_shape": [3, 2], "strides": [2, 2]}, ["AveragePool"]),
        ({"kernel_shape": [2, 3], "strides": [5, 3], "pads": [1, 1, 1, 1]}, ["AveragePool", "Mul"]),
        ({"kernel_shape": [3, 3], "strides": [4, 3], "pads": [1, 1, 1, 1]}, ["AveragePool", "Mul"]),
        ({"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1]}, ["AveragePool"]),
        ({"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 0, 1]}, ["AveragePool"]),
        ({"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID"}, ["AveragePool"]),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "NOTSET", "pads": [1] * 4}, ["AveragePool", "Mul"]),
    ],
)
def test_pools_that_count_padding_and_round_up(given: dict[str, Any], kinds: list[str]) -> None:
    """As ONNX Runtime's float kernel computes them, and so PyTorch."""
    x = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    model = network(**given, ceil_mode=1, count_include_pad=1)
    expected = ran(model, x, "ORT_DISABLE_ALL")
    settle_pools(model)
    assert [node.op_type for node in model.graph.node][2:-2] == kinds
    attributes = {a.name: a.i for node in model.graph.node if node.op_type == "AveragePool" for a in node.attribute}
    assert not (attributes["ceil_mode"] and attributes["count_include_pad"])
    y = ran(model, x)
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= 0.0201  # a tie
    assert (y != expected).mean() < 0.1


@pytest.mark.parametrize("one", [{"ceil_mode": 1}, {"count_include_pad": 1}, {}])
def test_pools_that_do_not_do_both(one: dict[str, int]) -> None:
    model = network(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], **one)
    before = model.SerializeToString()
    settle_pools(model)
    assert model.SerializeToString() == before
