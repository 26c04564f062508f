"""Operators that LiteRT refuses to run on some numbers: they stay with it, and say so when they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.tflite_models import SAME, TfliteBuilder, litert
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


@pytest.mark.parametrize("like", [(0.05, -3), (0.04, 2)], ids=["scale", "zero point"])
def test_a_padding_value_of_other_numbers_than_the_image_is_the_interpreters(
    like: tuple[float, int], tmp_path: Path
) -> None:
    b = TfliteBuilder(1)
    x, y = b.tensor([1, 4, 4, 4], 0.04, -3), b.tensor([1, 6, 4, 4], 0.04, -3)
    widths = b.constant(np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))
    b.op("PADV2", [x, widths, b.tensor([1], *like, data=np.array([17], np.int8))], y, "PadV2Options")
    exe = tw.compile(b.save(tmp_path / "m.tflite", [x], [y]), config="tiny", cache=False)
    assert exe.artifact.options["operators"][0]["reason"] == "a padding value with a scale of its own"
    with pytest.raises(InterpreterError, match="constant_values->params"):
        exe(np.zeros((1, 4, 4, 4), np.int8))


@pytest.mark.parametrize("numbers", [(0.05, -3), (0.04, 2)], ids=["scale", "zero point"])
@pytest.mark.parametrize("kind", ["REDUCE_MAX", "REDUCE_MIN"])
def test_an_extreme_of_other_numbers_than_the_image_is_the_interpreters(
    kind: str, numbers: tuple[float, int], tmp_path: Path
) -> None:
    """LiteRT compares them when it runs."""
    b = TfliteBuilder(1)
    x, y = b.tensor([1, 4, 4, 4], 0.04, -3), b.tensor([1, 4], *numbers)
    b.op(kind, [x, b.constant(np.array([1, 2], np.int32))], y, "ReducerOptions", KeepDims=0)
    exe = tw.compile(b.save(tmp_path / "m.tflite", [x], [y]), config="tiny", cache=False)
    assert exe.artifact.options["operators"][0]["reason"] == "a change of scale within a reduction to an extreme"
    with pytest.raises(InterpreterError, match=r"input->params|Node number 0"):
        exe(np.zeros((1, 4, 4, 4), np.int8))


def taking_its_shape(kind: str, path: Path) -> list[int]:
    """An operator on [1, 2, 2, 4] to which an input of the network says what shape to give; the values of that."""
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 2, 2, 4], 0.04, -3)
    values, options, fields = {
        "RESHAPE": ([1, 4, 4, 1], "ReshapeOptions", {}),
        "EXPAND_DIMS": ([3], "ExpandDimsOptions", {}),
        "RESIZE_NEAREST_NEIGHBOR": ([4, 4], "ResizeNearestNeighborOptions", {}),
        "TRANSPOSE_CONV": ([1, 4, 4, 4], "TransposeConvOptions", {"Padding": SAME, "StrideH": 2, "StrideW": 2}),
    }[kind]
    wanted = b.tensor([len(values)], dtype="int32")
    stated = {"RESHAPE": [1, 4, 4, 1], "EXPAND_DIMS": [1, 2, 2, 1, 4]}.get(kind, [1, 4, 4, 4])
    inputs = [wanted, b.weights([4, 2, 2, 4], None)[0], x] if kind == "TRANSPOSE_CONV" else [x, wanted]
    b.save(path, [x, wanted], [b.op(kind, inputs, b.tensor(stated, 0.04, -3), options, **fields)])
    return values


@pytest.mark.parametrize("kind", ["RESHAPE", "EXPAND_DIMS", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV"])
def test_a_shape_that_an_input_gives_is_the_interpreters(kind: str, tmp_path: Path) -> None:
    """The one in the file is a guess; of another that comes, the rest of the network knows nothing."""
    path = tmp_path / "m.tflite"
    values = np.array(taking_its_shape(kind, path), np.int32)
    exe = tw.compile(path, config="tiny", cache=False)
    assert [(o["place"], o["op"]) for o in exe.artifact.options["operators"]] == [("interpreter", kind)]
    assert "gives when it runs" in exe.artifact.options["operators"][0]["reason"]
    x = np.arange(16, dtype=np.int8).reshape(1, 2, 2, 4)
    np.testing.assert_array_equal(
        exe.run([x, values if len(values) == 1 else values[None]])[0], litert(path, [x, values])[0]
    )
    if kind == "RESHAPE":
        with pytest.raises(InterpreterError, match=r"has the shape \(1, 2, 8, 1\) .* compiled for \(1, 4, 4, 1\)"):
            exe.run([x, np.array([[1, 2, 8, 1]], np.int32)])
