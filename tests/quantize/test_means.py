"""Means over images in the form that ONNX Runtime computes in integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.jit.source.onnx_nets import F
from tilewright.jit.source.onnx.means import pool_means


def mean(axes: list[int], keep: int, opset: int, shape: tuple[int, ...] = (1, 3, 5, 4)) -> Any:
    """A mean and a Relu."""
    constants = []
    if opset >= 18:
        constants = [numpy_helper.from_array(np.array(axes, np.int64), "axes")]
        node = helper.make_node("ReduceMean", ["x", "axes"], ["m"], "mean", keepdims=keep)
    else:
        node = helper.make_node("ReduceMean", ["x"], ["m"], "mean", axes=axes, keepdims=keep)
    last = helper.make_node("Relu", ["m"], ["y"])
    graph = helper.make_graph(
        [node, last], "net", [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, [None] * (len(shape) - (0 if keep else len(axes))))], constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [[2, 3], [-1, -2]])
def test_means_over_images_become_pools(axes: list[int], keep: int, opset: int) -> None:
    model = mean(axes, keep, opset)
    x = np.random.default_rng(0).normal(0, 1, (1, 3, 5, 4)).astype(F)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    pool_means(model)
    onnx.checker.check_model(model)
    kinds = ["GlobalAveragePool", "Relu"] if keep else ["GlobalAveragePool", "Flatten", "Relu"]
    assert [node.op_type for node in model.graph.node] == kinds
    assert not model.graph.initializer
    (got,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "axes,shape", [([1], (1, 3, 5, 4)), ([2], (1, 3, 5, 4)), ([1, 2], (1, 3, 4)), ([2, 3], (1, 3, 5, 4, 2))]
)
def test_other_means_stay(axes: list[int], shape: tuple[int, ...]) -> None:
    model = mean(axes, 1, 18, shape)
    before = model.SerializeToString()
    pool_means(model)
    assert model.SerializeToString() == before


def test_axes_of_a_constant_node_that_is_its_numbers_itself() -> None:
    """As exporters of PyTorch write them: ``value_ints`` rather than a tensor."""
    model = mean([2, 3], 1, 18)
    del model.graph.initializer[:]
    model.graph.node.insert(0, helper.make_node("Constant", [], ["axes"], value_ints=[2, 3]))
    pool_means(model)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Constant", "GlobalAveragePool", "Relu"]


@pytest.mark.parametrize("reader", ["branch", "input", "output"])
def test_axes_that_something_else_has_stay(reader: str) -> None:
    """A branch that reads them, the caller who may replace them, or an output."""
    model = mean([2, 3], 1, 18)
    if reader == "branch":
        branches = {
            side: helper.make_graph(
                [helper.make_node("ReduceMean", ["x", "axes"], [side])],
                side,
                [],
                [helper.make_tensor_value_info(side, 1, [1, 3, 1, 1])],
            )
            for side in ("then_branch", "else_branch")
        }
        model.graph.node.append(helper.make_node("If", ["given"], ["z"], **branches))
        model.graph.input.append(helper.make_tensor_value_info("given", 9, []))
        model.graph.output.append(helper.make_tensor_value_info("z", 1, [1, 3, 1, 1]))
    else:
        declared = model.graph.input if reader == "input" else model.graph.output
        declared.append(helper.make_tensor_value_info("axes", 7, [2]))
    pool_means(model)
    onnx.checker.check_model(model)
    assert [tensor.name for tensor in model.graph.initializer] == ["axes"]
    assert model.graph.node[0].op_type == "GlobalAveragePool"
