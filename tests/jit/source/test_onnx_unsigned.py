"""int8 activations as uint8: the same real numbers, and integer layers where there were float32 ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from tests.jit.source.onnx_nets import NetBuilder
from tests.jit.source.onnx_run import compared, interpreted
from tilewright.jit.source.onnx.unsigned import make_unsigned


def ran(content: bytes, x: Any) -> list[Any]:
    """Operator by operator, as the file has them."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {session.get_inputs()[0].name: x}))


def residual(path: Path) -> Path:
    """A tensor that two layers read, a range of its own by Clip, and a result in integers."""
    b = NetBuilder(3, "int8", 18)
    x = b.real_input((1, 4, 9, 9))
    first = b.fitted(b.conv(x, 8, pads=[1, 1, 1, 1]), (1, 8, 9, 9), 0.8)
    second = b.fitted(b.conv(first, 8, pads=[1, 1, 1, 1]), (1, 8, 9, 9), 0.8)
    total = b.op("Add", [first.name, second.name])
    clipped = b.op("Clip", [b.quantise(total, 0.02, 5), b.constant(np.int8(-64)), b.constant(np.int8(63))])
    b.output(b.dequantise(clipped, 0.02, np.int8(5)), (1, 8, 9, 9))
    b.output(b.quantise(total, 0.03, -2), (1, 8, 9, 9), "int8")
    return b.save(path)


def test_same_numbers(tmp_path: Path) -> None:
    path = residual(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    make_unsigned(model)
    onnx.checker.check_model(model)
    x = np.random.default_rng(0).normal(0, 2, (1, 4, 9, 9)).astype(np.float32)
    for want, got in zip(ran(path.read_bytes(), x), ran(model.SerializeToString(), x), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(want, got)
    constants = {t.name: t for t in model.graph.initializer}
    zeros = [constants[node.input[2]].data_type for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert zeros == [onnx.TensorProto.UINT8] * 4 + [onnx.TensorProto.INT8]
    weights = [t for t in model.graph.initializer if len(t.dims) == 4]
    assert {t.data_type for t in weights} == {onnx.TensorProto.INT8}


def test_layers_become_those_that_are_proven(tmp_path: Path) -> None:
    path = residual(tmp_path / "m.onnx")
    _, before = compared(path)
    model = onnx.load(str(path))
    make_unsigned(model)
    onnx.save(model, str(tmp_path / "u.onnx"))
    _, after = compared(tmp_path / "u.onnx")

    def unproven(built: Any) -> int:
        return sum(layer.channels - layer.exact for layer in built.exactness)

    assert unproven(before) == 16
    assert unproven(after) == 0
    assert all(reason.startswith(("Clip", "Add")) for reason in interpreted(after).values())
