"""Multiply-accumulates by operator of the file, against those that the networks' writers count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.fuzz import OnnxNet, TfliteNet, draw_network
from tilewright.fuzz.recipe import build
from tilewright.jit.source import open_source
from tilewright.jit.source.macs import ONNX, TFLITE, count_macs


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
    assert count_macs(ONNX, "MatMul", [left, right], output) == wanted
    assert count_macs(ONNX, "QLinearMatMul", [left, (), (), right, (), (), (), ()], output) == wanted


def test_what_cannot_be_counted_is_zero() -> None:
    assert count_macs(TFLITE, "ADD", [(1, 2), (1, 2)], (1, 2)) == 0
    assert count_macs(TFLITE, "CONV_2D", [(1, 4, 4, 3)], (1, 4, 4, 8)) == 0
    assert count_macs(ONNX, "Conv", [None, None], None) == 0
