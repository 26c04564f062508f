"""The study's ResNet-18, at 64 x 64: the same file for the same arguments, exact on the simulator; a fault is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="the test extra is not installed: pip install 'tilewright[test]'")

from bench import resnet18

pytestmark = pytest.mark.slow
#: 20 convolutions, 8 residual additions, two poolings and the dense layer
LAYERS = 31


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["resnet18.py", "--size", "64", *arguments])
    return resnet18.main()


def test_the_file_depends_on_its_arguments_alone(tmp_path: Path) -> None:
    one, same, other = (
        resnet18.build(tmp_path / f"{k}.onnx", 64, seed).read_bytes() for k, seed in enumerate((0, 0, 1))
    )
    assert one == same
    assert one != other


def test_every_layer_keeps_its_promise_beside_onnx_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--out", str(tmp_path / "r.onnx"), "--check") == 0
    said = capsys.readouterr().out
    assert said.count(" kept") == LAYERS
    assert "BROKEN" not in said


def test_a_config_that_does_not_exist_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--out", str(tmp_path / "r.onnx"), "--check", "--config", "no-such-config") == 2
    assert "no-such-config" in capsys.readouterr().err
