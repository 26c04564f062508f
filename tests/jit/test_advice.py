"""What a report and errors say about layers that stay on the CPU: why, and what takes them off it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.jit.onnx_models import QdqBuilder
from tests.jit.tflite_models import TfliteBuilder
from tilewright.jit.errors import ModelError
from tilewright.jit.graph import Interpreted
from tilewright.jit.source import open_source
from tilewright.runtime.report.advice import advice


@pytest.mark.parametrize("real", [True, False])
def test_a_layer_of_float32_is_to_be_quantised_and_no_other(real: bool, tmp_path: Path) -> None:
    net = QdqBuilder()
    x = net.input([1, 3, 8, 8])
    middle = net.quantised(net.conv(x, (4, 3, 3, 3)), 0.05, 0)
    if real:
        y = net.node("Conv", [middle, net.constant(np.ones((1, 4, 3, 3), np.float32))])
    else:
        y = net.quantised(net.node("Conv", [middle, net.input([1, 4, 3, 3])]), 0.05, 0)
    path = net.save(tmp_path / "mixed.onnx", y, [1, 1, 4, 4])
    executable = tw.compile(path)
    _, report = executable.run([np.zeros(t.shape, np.float32) for t in executable.inputs])
    (note,) = [note for note in report.notes if "MACs run on the accelerator" in note]
    assert ("tilewright quantize" in note) == real, [o for o in executable.artifact.options["operators"] if o["macs"]]


def product(quantised: str) -> Any:
    """A product of 32 x 8 weights by a network input, quantised in one of the ways that stay on the CPU."""
    node, blocks = helper.make_node, quantised == "blocks"
    wide = np.int16(0) if quantised == "int16" else np.int8(0)
    constants: dict[str, Any] = {
        "s": np.float32(0.02), "z": wide, "wz": np.int8(0), "w": np.ones((32, 8), np.int8), "ws": np.float32(0.01),
    }  # fmt: skip
    if quantised == "dynamic":
        nodes = [
            node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
            node("MatMulInteger", ["q", "w", "qz"], ["sum"]),
            node("Cast", ["sum"], ["real"], to=TensorProto.FLOAT),
            node("Mul", ["real", "qs"], ["y"]),
        ]
    else:
        along: Any = {"axis": 0, "block_size": 16} if blocks else {}
        if blocks:
            constants |= {"ws": np.full((2, 8), 0.01, np.float32), "wz": np.zeros((2, 8), np.int8)}
        nodes = [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], **along),
            node("Gemm" if blocks else "MatMul", ["d", "wd"], ["real"]),
            node("QuantizeLinear", ["real", "s", "z"], ["p"]),
            node("DequantizeLinear", ["p", "s", "z"], ["y"]),
        ]
    floats = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [4, 32]), ("y", [4, 8]))]
    stored = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "test", floats[:1], floats[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


@pytest.mark.parametrize(
    ("quantised", "why", "way_out"),
    [
        ("dynamic", "dynamic quantisation", "with fixed scales"),
        ("int16", "activations quantised to int16", "to int8"),
        ("blocks", "blocked quantisation", "a scale for each channel"),
    ],
)
def test_a_model_that_stays_on_the_cpu_is_told_why_and_what_to_do(
    quantised: str, why: str, way_out: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(product(quantised), str(path))
    _, report = tw.compile(path).run(np.zeros((1, 4, 32), np.float32))
    (note,) = [note for note in report.notes if "MACs run on the accelerator" in note]
    assert "0.0% of the model's 1,024 MACs" in note
    assert all(words in note for words in (why, way_out, "tilewright quantize"))


def test_activations_of_16_bits_of_a_tflite_file_are_named(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.tensor([1, 16], 0.001, 0, "int16")
    weights, scales = builder.weights([8, 16], 0)
    zeros = np.zeros(8, np.int64)
    bias = builder.tensor([8], np.float32(0.001) * scales, dtype="int64", data=zeros)
    y = builder.op(
        "FULLY_CONNECTED", [x, weights, bias], builder.tensor([1, 8], 0.002, 0, "int16"), "FullyConnectedOptions"
    )
    _, report = tw.compile(builder.save(tmp_path / "model.tflite", [x], [y])).run(np.zeros((1, 16), np.int16))
    (note,) = [note for note in report.notes if "MACs run on the accelerator" in note]
    assert "int16; activations" in note
    assert "to int8 (`tilewright quantize`)" in note


def test_the_reason_with_the_most_macs_is_named() -> None:
    entries = [
        {"macs": macs, "place": place, "reason": reason}
        for macs, place, reason in (
            (50, "accelerator", ""), (30, "interpreter", "small"), (40, "host", "large"), (30, "interpreter", "large"),
            (900, "none", "part of another"),
        )
    ]  # fmt: skip
    assert advice(entries) == "; 70.0% of the others do not: large"
    assert advice(entries[:1]) == ""


def test_blocks_that_onnx_runtime_runs_only_without_its_optimiser_are_refused_by_name(tmp_path: Path) -> None:
    model = product("blocks")
    model.graph.node[3].op_type = "MatMul"
    onnx.save(model, str(tmp_path / "model.onnx"))
    with pytest.raises(
        ModelError, match=r"after its own optimiser, only without that: .*a channel, not in blocks"
    ) as said:
        open_source(tmp_path / "model.onnx")
    assert "shapes" not in str(said.value).split("; ")[-1]


@pytest.mark.parametrize(("kind", "called"), [("HardSwish", "HardSwish"), ("Sigmoid", "Sigmoid + Mul"), ("Elu", "Elu")])
def test_messages_name_operators_of_the_file(kind: str, called: str, tmp_path: Path) -> None:
    """ONNX Runtime writes a HardSwish out and fuses a SiLU."""
    net = QdqBuilder(opset=14)
    y = net.conv(net.input([1, 4, 6, 6]), (5, 4, 1, 1))
    z = net.node(kind, [y])
    z = net.node("Mul", [y, z]) if kind == "Sigmoid" else z
    path = net.save(tmp_path / "model.onnx", net.quantised(z, 0.03, 1), [1, 5, 6, 6])
    reasons = [op.reason for op in open_source(path).build({}).graph.ops if isinstance(op, Interpreted)]
    assert reasons == [f"{called} has no exact integer form on the accelerator"]
