"""Quantised operators of ONNX Runtime's own, in files without anything else that is quantised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted
from tilewright.jit.source.onnx.validate import is_quantised


def _attention(b: NetBuilder) -> None:
    x = b.input((1, 5, 8), "uint8")
    weight = b.constant(b.rng.integers(-127, 128, (8, 24)).astype(np.int8))
    bias = b.constant(b.rng.normal(0, 1, 24).astype(F))
    numbers = [b.constant(F(0.03)), b.constant(F(0.01)), "", b.constant(np.uint8(90))]
    b.output(b.op("QAttention", [x, weight, bias, *numbers], "com.microsoft", num_heads=2), (1, 5, 8))


def _product(b: NetBuilder) -> None:
    weight = b.constant(b.rng.integers(-127, 128, (8, 6)).astype(np.int8))
    x = b.input((1, 8))
    b.output(b.op("DynamicQuantizeMatMul", [x, weight, b.constant(F(0.01))], "com.microsoft"), (1, 6))


@pytest.mark.parametrize("made", [_attention, _product])
def test_file_is_quantised_and_runs(made: Callable[[NetBuilder], None], tmp_path: Path) -> None:
    b = NetBuilder(1, opset=17)
    made(b)
    path = b.save(tmp_path / "m.onnx")
    _, built = compared(path)
    (reason,) = interpreted(built).values()
    assert ("dynamic quantisation" in reason) == (made is _product)
    assert is_quantised(onnx.load(str(path)))
