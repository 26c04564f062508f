"""Layers that the quantiser would take and spoil: they stay in float32, and the command says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tw
from tests.quantize.test_gemms import kept
from tests.quantize.test_runtime_takes import model, normal
from tilewright.quantize import quantize_file
from tilewright.quantize.left_real import left_real
from tilewright.quantize.onnx_runtime import OnnxQuantiser, read_float
from tilewright.quantize.operators import Operator

LOW = float(np.finfo(np.float32).min)


def noted(path: Path, x: Any, folder: Path) -> str:
    """What is said of layers that stay."""
    np.save(folder / "x.npy", x)
    return "; ".join(quantize_file(path, folder / "x.npy").stay)


@pytest.mark.parametrize("masked", [-np.inf, LOW, -1e9, -1e4])
@pytest.mark.parametrize("kind", ["Add", "Where"])
@pytest.mark.parametrize("rows", [6, 1])
def test_masks_ahead_of_a_softmax(rows: int, kind: str, masked: float, tmp_path: Path) -> None:
    """As exporters write attention: the scores keep their bits, whatever stands where none may be. A mask of one row
    ONNX Runtime's preparation makes the bias of a Gemm."""
    open_ = np.tril(np.ones((6, 6), bool))[2 : 2 + rows] if rows == 1 else np.tril(np.ones((6, 6), bool))
    mask = np.where(open_, 0, masked).astype(np.float32)
    constants = {"k": normal(8, 6, seed=1), "v": normal(6, 5, seed=2), "mask": mask}
    masking = helper.make_node("Add", ["scores", "mask"], ["s"], "masking")
    if kind == "Where":
        constants |= {"mask": open_, "least": np.float32(masked)}
        masking = helper.make_node("Where", ["mask", "scores", "least"], ["s"], "masking")
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["scores"], "scores"),
        masking,
        helper.make_node("Softmax", ["s"], ["p"], "share", axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"], "values"),
    ]
    path = model(tmp_path / "float.onnx", nodes, [6, 8], constants)
    x = normal(12, 6, 8, seed=3)
    assert kept(path, x, tmp_path) > 25
    assert re.match(rf"{kind} '[^']*', Softmax 'share' stay in float32 on the CPU", noted(path, x, tmp_path))


def test_scores_without_a_mask_are_quantised(tmp_path: Path) -> None:
    """However large they are."""
    nodes = [
        helper.make_node("Gemm", ["x", "k"], ["a"], "scores"),
        helper.make_node("Add", ["a", "position"], ["s"], "sum"),
        helper.make_node("Softmax", ["s"], ["y"], "share", axis=-1),
    ]
    constants = {"k": normal(8, 6, seed=1) * np.float32(60), "position": normal(6, 6) * np.float32(30)}
    path = model(tmp_path / "float.onnx", nodes, [6, 8], constants)
    assert noted(path, normal(12, 6, 8), tmp_path) == ""


@pytest.mark.parametrize("more", [False, True])
def test_values_that_are_not_finite(more: bool, tmp_path: Path) -> None:
    """A logarithm of negative numbers: what comes before it is quantised all the same."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["a"], "first"),
        helper.make_node("Log", ["a"], ["b" if more else "y"], "log"),
        *([helper.make_node("Gemm", ["b", "w"], ["y"], "second")] if more else []),
    ]
    path = model(tmp_path / "float.onnx", nodes, [3, 6], {"w": normal(6, 6)})
    said = noted(path, normal(4, 3, 6, seed=1), tmp_path)
    assert said.startswith("Log 'log', Gemm 'second' stay" if more else "Log 'log' stays")
    assert said.endswith("values that are not finite have no scale")


def test_a_normalisation_over_two_axes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("LayerNormalization", ["a", "s", "o"], ["b"], "norm", axis=2),
        helper.make_node("Conv", ["b", "v"], ["y"], "again"),
    ]
    constants = {"w": normal(4, 2, 3, 3), "s": normal(6, 6, seed=1), "o": normal(6, 6, seed=2), "v": normal(2, 4, 3, 3)}
    path = model(tmp_path / "float.onnx", nodes, [1, 2, 8, 8], constants)
    x = normal(6, 2, 8, 8)
    assert kept(path, x, tmp_path) > 25
    assert "LayerNormalization 'norm' stays in float32" in noted(path, x, tmp_path)


@pytest.mark.parametrize(
    "given",
    [
        {"strides": [1, 2], "pads": [0] * 4},
        {"strides": [1, 2], "pads": [1, 1, 2, 0], "count_include_pad": 1},
        {"strides": [1, 2], "pads": [1, 1, 2, 0]},
        {"strides": [2, 3], "pads": [2, 1, 0, 1], "ceil_mode": 1},
        {"strides": [2, 3], "pads": [1, 1, 2, 1], "ceil_mode": 1, "count_include_pad": 1},
        {"strides": [2, 3], "auto_pad": "VALID", "ceil_mode": 1},
    ],
    ids=lambda given: "-".join(given),
)
def test_an_average_over_a_dilated_window(given: dict[str, Any], tmp_path: Path) -> None:
    """ONNX Runtime has no quantised one, and makes it of any between quantised tensors; a convolution is the same."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("AveragePool", ["a"], ["b"], "mean", kernel_shape=[3, 2], dilations=[1, 2], **given),
        helper.make_node("Conv", ["b", "v"], ["y"], "again"),
    ]
    constants = {"w": normal(4, 2, 3, 3), "v": normal(2, 4, 2, 2)}
    path = model(tmp_path / "float.onnx", nodes, [1, 2, 10, 10], constants, opset=19)
    assert kept(path, normal(6, 2, 10, 10), tmp_path) > 25


