"""``docs/operators.md`` is what the tables of rules say, and what compiled models do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import TfliteNet
from tests.jit.source.test_tflite_moves import KINDS, moved
from tests.jit.source.test_tflite_resample import RESIZES
from tests.jit.source.test_tflite_source import POOL, assert_equal, conv, places
from tests.jit.source.test_tflite_tables import OPTIONS, function
from tests.jit.tflite_models import NONE, SAME, TfliteBuilder
from tilewright import pages
from tilewright.jit.source.operators import ONNX, TFLITE, tflite_row
from tilewright.jit.source.operators_page import COSTS, PAGE, blocks, on_accelerator

SHAPE = [1, 6, 6, 8]


def apply(b: TfliteBuilder, kind: str, x: int) -> int:
    """The operator on an image of :data:`SHAPE`, as its scale and shape go on best."""
    same = b.tensor(SHAPE, 0.09, 4)
    row = tflite_row(kind)
    if row.elementwise == 1 and kind != "QUANTIZE":
        return function(b, kind, x)
    if kind == "QUANTIZE":
        return b.op(kind, [x], b.tensor(SHAPE, 0.11, -7), "QuantizeOptions")
    if kind == "PRELU":
        slopes = b.tensor([1, 1, 8], 0.02, 0, data=np.arange(-4, 4, dtype=np.int8).reshape(1, 1, 8))
        return b.op(kind, [x, slopes], same)
    if row.elementwise == 2 and row.family != "table":
        return b.op(kind, [x, conv(b, x, 8, SHAPE, 0.09)], same, OPTIONS.get(kind, ""))
    if row.elementwise == 2:
        return b.op(kind, [x, b.tensor([1], 0.09, 4, data=np.array([37], np.int8))], same, OPTIONS.get(kind, ""))
    if kind.startswith("RESIZE"):
        size = b.constant(np.array([12, 12], np.int32))
        return b.op(kind, [x, size], b.tensor([1, 12, 12, 8], 0.09, 4), RESIZES[kind])
    if kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        return b.op(kind, [x], b.tensor([1, 3, 3, 8], 0.09, 4), "Pool2DOptions", FusedActivationFunction=NONE, **POOL)
    if kind in ("PAD", "PADV2"):
        widths = b.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
        extra = [b.tensor([1], 0.09, 4, data=np.array([9], np.int8))] if kind == "PADV2" else []
        return b.op(
            kind, [x, widths, *extra], b.tensor([1, 8, 8, 8], 0.09, 4), f"{kind.title()}Options".replace("v", "V")
        )
    if row.batch == "axes":
        axes = b.constant(np.array([1, 2], np.int32))
        return b.op(kind, [x, axes], b.tensor([1, 1, 1, 8], 0.09, 4), "ReducerOptions", KeepDims=True)
    if kind == "SOFTMAX":
        return b.op(kind, [x], b.tensor(SHAPE, 1 / 256, -128), "SoftmaxOptions", Beta=1.0)
    if kind in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
        return reshaped(b, kind, x)
    return weighted(b, kind, x)


def reshaped(b: TfliteBuilder, kind: str, x: int) -> int:
    if kind == "RESHAPE":
        return b.op(kind, [x, b.constant(np.array([1, 36, 8], np.int32))], b.tensor([1, 36, 8], 0.09, 4))
    if kind == "SQUEEZE":
        return b.op(kind, [x], b.tensor([6, 6, 8], 0.09, 4), "SqueezeOptions")
    flat = b.op("RESHAPE", [x, b.constant(np.array([36, 8], np.int32))], b.tensor([36, 8], 0.09, 4))
    return b.op(kind, [flat, b.constant(np.array(0, np.int32))], b.tensor([1, 36, 8], 0.09, 4), "ExpandDimsOptions")


def weighted(b: TfliteBuilder, kind: str, x: int) -> int:
    steps = {"StrideH": 1, "StrideW": 1, "Padding": SAME}
    out = b.tensor(SHAPE, 0.3, -9)
    if kind == "CONV_2D":
        return conv(b, x, 8, SHAPE)
    if kind == "DEPTHWISE_CONV_2D":
        w, scales = b.weights([1, 3, 3, 8], 3)
        steps |= {"DilationHFactor": 1, "DilationWFactor": 1, "DepthMultiplier": 1}
        return b.op(kind, [x, w, b.bias(x, scales, 8)], out, "DepthwiseConv2DOptions", **steps)
    if kind == "FULLY_CONNECTED":
        w, scales = b.weights([8, 8], None)
        options = {"KeepNumDims": True}
        return b.op(kind, [x, w, b.bias(x, scales, 8)], out, "FullyConnectedOptions", **options)
    if kind == "BATCH_MATMUL":
        return b.op(kind, [x, b.weights([8, 8], None)[0]], out, "BatchMatMulOptions", AdjX=False, AdjY=False)
    assert kind == "TRANSPOSE_CONV"
    w, scales = b.weights([8, 3, 3, 8], 0)
    shape = b.constant(np.array(SHAPE, np.int32))
    return b.op(kind, [shape, w, x, b.bias(x, scales, 8)], out, "TransposeConvOptions", **steps)


def recurrent(kind: str, path: Path) -> Path:
    net = TfliteNet(seed=3)
    return net.save(path, [net.lstm(net.input((1, 6, 8)), 8) if kind != "SVDF" else net.svdf(net.input((1, 8)), 8)])


@pytest.mark.parametrize("kind", sorted(name for name, row in TFLITE.items() if row.rule))
def test_a_model_with_the_operator_runs_it_where_the_page_says(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 6, 4], 0.04, -3)
    y = conv(b, x, 8, SHAPE)
    if kind in ("LOG", "RSQRT", "SQRT"):
        b.tensors[y]["zero_point"] = -128  # LiteRT refuses negative numbers
    if TFLITE[kind].family in ("move", "block", "transpose", "concatenation"):
        b = TfliteBuilder(seed=3)
        x = b.tensor([1, 6, 8, 4], 0.04, -3)
        form = next(form for form in (*KINDS, "TRANSPOSE 0312") if form.split()[0] == kind)
        results = moved(b, form, conv(b, x, 12, [1, 6, 8]))
    else:
        results = [apply(b, kind, y)] if TFLITE[kind].family not in ("recurrent", "svdf") else []
    path = b.save(tmp_path / "m.tflite", [x], results) if results else recurrent(kind, tmp_path / "m.tflite")
    artifact = assert_equal(path, config="pynq-z2", count=1)
    if kind == "SUM":  # of int8 it is the interpreter's
        assert places(artifact)[kind] == "interpreter"
        return
    others = {"softmax": {"host"}, "transpose": {"none", "host"}, "view": {"none", "host", "accelerator"}}
    wanted = others.get(TFLITE[kind].family, {"accelerator"})
    assert places(artifact)[kind] in wanted


def test_every_rule_has_a_cost_and_every_cost_a_rule() -> None:
    assert {row.family for rows in (TFLITE, ONNX) for row in on_accelerator(rows).values()} == set(COSTS)


def test_the_page_is_up_to_date() -> None:
    committed = (pages._DOCS / PAGE).read_text()
    assert pages.filled(PAGE, blocks()) == committed, "run: python -m tilewright.jit.source.operators_page"
