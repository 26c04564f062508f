"""Comparing with the interpreter stands no compilation in the way: loops, shapes that values decide, texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import tilewright as tw
from tilewright import agreement
from tilewright.checking import CheckError, reference_outputs
from tilewright.errors import TilewrightError
from tilewright.jit.source.base import Source

#: q and e: an int8 layer and its result in float32
_LAYER = """
<int8[4,4,1,1] w = {1,-2,3,4, 5,6,-7,8, 9,-10,11,12, 13,14,15,-16}, float s = {0.0625}, float t = {0.5}, int8 z = {0}>
{ d = DequantizeLinear(x, s, z)  v = DequantizeLinear(w, s, z)
  m = Conv(d, v)  k = QuantizeLinear(m, t, z)  e = DequantizeLinear(k, t, z)
"""


def saved(path: Path, inputs: str, outputs: str, nodes: str) -> Path:
    text = f'<ir_version: 8, opset_import: ["" : 13]> net (int8[1,4,6,6] x{inputs}) => ({outputs}) {_LAYER} {nodes} }}'
    onnx.save(parser.parse_model(text), path)
    return path


def images(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).integers(-128, 128, (count, 4, 6, 6)).astype(np.int8)


def test_a_loop_that_goes_round_as_often_as_an_input_says_goes_round_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs_of = agreement.outputs_of

    def few(source: Source, inputs: list[Any]) -> list[Any]:
        assert inputs[1].max() < 10
        return outputs_of(source, inputs)

    monkeypatch.setattr(agreement, "outputs_of", few)
    body = "(int64 i, bool b, float[1,4,6,6] a) => (bool b2, float[1,4,6,6] a2) { b2 = Identity(b) a2 = Add(a, a) }"
    path = saved(tmp_path / "net.onnx", ", int64 n", "float[1,4,6,6] y", f"y = Loop(n, , e) <body = g {body}>")
    exe = tw.compile(path, "tiny", cache=False)
    assert exe.artifact.options["compared"] == "equal to onnxruntime on 8 inputs"
    inputs = [images(2), np.array([0, 5])]
    np.testing.assert_array_equal(exe(inputs), reference_outputs(path, inputs)[0])


@pytest.mark.parametrize(
    ("outputs", "nodes"),
    [
        ("int64[4,N] y", "y = NonZero(e)"),
        ("float[N] y", "y = Unique(e)"),
        ("seq(float[1,2,6,6]) y", "y = SplitToSequence <axis = 1> (e)"),
    ],
)
def test_what_has_a_shape_by_its_values_is_not_compared(outputs: str, nodes: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", "", outputs, nodes)
    exe = tw.compile(path, "tiny", cache=False)
    assert "shape" in exe.artifact.options["uncompared"]
    with pytest.raises(TilewrightError, match="y has the shape"):
        exe(images(1))


def test_outputs_that_do_not_stack_are_an_error_of_checking(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", "", "int64[4,N] y", "y = NonZero(e)")
    with pytest.raises(CheckError, match="outputs of different shapes for different inputs"):
        reference_outputs(path, [images(2)])


def test_inputs_of_text_are_drawn(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", ", string[1,2] words", "float[1,4,6,6] e, string[1,2] u", "u = Identity(words)")
    exe = tw.compile(path, "tiny", cache=False)
    assert exe.artifact.options["compared"] == "equal to onnxruntime on 8 inputs"