def test_a_softmax_of_one_element(tmp_path: Path) -> None:
    """It is 1 whatever it reads; ONNX Runtime's quantised one is 0."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Softmax", ["a"], ["p"], "ones", axis=-1),
        helper.make_node("Add", ["x", "p"], ["y"], "sum"),
    ]
    path = model(tmp_path / "float.onnx", nodes, [4, 6], {"w": normal(6, 1)})
    assert kept(path, normal(6, 4, 6), tmp_path) > 30


@pytest.mark.parametrize("bounds", [(0.5, 1.5), (-1.5, -0.25), (0.75, -0.75)])
def test_clamps_that_let_no_zero_through(bounds: tuple[float, float], tmp_path: Path) -> None:
    """ONNX Runtime's quantiser drops a Clip, for the type's ends: those of a range with zero in it."""
    constants = {"w": normal(6, 5), "low": np.float32(bounds[0]), "high": np.float32(bounds[1])}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Clip", ["a", "low", "high"], ["y"], "clamp"),
    ]
    assert kept(model(tmp_path / "float.onnx", nodes, [4, 6], constants), normal(12, 4, 6, seed=1), tmp_path) > 25


def test_a_clamp_to_a_result(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("ReduceMax", ["x"], ["most"], "most", keepdims=0),
        helper.make_node("Neg", ["most"], ["least"], "least"),
        helper.make_node("Clip", ["a", "least"], ["y"], "clamp"),
    ]
    path = model(tmp_path / "float.onnx", nodes, [4, 6], {"w": normal(6, 5)})
    assert kept(path, normal(12, 4, 6, seed=1), tmp_path) > 25


def test_hardmax_of_an_old_opset(tmp_path: Path) -> None:
    """It is over all axes from its own on, which the onnx package's converter forgets."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "conv"), helper.make_node("Hardmax", ["a"], ["y"], "best")]
    path = model(tmp_path / "float.onnx", nodes, [1, 2, 6, 6], {"w": normal(3, 2, 3, 3)}, opset=11)
    x = normal(6, 2, 6, 6)
    np.save(tmp_path / "x.npy", x)
    quantize_file(path, tmp_path / "x.npy").save(tmp_path / "quantised.onnx")
    y = tw.compile(tmp_path / "quantised.onnx", "tiny", cache=False)(x)
    assert np.asarray(y).sum() == len(x)  # one of all, not one of each row


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("kind,opset,scale", [("Resize", 10, 2.0), ("Resize", 10, 0.6), ("Upsample", 9, 1.5)])
def test_resizing_of_an_old_opset(kind: str, opset: int, scale: float, mode: str, tmp_path: Path) -> None:
    """It had other coordinates, which the converter does not state."""
    constants = {"w": normal(4, 2, 3, 3), "scales": np.array([1, 1, scale, scale], np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node(kind, ["a", "scales"], ["y"], "resized", mode=mode),
    ]
    path = model(tmp_path / "float.onnx", nodes, [1, 2, 10, 10], constants, opset=opset)
    assert kept(path, normal(6, 2, 10, 10), tmp_path) > 28


def test_a_preparation_that_computes_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever converter or optimiser it was: never a network of integers for another function."""
    path = model(tmp_path / "float.onnx", [helper.make_node("Gemm", ["x", "w"], ["y"])], [3, 6], {"w": normal(6, 6)})
    plain = OnnxQuantiser._prepared

    def wrong(self: OnnxQuantiser, held: Any) -> Any:
        made = plain(self, held)
        made.graph.node[0].op_type = "Gemm"
        made.graph.node[0].attribute.append(helper.make_attribute("alpha", 1.1))
        return made

    monkeypatch.setattr(OnnxQuantiser, "_prepared", wrong)
    np.save(tmp_path / "x.npy", normal(4, 3, 6))
    with pytest.raises(tw.TilewrightError, match="output 'y' is another one, with noise at 20.0 dB; export it again"):
        quantize_file(path, tmp_path / "x.npy")
    assert read_float(path).graph.node[0].op_type == "Gemm"


@pytest.mark.parametrize(
    ("move", "softmax"),
    [("Split", "Softmax"), ("Gather", "Softmax"), ("SPLIT", "SOFTMAX"), ("UNPACK", "LOG_SOFTMAX"), ("TILE", "SOFTMAX")],
)
def test_a_mask_is_followed_through_whatever_moves_elements(move: str, softmax: str) -> None:
    """SPLIT reads an axis ahead of its tensor."""
    operators = [
        Operator("masking", "ADD" if move.isupper() else "Add", ("x", "mask"), ("s",)),
        Operator("part", move, ("axis", "s") if move == "SPLIT" else ("s",), ("p",)),
        Operator("share", softmax, ("p",), ("y",)),
    ]
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    mask = np.where(np.arange(8) < 4, 0, -1e9).astype(np.float32)
    values = {"x": x, "s": x + mask, "p": (x + mask)[2:6], "y": np.full(4, 0.25, np.float32)}
    found = left_real(operators, ["y"], {"mask": mask}, lambda _: values, [[x]])
    assert [operator.name for operator in found.operators] == ["masking", "part", "share"]
    assert "of values down to -1e+09 ahead of a softmax" in found.stay[0]
