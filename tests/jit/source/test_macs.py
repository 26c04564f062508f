"""Multiply-accumulates by operator of the file, against those that the networks' writers count."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz import OnnxNet, TfliteNet, draw_network
from tests.fuzz.recipe import build
from tilewright.jit.source import open_source
from tilewright.jit.source.operators import onnx_row, tflite_row

MICROSOFT = "com.microsoft"


def macs(path: Path) -> dict[str, int]:
    return {operator.kind: operator.macs for operator in open_source(path).operators if operator.macs}


def test_tflite_operators(tmp_path: Path) -> None:
    net = TfliteNet(seed=1)
    x = net.conv(net.input((1, 9, 8, 3)), 16, kernel=(3, 2), stride=2, groups=1)
    x = net.depthwise(x, 2, kernel=3)
    x = net.transpose_conv(x, 5, kernel=(2, 3))
    net.save(tmp_path / "m.tflite", [net.fully_connected(x, 7)])
    found = macs(tmp_path / "m.tflite")
    assert found == {
        "CONV_2D": 5 * 4 * 16 * 3 * 2 * 3, "DEPTHWISE_CONV_2D": 5 * 4 * 32 * 9, "TRANSPOSE_CONV": 5 * 4 * 32 * 5 * 6,
        "FULLY_CONNECTED": 10 * 8 * 5 * 7,
    }  # fmt: skip
    assert sum(found.values()) == net.macs


def test_onnx_operators(tmp_path: Path) -> None:
    net = OnnxNet(seed=1)
    x = net.conv(net.input((1, 4, 9, 8)), 6, kernel=(3, 2), stride=2, groups=2)
    x = net.conv_transpose(x, 5, kernel=2)
    net.save(tmp_path / "m.onnx", [net.matmul(x, 7)])
    assert macs(tmp_path / "m.onnx").keys() == {"Conv", "ConvTranspose", "MatMul"}
    assert sum(macs(tmp_path / "m.onnx").values()) == net.macs


@pytest.mark.parametrize("source", ["tflite", "onnx"])
def test_random_networks(source: str, tmp_path: Path) -> None:
    """Every network drawn counts as many as its writer did: those of one image, where it takes several."""
    for seed in range(40):
        recipe, path, _ = draw_network(source, seed, "small", tmp_path)
        opened = open_source(path)
        counted = opened.batch * sum(operator.macs for operator in opened.operators)
        assert counted == build(recipe, path).net.macs


@pytest.mark.parametrize(
    ("left", "right", "output", "wanted"),
    [
        ((5, 7), (7, 3), (5, 3), 5 * 7 * 3),
        ((7,), (7, 3), (3,), 7 * 3),
        ((5, 7), (7,), (5,), 5 * 7),
        ((4, 5, 7), (7,), (4, 5), 4 * 5 * 7),
        ((7,), (4, 7, 3), (4, 3), 4 * 7 * 3),
        ((7,), (7,), (), 7),
        ((4, 5, 7), (7, 3), (4, 5, 3), 4 * 5 * 7 * 3),
        ((5, 7), (4, 7, 3), (4, 5, 3), 4 * 5 * 7 * 3),
        ((0, 7), (7,), (0,), 0),
    ],
)
def test_products_of_matrices_and_vectors(
    left: tuple[int, ...], right: tuple[int, ...], output: tuple[int, ...], wanted: int
) -> None:
    assert onnx_row("MatMul").count_macs([left, right], output) == wanted
    assert onnx_row("QLinearMatMul").count_macs([left, (), (), right, (), (), (), ()], output) == wanted


def test_what_cannot_be_counted_is_zero() -> None:
    assert tflite_row("ADD").count_macs([(1, 2), (1, 2)], (1, 2)) == 0
    assert tflite_row("CONV_2D").count_macs([(1, 4, 4, 3)], (1, 4, 4, 8)) == 0
    assert onnx_row("Conv").count_macs([None, None], None) == 0


def _model(path: Path, nodes: list[Any], constants: dict[str, Any], shape: list[int], opset: int = 17) -> Path:
    """A model of one float32 input x; its output is what the last node makes."""
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [v if isinstance(v, TensorProto) else numpy_helper.from_array(v, name) for name, v in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    onnx.save(model, str(path))
    return path


def test_operators_behind_another_domain_and_a_computed_shape_are_counted(tmp_path: Path) -> None:
    own = partial(helper.make_node, domain=MICROSOFT)
    nodes = [
        own("QuantizeLinear", ["x", "s", "z"], ["q"]),
        own("DequantizeLinear", ["q", "s", "z"], ["d"]),
        own("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["d", "wd"], ["y"]),
        own("Gelu", ["y"], ["g"]),
        helper.make_node("Shape", ["g"], ["all"]),
        helper.make_node("Gather", ["all", "zero"], ["batch"], axis=0),
        helper.make_node("Concat", ["batch", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["g", "flat"], ["r"]),
        helper.make_node("MatMul", ["r", "m"], ["out"]),
    ]
    constants = {
        "s": np.float32(0.02), "z": np.int8(0), "w": np.ones((8, 3, 3, 3), np.int8), "zero": np.array([0]),
        "rest": np.array([-1]), "m": np.ones((8 * 36, 4), np.float32),
    }  # fmt: skip
    path = _model(tmp_path / "m.onnx", nodes, constants, [1, 3, 8, 8])
    assert macs(path) == {"Conv": 8 * 36 * 27, "MatMul": 8 * 36 * 4}


def test_weights_of_four_bits_are_counted(tmp_path: Path) -> None:
    own = partial(helper.make_node, domain=MICROSOFT)
    nodes = [
        own("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["x", "wd"], ["y"]),
    ]
    constants = {
        "s": np.float32(0.02), "z": helper.make_tensor("z", TensorProto.INT4, [], [0]),
        "w": helper.make_tensor("w", TensorProto.INT4, [8, 3, 3, 3], [1] * 216),
    }  # fmt: skip
    path = _model(tmp_path / "m.onnx", nodes, constants, [1, 3, 8, 8])
    assert macs(path) == {"Conv": 8 * 36 * 27}


@pytest.mark.parametrize("turned", [0, 1])
def test_kernels_of_onnx_runtime_are_counted(tmp_path: Path, turned: int) -> None:
    own = partial(helper.make_node, domain=MICROSOFT)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        own("QGemm", ["q", "s", "z", "b", "s", "z", "", "s", "z"], ["g"], transB=turned),
        helper.make_node("DequantizeLinear", ["g", "s", "z"], ["y"]),
    ]
    weights = np.ones((5, 7) if turned else (7, 5), np.int8)
    path = _model(tmp_path / "m.onnx", nodes, {"s": np.float32(0.02), "z": np.int8(0), "b": weights}, [3, 7])
    assert macs(path) == {"QGemm": 3 * 7 * 5}


def test_nothing_is_counted_of_shapes_that_are_not_known() -> None:
    assert onnx_row("Conv").count_macs([(1, 3, 8, 8), None], (1, 8, 6, 6)) == 0
    assert onnx_row("Conv").count_macs([(1, 3, 8, 8), (8, 3, 3, 3), ()], (1, 8, 6, 6)) == 8 * 36 * 27
