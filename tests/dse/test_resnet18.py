"""The study's ResNet-18, at 64 x 64: the same file for the same arguments, within what is stated of its layers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="the test extra is not installed: pip install 'tilewright[test]'")

import tilewright as tw
from bench.resnet18 import build, images
from tests.fuzz.cases import EXACT, check_case

pytestmark = pytest.mark.slow


def test_the_file_depends_on_its_arguments_alone(tmp_path: Path) -> None:
    one, same, other = (build(tmp_path / f"{k}.onnx", 64, seed).read_bytes() for k, seed in enumerate((0, 0, 1)))
    assert one == same
    assert one != other


def test_every_layer_is_proven_and_equals_onnx_runtime(tmp_path: Path) -> None:
    path = build(tmp_path / "resnet18.onnx", 64)
    outcome = check_case(path, "pynq-z2", [images(1, 64, 0, "uint8")])
    assert outcome.kind == EXACT, outcome.message
    operators = tw.compile(path).artifact.options["operators"]
    assert {entry["exact"] for entry in operators} == {"proven", "by construction"}
