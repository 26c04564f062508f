"""Recurrent layers of float ONNX models, written out and quantised."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

pytest.importorskip("onnxruntime")

import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.quantize import quantize_file
from tilewright.quantize.base import QuantizeError
from tilewright.quantize.gemms import plain_gemms
from tilewright.quantize.unrolled import MOST_STEPS, unroll
from tilewright.runtime import interpreters

F = np.float32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": ("h0", "c0"), "GRU": ("h0",), "RNN": ("h0",)}
RESULTS = {"LSTM": ("y", "h", "c"), "GRU": ("y", "h"), "RNN": ("y", "h")}


def recurrent(
    kind: str,
    *,
    steps: int = 4,
    rows: int = 1,
    inputs: int = 6,
    units: int = 5,
    direction: str = "forward",
    bias: bool = True,
    states: str = "given",
    **options: Any,
) -> Any:
    """A model of one layer with seeded weights; ``states``: given, zero (a constant) or none."""
    rng = np.random.default_rng(7)
    directions = 2 if direction == "bidirectional" else 1
    shapes = {"W": (GATES[kind] * units, inputs), "R": (GATES[kind] * units, units), "B": (2 * GATES[kind] * units,)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.4, (directions, *shape)).astype(F), name)
        for name, shape in shapes.items()
        if bias or name != "B"
    ]
    asked = [helper.make_tensor_value_info("x", 1, [steps, rows, inputs])]
    names = ["x", "W", "R", "B" if bias else "", ""]
    for state in STATES[kind] if states != "none" else ():
        names.append(state)
        if states == "given":
            asked.append(helper.make_tensor_value_info(state, 1, [directions, rows, units]))
        else:
            constants.append(numpy_helper.from_array(np.zeros((directions, rows, units), F), state))
    node = helper.make_node(kind, names, RESULTS[kind], "cell", hidden_size=units, direction=direction, **options)
    made = [helper.make_tensor_value_info(name, 1, None) for name in RESULTS[kind]]
    graph = helper.make_graph([node], "net", asked, made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(model: Any) -> None:
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model, strict_mode=True), full_check=True)


def results(model: Any, seed: int = 1) -> list[Any]:
    rng = np.random.default_rng(seed)
    x = {
        value.name: rng.normal(0, 1, [d.dim_value for d in value.type.tensor_type.shape.dim]).astype(F)
        for value in model.graph.input
    }
    session = interpreters.onnxruntime_session(model.SerializeToString(), interpreters.onnxruntime_options)
    return list(session.run(None, x))


CASES = [
    (kind, rows, direction, bias, states, late)
    for kind, rows, direction, (bias, states), late in itertools.product(
        GATES, (1, 3), ("forward", "reverse", "bidirectional"),
        ((True, "given"), (True, "none"), (False, "zero")), (0, 1),
    )
    if kind == "GRU" or not late
]  # fmt: skip


@pytest.mark.parametrize(("kind", "rows", "direction", "bias", "states", "late"), CASES)
def test_what_is_written_out_computes_the_same(
    kind: str, rows: int, direction: str, bias: bool, states: str, late: int
) -> None:
    options = {"linear_before_reset": late} if kind == "GRU" else {}
    model = recurrent(kind, rows=rows, direction=direction, bias=bias, states=states, **options)
    expected = results(model)
    assert unroll(model).alike
    assert not {node.op_type for node in model.graph.node} & set(GATES)
    check(model)
    for got, value in zip(results(model), expected, strict=True):
        assert got.shape == value.shape
        np.testing.assert_allclose(got, value, atol=2e-6)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_rectified_cells_are_written_out(direction: str) -> None:
    """As PyTorch's RNN has them with ``nonlinearity="relu"``."""
    model = recurrent("RNN", direction=direction, activations=["Relu"] * (1 + (direction == "bidirectional")))
    expected = results(model)
    assert unroll(model).alike
    for got, value in zip(results(model), expected, strict=True):
        np.testing.assert_allclose(got, value, atol=2e-6)


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("LSTM", {"steps": MOST_STEPS + 1}, "65 steps, more than 64"),
        ("LSTM", {"clip": 3.0}, "its clip is 3.0"),
        ("LSTM", {"input_forget": 1}, "its input_forget is 1"),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"]}, "its functions are hardsigmoid, tanh"),
        ("RNN", {"activations": ["Sigmoid"]}, "its functions are sigmoid"),
    ],
)
def test_other_layers_stay(kind: str, options: dict[str, Any], why: str) -> None:
    model = recurrent(kind, **options)
    before = model.SerializeToString()
    alike, (sentence,) = unroll(model)
    assert alike == []
    assert sentence.startswith(f"{kind} ")
    assert why in sentence
    assert model.SerializeToString() == before


def test_sequences_of_several_lengths_stay() -> None:
    model = recurrent("GRU", rows=2)
    for lengths, written in (([4, 3], False), ([4, 4], True)):
        tried = onnx.ModelProto()
        tried.CopyFrom(model)
        tried.graph.initializer.append(numpy_helper.from_array(np.array(lengths, np.int32), "lengths"))
        tried.graph.node[0].input[4] = "lengths"
        assert bool(unroll(tried).alike) == written


