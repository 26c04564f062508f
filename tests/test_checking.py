"""References that cannot be had, and scales that are no scales: a line of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.onnx_models import QdqBuilder
from tests.jit.tflite_models import TfliteBuilder
from tilewright.checking import CheckError, compare, reference_outputs
from tilewright.cli.app import main
from tilewright.jit.errors import ModelError
from tilewright.runtime import interpreters


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    """A model of each kind."""
    b, o = TfliteBuilder(), QdqBuilder()
    x, y = b.tensor([1, 4], 0.5), b.tensor([1, 4], 0.5)
    b.op("RELU", [x], y)
    net = o.quantised(o.conv(o.input([1, 4, 6, 6]), (4, 4, 3, 3)), 0.05, 0)
    return {
        "litert": b.save(tmp_path / "m.tflite", [x], [y]),
        "onnxruntime": o.save(tmp_path / "m.onnx", net, [1, 4, 4, 4]),
    }


@pytest.mark.parametrize("runtime", ["litert", "onnxruntime"])
@pytest.mark.parametrize("error", [ValueError, RuntimeError, TypeError, MemoryError, OverflowError, "its own"])
@pytest.mark.parametrize("step", ["__init__", "__call__"])
def test_a_reference_that_cannot_be_had_is_told(
    runtime: str, error: Any, step: str, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = type("Fail", (Exception,), {"__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})

    def fails(*_: Any, **__: Any) -> None:
        raise (own if error == "its own" else error)("made up\nand more")

    names = {"litert": "Apart", "onnxruntime": "_OnnxRuntime"}
    monkeypatch.setattr(getattr(interpreters, names[runtime]), step, fails)
    x = [np.zeros((1, 4), np.int8)] if runtime == "litert" else [np.zeros((1, 4, 6, 6), np.float32)]
    with pytest.raises((CheckError, ModelError), match=r"m\.\w+.*: made up$"):
        reference_outputs(models[runtime], x)


@pytest.mark.parametrize("scale", [0.0, -0.02, float("nan"), float("inf"), 1e-45, 3e38])
@pytest.mark.parametrize("where", ["input", "weights", "output"])
def test_a_scale_that_is_none_is_exact_or_told(
    where: str, scale: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    o = QdqBuilder(3)
    x = o.input([1, 4, 6, 6], scale=scale if where == "input" else 0.02)
    with np.errstate(all="ignore"):
        w, _ = o.weight((4, 4, 3, 3), scale=scale if where == "weights" else 0.01)
    y = o.quantised(o.node("Conv", [x, w]), scale if where == "output" else 0.05, 0)
    path = o.save(tmp_path / "m.onnx", y, [1, 4, 4, 4])
    code = main(["run", str(path), "--config", "tiny", "--no-cache", "--check"])
    said = capsys.readouterr()
    assert (code == 0 and "equal the reference" in said.out) or (code == 2 and said.err.count("\n") == 1), said


def test_texts_and_not_a_number_differ_without_a_distance() -> None:
    texts = np.array([["a", "b"], ["c", "d"]], object)
    others = np.array([["a", "b"], ["c", "e"]], object)
    assert compare([texts], [texts.copy()], [1.0]).exact
    numbers = np.array([[1.0], [np.nan]], np.float32)
    found = [compare([texts], [others], [1.0]), compare([numbers], [np.ones_like(numbers)], [1.0])]
    assert [str(difference) for difference in found] == [
        "1 of 4 elements in 1 of 2 outputs differ from the reference",
        "1 of 2 elements in 1 of 2 outputs differ from the reference",
    ]
