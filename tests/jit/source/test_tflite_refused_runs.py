"""Operators that LiteRT refuses to run on some numbers: they stay with it, and say so when they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.runtime.litert_models import Net, numbers, tensor
from tilewright.runtime.interpreters import InterpreterError, load

pytest.importorskip("ai_edge_litert")


def compiled(net: Net, tmp_path: Path) -> tw.Executable:
    net.save(tmp_path / "m.tflite")
    return tw.compile(tmp_path / "m.tflite", config="tiny", cache=False)


def test_a_root_of_some_numbers_is_the_interpreters(tmp_path: Path) -> None:
    x, y = tensor([1, 8], "int8", 0.5), tensor([1, 8], "int8", 0.1)
    exe = compiled(Net("SQRT", [x], [y]), tmp_path)
    assert [(o["place"], o["op"]) for o in exe.artifact.options["operators"]] == [("interpreter", "SQRT")]
    assert "only defined for non-negative" in exe.artifact.options["operators"][0]["reason"]
    given = np.arange(8, dtype=np.int8)[None]
    np.testing.assert_array_equal(exe(given), load("litert", (tmp_path / "m.tflite").read_bytes(), "m")([given])[0])
    with pytest.raises(InterpreterError, match="only defined for non-negative values"):
        exe(-given)


def test_places_beyond_the_tensor_are_the_interpreters(tmp_path: Path) -> None:
    x, y = tensor([1, 4, 8], "int8", 0.5), tensor([1, 2, 8], "int8", 0.5)
    exe = compiled(Net("GATHER", [x, numbers(1, 9)], [y], "GatherOptions", {"axis": 1}), tmp_path)
    assert exe.artifact.options["operators"][0]["place"] == "interpreter"
    with pytest.raises(InterpreterError, match="index out of bounds"):
        exe(np.zeros((1, 4, 8), np.int8))
