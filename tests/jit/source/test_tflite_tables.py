"""Functions of single elements run on the accelerator, by tables that equal LiteRT's kernels for all 256 values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.source.test_tflite_source import assert_equal, conv, places
from tests.jit.tflite_models import TfliteBuilder, litert
from tilewright.jit.importer import import_model
from tilewright.jit.source.operators import TFLITE
from tilewright.jit.source.tflite import tables
from tilewright.runtime.steps import ConstantStep

TABLES = {name: row.elementwise for name, row in TFLITE.items() if row.rule == "tables:table"}
FUNCTIONS = [name for name, operands in TABLES.items() if operands == 1]
OF_A_NUMBER = [name for name, operands in TABLES.items() if operands == 2]
FIXED = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}  #: scale and zero point that LiteRT asks for
OPTIONS = {
    "LEAKY_RELU": "LeakyReluOptions", "HARD_SWISH": "HardSwishOptions", "ADD": "AddOptions", "MUL": "MulOptions",
    "SUB": "SubOptions", "GELU": "GeluOptions", "DIV": "DivOptions",
}  # fmt: skip

DIVIDES = {"DIV", "FLOOR_DIV", "FLOOR_MOD"}  #: LiteRT ends a model that divides by zero


def function(b: TfliteBuilder, kind: str, x: int, dtype: str = "int8") -> int:
    """``kind`` of a tensor."""
    scale, zero_point = FIXED.get(kind, (0.05, 7))
    shift = 128 if dtype == "uint8" else 0
    y = b.tensor(b.tensors[x]["shape"], scale, zero_point + shift, dtype)
    return b.op(kind, [x], y, OPTIONS.get(kind, ""), **({"Alpha": 0.3} if kind == "LEAKY_RELU" else {}))


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_between_convolutions(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    positive = kind in ("LOG", "RSQRT", "SQRT")  # LiteRT refuses others
    y = conv(b, x, 6, [1, 6, 6])
    if positive:
        b.tensors[y]["zero_point"] = -128
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [conv(b, function(b, kind, y), 5, [1, 6, 6])]))
    assert places(artifact) == {"CONV_2D": "accelerator", kind: "accelerator"}
    assert {entry["exact"] for entry in artifact.options["operators"]} == {"proven"}


@pytest.mark.parametrize("size", [2, 16, 17])  # fewer than 256 elements, 256, and more
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["LOGISTIC", "LEAKY_RELU"])
def test_all_values(kind: str, dtype: str, size: int, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.tensor([1, size, size, 1], 0.03, 130 if dtype == "uint8" else 2, dtype)
    path = b.save(tmp_path / "m.tflite", [x], [function(b, kind, x, dtype)])
    exe = tw.compile(path, "tiny", cache=False)
    assert exe.artifact.programs
    values = np.arange(256, dtype=np.uint8).view(dtype)
    for first in range(0, 256, size * size):
        given = np.resize(np.roll(values, -first), (1, size, size, 1))
        np.testing.assert_array_equal(exe.run(given)[0], litert(path, [given])[0])


@pytest.mark.parametrize(
    ("kind", "swapped"),
    [(kind, swapped) for kind in ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB", *OF_A_NUMBER) for swapped in (False, True)
     if not swapped or kind not in DIVIDES],
)  # fmt: skip
def test_a_tensor_and_a_number(kind: str, swapped: bool, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=4)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = conv(b, x, 6, [1, 6, 6])
    same = kind in ("MAXIMUM", "MINIMUM")
    number = b.tensor([1, 1, 1], *((0.09, 4) if same else (0.02, -5)), data=np.array([37], np.int8))
    out = b.tensor([1, 6, 6, 6], *((0.09, 4) if same else (0.11, 9)))
    z = b.op(kind, [number, y] if swapped else [y, number], out, OPTIONS.get(kind, ""))
    artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, 6, 6])]))
    assert places(artifact)[kind] == "accelerator"
    assert not any(isinstance(step, ConstantStep) for step in artifact.steps), "a table, not an image of one number"


@pytest.mark.parametrize("kind", ["ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB"])
def test_a_tensor_and_a_number_per_channel(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=8)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    same = kind in ("MAXIMUM", "MINIMUM")
    numbers = b.tensor([4], *((0.04, -3) if same else (0.02, -5)), data=np.array([37, -80, 5, 0], np.int8))
    out = b.tensor([1, 6, 6, 4], *((0.04, -3) if same else (0.11, 9)))
    y = b.op(kind, [x, numbers], out, OPTIONS.get(kind, ""))
    assert places(assert_equal(b.save(tmp_path / "m.tflite", [x], [y])))[kind] == "accelerator"


def test_more_tables_than_fit_on_the_chip(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = x
    for number in range(12):
        z = b.tensor([1, 6, 6, 4], 0.04 + 0.001 * number, -3)
        y = b.op("LEAKY_RELU", [y], z, "LeakyReluOptions", Alpha=0.3 + 0.01 * number)
    assert set(places(assert_equal(b.save(tmp_path / "m.tflite", [x], [y]))).values()) == {"accelerator"}


def test_a_table_in_tiles(tmp_path: Path) -> None:
    """A tensor of which no row fits on the chip."""
    b = TfliteBuilder(seed=6)
    x = b.tensor([1, 3, 700, 9], 0.04, -3)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [function(b, "TANH", x)]), count=1)
    assert places(artifact) == {"TANH": "accelerator"}


def test_what_is_no_table(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=7)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = conv(b, x, 6, [1, 6, 6])
    numbers = b.tensor([6], 0.02, -5, data=np.arange(6, dtype=np.int8))
    z = b.op("SQUARED_DIFFERENCE", [y, numbers], b.tensor([1, 6, 6, 6], 0.11, 9))
    artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], [z]))
    assert places(artifact)["SQUARED_DIFFERENCE"] == "interpreter"
    assert artifact.options["operators"][1]["reason"] == "a constant operand of several numbers"


@pytest.mark.parametrize("where", [256, 271, -1])
def test_results_that_depend_on_their_place_make_no_table(
    where: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As of a kernel that takes the last elements by another formula than those before."""
    load = tables.interpreters.load

    def other(*given: Any, **options: Any) -> Any:
        run = load(*given, **options)

        def changed(inputs: Any) -> Any:
            (result,) = run(inputs)
            result.reshape(-1)[where] ^= 1
            return [result]

        return changed

    b = TfliteBuilder(seed=7)
    x = b.tensor([1, 17, 17, 1], 0.04, -3)
    path = b.save(tmp_path / "m.tflite", [x], [function(b, "TANH", x)])
    monkeypatch.setattr(tables.interpreters, "load", other)
    assert import_model(path).host_ops == [("op000_TANH", "results that depend on more than the element")]
