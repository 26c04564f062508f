"""Local functions mean what ONNX Runtime takes them for, and the reference is the file as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.jit.source import open_source
from tilewright.runtime.interpreters import onnxruntime_options

_HEAD = """<ir_version: 8, opset_import: ["" : 13, "own" : 1, "com.microsoft" : 1]>
net (float[N,4,6,6] x, bool c) => (float[N,4,6,6] y)
<int8[4,4,1,1] w = {1,-2,3,4, 5,6,-7,8, 9,-10,11,12, 13,14,15,-16}, float s = {0.0625}, float t = {0.5}, int8 z = {0}>
{ q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  v = DequantizeLinear(w, s, z)
  m = Conv(d, v)  k = QuantizeLinear(m, t, z)  e = DequantizeLinear(k, t, z)
"""
_LEAKY = """<opset_import: ["" : 13], domain: "own">
f<alpha: float = 0.25>(a) => (b) { b = LeakyRelu<alpha = @alpha>(a) }"""
_NESTED = '<opset_import: ["" : 13, "own" : 1], domain: "own"> g{}(a) => (b) {{ h = own.f{}(a) b = Neg(h) }}'
_NEG = '<opset_import: ["" : 13], domain: "{}"> {}(a) => (b) {{ b = Neg(a) }}'

#: by name: what becomes of e, the functions of the file, and what that is in NumPy
FORMS: dict[str, tuple[str, list[str], Callable[[Any], Any]]] = {
    "default": ("y = own.f(e)", [_LEAKY], lambda e: np.where(e < 0, np.float32(0.25) * e, e)),
    "given": ("y = own.f<alpha = 0.5>(e)", [_LEAKY], lambda e: np.where(e < 0, np.float32(0.5) * e, e)),
    "nested": ("y = own.g(e)", [_NESTED.format("", ""), _LEAKY], lambda e: -np.where(e < 0, np.float32(0.25) * e, e)),
    "handed on": (
        "y = own.g(e)",
        [_LEAKY, _NESTED.format("<beta: float = 0.5>", "<alpha: float = @beta>")],
        lambda e: -np.where(e < 0, np.float32(0.5) * e, e),
    ),
    "handed on by nobody": (
        "y = own.g(e)",
        [_NESTED.format("<beta>", "<alpha: float = @beta>"), _LEAKY],
        lambda e: -np.where(e < 0, np.float32(0.25) * e, e),
    ),
    "in a branch": (
        "y = If(c) <then_branch = p () => (float[1,4,6,6] i) { i = own.f(e) }, "
        "else_branch = r () => (float[1,4,6,6] j) { j = own.f(e) }>",
        [_LEAKY],
        lambda e: np.where(e < 0, np.float32(0.25) * e, e),
    ),
    "of an operator's name": ("y = Relu(e)", [_NEG.format("", "Relu")], lambda e: np.maximum(e, 0)),
    "of a new operator's name": ("y = com.microsoft.Mine(e)", [_NEG.format("com.microsoft", "Mine")], np.negative),
}


@pytest.mark.parametrize("form", FORMS)
def test_local_functions(form: str, tmp_path: Path) -> None:
    last, functions, meant = FORMS[form]
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(f"{_HEAD} {last} }} {' '.join(functions)}"), path)
    rng = np.random.default_rng(1)
    x, c = rng.normal(0, 2, (3, 4, 6, 6)).astype(np.float32), np.array([True, False, True])
    session = onnxruntime.InferenceSession(str(path), onnxruntime_options())
    wanted = np.stack([session.run(None, {"x": x[k : k + 1], "c": np.array(c[k])})[0][0] for k in range(3)])
    e = _without_function(x)
    np.testing.assert_array_equal(wanted, meant(e))
    np.testing.assert_array_equal(reference_outputs(path, [x, c])[0], wanted)
    np.testing.assert_array_equal(tw.compile(path, "tiny", cache=False, compare=False)([x, c]), wanted)


def _without_function(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(
        parser.parse_model(f"{_HEAD} y = Identity(e) }}").SerializeToString(), onnxruntime_options()
    )
    return np.stack([session.run(None, {"x": image[None], "c": np.array(True)})[0][0] for image in x])


def test_the_reference_is_the_file_as_it_is_where_onnx_runtime_loads_it(tmp_path: Path) -> None:
    model = parser.parse_model(f"{_HEAD} y = own.f(e) }} {_LEAKY}")
    for name, ir, same in (("known", 8, True), ("newer", 99, False)):
        model.ir_version = ir
        onnx.save(model, path := tmp_path / f"{name}.onnx")
        content, _, shapes = open_source(path).reference()
        assert (content == path.read_bytes()) is same
        assert shapes == [(1, 4, 6, 6), ()]
