"""Float32 sums that stay with ONNX Runtime: in the order of the whole model, or stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.onnx_net import OnnxNet
from tilewright.config import Config, load_config
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.network import CompiledModel, compile_source
from tilewright.jit.source import open_source
from tilewright.runtime import interpreters
from tilewright.runtime.records import Exact

CONFIG: Config = load_config("tiny")


def compiled(path: Path, exact: Exact = "default") -> CompiledModel:
    return compile_source(open_source(path, exact=exact), CONFIG)


def stated(model: CompiledModel) -> list[LayerExactness]:
    return [entry for entry in model.model.exactness if "within the whole" in entry.method]


def joined(path: Path) -> Path:
    """A Conv whose result is added to in float32: ONNX Runtime starts its sums with what is to be added."""
    net = OnnxNet(seed=5)
    x = net.conv(net.input((1, 7, 9, 9)), 6)
    return net.save(path, [net.add(x, net.conv(x, 6, pair=False))])


def mean(path: Path, convolution: bool) -> Path:
    """A mean of four, a quarter of whose sums are ties; ONNX Runtime turns it to NHWC between two convolutions."""
    net = OnnxNet(seed=5, dtype="uint8")
    x = net.conv(net.input((1, 16, 2, 2)), 16)
    y = net.reduce_mean(x, scale=x.scale)
    return net.save(path, [net.conv(y, 16, kernel=1) if convolution else y])


def test_a_convolution_that_is_added_to_is_one_call_in_the_part_as_in_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = joined(tmp_path / "net.onnx")
    model = compiled(path)
    assert any(entry["place"] == "interpreter" and entry["op"] == "Conv" for entry in model.operators())
    assert stated(model) == []
    monkeypatch.setattr(interpreters, "_ARITHMETIC", [*interpreters._ARITHMETIC, "ConvAddActivationFusion"])
    assert [entry.name for entry in stated(compiled(path))] == [
        entry["name"] for entry in model.operators() if entry["place"] == "interpreter" and entry["op"] == "Conv"
    ]


def test_a_mean_in_another_layout_is_stated(tmp_path: Path) -> None:
    model = compiled(mean(tmp_path / "net.onnx", convolution=True))
    (entry,) = stated(model)
    assert (entry.exact, entry.bound) == (0, 1)
    shown = {operator["name"]: operator["exact"] for operator in model.operators()}
    assert shown[entry.name] == entry.method
    assert stated(compiled(mean(tmp_path / "alone.onnx", convolution=False))) == []


def test_what_is_asked_to_be_proven_is_left_whole(tmp_path: Path) -> None:
    path = mean(tmp_path / "net.onnx", convolution=True)
    model = compiled(path, exact="proven")
    assert stated(model) == []
    assert {entry["place"] for entry in model.operators()} <= {"interpreter", "none"}