def test_layers_without_names() -> None:
    model = recurrent("RNN")
    model.graph.node[0].name = ""
    second = model.graph.node.add()
    second.CopyFrom(model.graph.node[0])
    second.output[:] = ["y2", "h2"]
    model.graph.output.append(helper.make_tensor_value_info("y2", 1, None))
    expected = results(model)
    assert unroll(model).alike
    check(model)
    for got, value in zip(results(model), expected, strict=True):
        np.testing.assert_allclose(got, value, atol=2e-6)


def test_what_stays_is_said(tmp_path: Path) -> None:
    model = recurrent("RNN", states="none")
    other = model.graph.node.add()
    other.CopyFrom(model.graph.node[0])
    other.name = "other"
    other.output[:] = ["y2", "h2"]
    other.attribute.append(helper.make_attribute("activations", ["Elu"]))
    model.graph.output.append(helper.make_tensor_value_info("y2", 1, None))
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(3, 4, 1, 6)).astype(F))
    onnx.save(model, tmp_path / "mixed.onnx")
    (sentence,) = quantize_file(tmp_path / "mixed.onnx", tmp_path / "x.npy").stay
    assert sentence == "RNN 'other' stays in float32 on the CPU: its functions are elu, not tanh"
    del model.graph.node[0], model.graph.output[:2]
    onnx.save(model, tmp_path / "alone.onnx")
    with pytest.raises(QuantizeError, match="the accelerator has nothing to do; RNN 'other' stays in float32"):
        quantize_file(tmp_path / "alone.onnx", tmp_path / "x.npy")


def test_weights_that_a_branch_reads_too() -> None:
    model = recurrent("RNN")
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(kind, ["W", "W"], [f"{name}_out"], f"{name}_op")], name, [],
            [helper.make_tensor_value_info(f"{name}_out", 1, [1, 5, 6])],
        )
        for name, kind in (("then", "Add"), ("else", "Sub"))
    }  # fmt: skip
    condition = numpy_helper.from_array(np.array(True), "condition")
    model.graph.initializer.append(condition)
    model.graph.node.append(helper.make_node("If", ["condition"], ["chosen"], "if", **branches))
    model.graph.output.append(helper.make_tensor_value_info("chosen", 1, [1, 5, 6]))
    expected = results(model)
    assert unroll(model).alike
    for got, value in zip(results(model), expected, strict=True):
        np.testing.assert_allclose(got, value, atol=2e-6)


def test_steps_have_tensors_alike() -> None:
    model = recurrent("LSTM", steps=5)
    alike = unroll(model).alike
    made = {t for node in model.graph.node for t in node.output} | {"h0", "c0"}
    assert all(set(group) <= made for group in alike)
    assert [len(group) for group in alike if not {"h0", "c0"} & set(group)] == [5] * (len(alike) - 2)
    assert [len(group) for group in alike if {"h0", "c0"} & set(group)] == [7, 7]
    assert len({t for group in alike for t in group}) == sum(map(len, alike))


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_addends_that_are_no_constants(beta: float) -> None:
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.normal(0, 1, (4, 3)).astype(F), "w")
    bias = numpy_helper.from_array(rng.normal(0, 1, 4).astype(F), "b")
    nodes = [
        helper.make_node("Gemm", ["x", "w", "y"], ["z"], "sum", transB=1, alpha=2.0, beta=beta),
        helper.make_node("Gemm", ["x", "w", "b"], ["v"], "bias", transB=1, beta=beta),
    ]
    asked = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [2, 3]), ("y", [1, 4]))]
    made = [helper.make_tensor_value_info(n, 1, [2, 4]) for n in ("z", "v")]
    graph = helper.make_graph(nodes, "net", asked, made, [weights, bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = results(model)
    assert plain_gemms(model)
    assert not plain_gemms(model)
    check(model)
    gemms = [node for node in model.graph.node if node.op_type == "Gemm"]
    assert [len(node.input) for node in gemms] == [2, 3]
    for got, value in zip(results(model), expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("LSTM", {"states": "none"}), ("LSTM", {"direction": "bidirectional"}), ("GRU", {}),
     ("GRU", {"linear_before_reset": 1, "states": "zero"}), ("RNN", {"rows": 2})],
)  # fmt: skip
def test_quantised_layers_are_on_the_accelerator_and_proven(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Every product on the accelerator, every operator proven, integers equal to ONNX Runtime's."""
    model = recurrent(kind, inputs=16, units=16, **options)
    source, target = tmp_path / "net.onnx", tmp_path / "int8.onnx"
    onnx.save(model, str(source))
    rng = np.random.default_rng(2)
    names = [value.name for value in model.graph.input]
    shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input]
    data = [rng.normal(0, 1, (8, *(shape[1:] if shape[0] == 1 else shape))).astype(F) for shape in shapes]
    np.savez(tmp_path / "x.npz", allow_pickle=False, **dict(zip(names, data, strict=True)))
    quantize_file(source, tmp_path / "x.npz").save(target)
    exe: Any = tw.compile(target, "tiny", cache=False)
    operators = exe.artifact.options["operators"]
    assert {o["place"] for o in operators if o["macs"]} == {"accelerator"}
    assert all(o["exact"] in ("proven", "by construction") for o in operators)
    got, _ = exe.run(data if len(data) > 1 else data[0])
    for mine, wanted in zip(got, reference_outputs(target, data), strict=True):
        np.testing.assert_array_equal(mine, wanted)
