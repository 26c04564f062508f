"""Scales that are proven, and means that ONNX Runtime computes in integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.jit.source.onnx_nets import F, NetBuilder
from tilewright.jit.source.onnx.means import pool_means
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.quantize.provable import ROUNDS, make_provable

SEEDS = {True: 51, False: 47}  #: of networks that have such channels, by whether scales are per channel


def network(path: Path, per_channel: bool) -> Path:
    """Convolution, pooling and classifier with biases, with more channels than are all proven by chance."""
    b = NetBuilder(50, "uint8")
    x = b.real_input((1, 8, 8, 8))
    b.rng = np.random.default_rng(SEEDS[per_channel])
    w, scales = b.weight((96, 8, 3, 3), per_channel=per_channel)
    y = b.op("Conv", [x.name, w, b.bias(x, scales, 96)], kernel_shape=[3, 3])
    y = b.pair(y, (1, 96, 6, 6), 0.031, 5).name
    y = b.pair(b.op("MaxPool", [y], kernel_shape=[6, 6]), (1, 96, 1, 1), 0.031, 5).name
    rows = b.pair(b.op("Flatten", [y]), (1, 96), 0.031, 5)
    b.output(b.fitted(b.gemm(rows.name, rows, 96, 40), (1, 40), 0.9).name, (1, 40))
    return b.save(path)


def unproven(content: bytes) -> dict[str, tuple[int, ...]]:
    built = OnnxSource(Path("m.onnx"), content=content).build({})
    return {entry.name: entry.wrong for entry in built.exactness if not entry.proven}


def weight_scales(content: bytes) -> list[Any]:
    model = onnx.load_from_string(content)
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return [
        constants[node.input[1]]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in constants and constants[node.input[0]].ndim > 1
    ]


@pytest.mark.parametrize("per_channel", [True, False])
def test_every_channel_is_proven_by_scales_next_to_the_given_ones(per_channel: bool, tmp_path: Path) -> None:
    before = network(tmp_path / "m.onnx", per_channel).read_bytes()
    wrong = unproven(before)
    assert wrong
    assert all(wrong.values())
    after = make_provable(tmp_path / "m.onnx", before)
    assert not unproven(after)
    distances = [
        np.abs(old.view(np.int32).astype(np.int64) - new.view(np.int32))
        for old, new in zip(weight_scales(before), weight_scales(after), strict=True)
    ]
    moved = sum(int((d > 0).sum()) for d in distances)
    assert moved == (sum(len(channels) for channels in wrong.values()) if per_channel else len(wrong))
    assert max(int(d.max()) for d in distances) <= ROUNDS // 2 + 1
    x = np.random.default_rng(0).normal(0, 1, (1, 8, 8, 8)).astype(F)
    old, new = (onnxruntime.InferenceSession(m).run(None, {"x1": x})[0] for m in (before, after))
    assert np.abs(old - new).max() <= 0.04


def joined(path: Path, kind: str) -> Path:
    """Two inputs, scales at which no constants equal their float32 sum or product, and a convolution of it."""
    b = NetBuilder(3, "uint8")
    scales, zeros = UNPROVABLE[kind]
    x, y = (b.pair(b.input((1, 8, 5, 5)), (1, 8, 5, 5), s, z) for s, z in zip(scales[:2], zeros[:2], strict=True))
    z = b.pair(b.op("Relu", [b.op(kind, [x.name, y.name])]), (1, 8, 5, 5), scales[2], zeros[2])
    b.output(b.fitted(b.conv(z, 4, 3), (1, 4, 3, 3), 0.9).name, (1, 4, 3, 3))
    return b.save(path)


UNPROVABLE = {
    "Add": ((0.009681, 0.0057, 0.010824), (-125, 110, -63)),
    "Mul": ((0.034837, 0.020982, 0.073095), (96, 127, -3)),
}


@pytest.mark.parametrize("kind", list(UNPROVABLE))
def test_layers_without_weights_are_proven_by_another_scale_of_their_result(kind: str, tmp_path: Path) -> None:
    before = joined(tmp_path / "m.onnx", kind).read_bytes()
    assert len(OnnxSource(Path("m.onnx"), content=before).build({}).doubtful) == 1
    after = make_provable(tmp_path / "m.onnx", before)
    built = OnnxSource(Path("m.onnx"), content=after).build({})
    assert not built.doubtful
    assert all(entry.proven for entry in built.exactness)
    x = [np.random.default_rng(k).normal(0, 1, (1, 8, 5, 5)).astype(F) for k in range(2)]
    old, new = (onnxruntime.InferenceSession(m) for m in (before, after))
    names = [value.name for value in old.get_inputs()]
    gap = old.run(None, dict(zip(names, x)))[0] - new.run(None, dict(zip(names, x)))[0]
    assert np.abs(gap).max() <= 0.1


def test_a_model_that_is_proven_stays_as_it_is(tmp_path: Path) -> None:
    proven = make_provable(tmp_path / "m.onnx", network(tmp_path / "m.onnx", True).read_bytes())
    assert make_provable(tmp_path / "m.onnx", proven) == proven


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
