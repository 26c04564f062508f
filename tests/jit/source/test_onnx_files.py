"""Files around quantised networks: functions, branches, versions, and what is quantised in ways of its maker's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds
from tilewright.jit.errors import ModelError
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

IMAGE = (1, 8, 10, 9)


def _net(path: Path) -> Any:
    b = NetBuilder(11, "uint8")
    shape = (1, 6, *IMAGE[2:])
    b.output(b.pair(b.op("Relu", [b.conv(b.real_input(IMAGE), 6, pads=[1] * 4)]), shape, 0.11, -128).name, shape)
    return onnx.load(str(b.save(path)))


def test_local_functions(tmp_path: Path) -> None:
    """The whole network is a function of its input and its constants."""
    path = tmp_path / "m.onnx"
    model = _net(path)
    graph = model.graph
    given = [v.name for v in (*graph.input, *graph.initializer)]
    results = [v.name for v in graph.output]
    body = helper.make_function("own", "Net", given, results, list(graph.node), list(model.opset_import))
    call = helper.make_node("Net", given, results, domain="own")
    outer = helper.make_graph([call], "outer", list(graph.input), list(graph.output), list(graph.initializer))
    opsets = [*model.opset_import, helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(outer, functions=[body], opset_imports=opsets, ir_version=8), str(path))
    _, built = compared(path)
    assert kinds(built) == ["Conv2D"], interpreted(built)


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = _net(path)
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    opsets = [*model.opset_import, helper.make_opsetid("own", 1)]
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [call], opsets))
    model.graph.node.append(helper.make_node("F", [model.graph.output[0].name], ["more"], domain="own"))
    model.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(model, str(path))
    with pytest.raises(ModelError, match="onnxruntime cannot run it"):
        OnnxSource(path)


def test_constants_declared_as_inputs_up_to_ir_version_3(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = _net(path)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    onnx.save(model, str(path))
    _, built = compared(path)
    assert len(built.graph.inputs) == 1
    assert kinds(built) == ["Conv2D"], interpreted(built)


def test_quantised_branches_run_on_the_cpu(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    graph = _net(path).graph
    branches = []
    for number in range(2):
        names = {t: f"{t}_{number}" for node in graph.node for t in node.output}
        nodes = []
        for node in graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = [names.get(t, t) for t in node.input]
            copy.output[:] = [names[t] for t in node.output]
            nodes.append(copy)
        result = helper.make_tensor_value_info(names[graph.output[0].name], 1, [1, 6, *IMAGE[2:]])
        branches.append(helper.make_graph(nodes, f"branch{number}", [], [result]))
    chosen = helper.make_tensor_value_info("which", onnx.TensorProto.BOOL, [])
    node = helper.make_node("If", ["which"], ["y"], then_branch=branches[0], else_branch=branches[1])
    result = helper.make_tensor_value_info("y", 1, [1, 6, *IMAGE[2:]])
    outer = helper.make_graph([node], "outer", [chosen, *graph.input], [result], list(graph.initializer))
    onnx.save(helper.make_model(outer, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    source = OnnxSource(path)
    built = source.build({})
    assert not kinds(built)
    assert len(interpreted(built)) == 1
    run = interpreters.load("onnxruntime", path.read_bytes(), "whole")
    image = np.random.default_rng(0).normal(size=IMAGE).astype(F)
    chosen_one: Any = np.bool_(True)  # an element of a row of them
    (y,) = run([chosen_one if name == "which" else image for name in built.graph.inputs])
    assert y.shape == (1, 6, *IMAGE[2:])


@pytest.mark.parametrize(
    ("kind", "domain", "words"),
    [
        ("Quant", "qonnx.custom_op.general", "QONNX .*export_onnx_qcdq"),
        ("BFPQuantizeDequantize", "com.amd.quark", "AMD Quark's own .*XINT8"),
        ("MatMulNBits", "com.microsoft", "only weights are quantised, in blocks .*tilewright quantize"),
        ("MatMul", "", "not quantised: .*tilewright quantize"),
    ],
)
def test_what_is_quantised_otherwise_is_refused_by_name(tmp_path: Path, kind: str, domain: str, words: str) -> None:
    b = NetBuilder(15)
    weight = b.constant(np.ones((4, 4), F))
    attributes = {"K": 4, "N": 4, "block_size": 16, "bits": 4} if kind == "MatMulNBits" else {}
    if kind == "MatMulNBits":
        weight = b.constant(np.zeros((4, 1, 8), np.uint8))
    inputs = [b.input((2, 4)), weight, *([b.constant(np.ones(4, F))] if kind == "MatMulNBits" else [])]
    b.output(b.op(kind, inputs, domain, **attributes), (2, 4))
    path = b.save(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    if domain not in ("", "com.microsoft"):
        model.opset_import.append(helper.make_opsetid(domain, 1))
        onnx.save(model, str(path))
    with pytest.raises(ModelError, match=words):
        OnnxSource(path)
