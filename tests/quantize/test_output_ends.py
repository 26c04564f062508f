"""Outputs that join tensors of very different sizes: each part keeps what 8 bits of its own give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.quantize.test_runtime_takes import model, normal
from tilewright.quantize import Quantised, quantize_file
from tilewright.quantize.base import stored
from tilewright.quantize.operators import Operator, Seen
from tilewright.quantize.output_ends import faint_ends
from tilewright.runtime import interpreters

F = np.float32


def detector(path: Path, size: float, bias: float, end: str) -> Path:
    """Boxes up to about ``size`` and scores about the sigmoid of ``bias``, joined and, by ``end``, moved or read."""
    constants = {
        "w": normal(6, 3, 1, 1),
        "box": normal(4, 6, 1, 1, seed=1) * F(size / 4),
        "class": normal(5, 6, 1, 1, seed=2),
    }
    constants |= {"b": np.full(5, bias, F), "again": normal(2, 9, 1, 1, seed=3), "flat": np.array([1, 9, 36])}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], "first"),
        helper.make_node("Conv", ["h", "box"], ["boxes"], "boxes"),
        helper.make_node("Conv", ["h", "class", "b"], ["logits"], "logits"),
        helper.make_node("Sigmoid", ["logits"], ["scores"], "scores"),
        helper.make_node("Concat", ["boxes", "scores"], ["y" if end == "joined" else "both"], "join", axis=1),
    ]
    if end == "moved":
        nodes.append(helper.make_node("Reshape", ["both", "flat"], ["rows"], "rows"))
        nodes.append(helper.make_node("Transpose", ["rows"], ["y"], "turn", perm=[0, 2, 1]))
    if end == "read":
        nodes.append(helper.make_node("Conv", ["both", "again"], ["y"], "last"))
    return model(path, nodes, [1, 3, 6, 6], constants)


def quantised(path: Path, x: Any, folder: Path) -> Quantised:
    np.save(folder / "x.npy", x)
    return quantize_file(path, folder / "x.npy")


def decibels(exact: Any, got: Any) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(exact - got).sum()))


@pytest.mark.parametrize("end", ["joined", "moved"])
def test_boxes_and_scores_are_quantised_apart(end: str, tmp_path: Path) -> None:
    path = detector(tmp_path / "float.onnx", 300.0, -1.0, end)
    x = normal(12, 3, 6, 6, seed=7)
    made = quantised(path, x, tmp_path)
    said = "; ".join(made.stay)
    assert "Concat 'join'" in said
    assert "'scores' would keep" in said
    made.save(tmp_path / "quantised.onnx")
    got = np.asarray(tw.compile(tmp_path / "quantised.onnx", "tiny", cache=False)(x))
    run = interpreters.load("onnxruntime", made.content, "whole")
    real = interpreters.load("onnxruntime", path.read_bytes(), "real")
    wanted, exact = (np.concatenate([f([image[None]])[0] for image in x]) for f in (run, real))
    np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)
    axis = 2 if end == "moved" else 1
    parts = [np.split(value, [4], axis) for value in (exact, wanted)]
    assert [decibels(*pair) > 25 for pair in zip(*parts, strict=True)] == [True, True]


@pytest.mark.parametrize("size,end", [(1.0, "joined"), (300.0, "read")])
def test_joins_that_lose_little_or_are_read_by_layers_are_quantised(size: float, end: str, tmp_path: Path) -> None:
    made = quantised(detector(tmp_path / "float.onnx", size, 0.0, end), normal(12, 3, 6, 6), tmp_path)
    assert made.stay == ()
    graph = onnx.load_from_string(made.content).graph
    join = next(node for node in graph.node if node.op_type == "Concat")
    assert {n.op_type for n in graph.node if join.output[0] in n.input} == {"QuantizeLinear"}


@pytest.mark.parametrize("move", ["Transpose", "Identity", "Expand", "SPLIT_V", "UNPACK"])
def test_which_operators_stay(move: str) -> None:
    """What leads to outputs alone, from the first operator on that loses much."""
    rng = np.random.default_rng(0)
    seen = Seen()
    for name, size in (("a", 100.0), ("logits", 1.0), ("scores", 1e-2), ("both", 100.0), ("turned", 100.0)):
        seen.add(name, (rng.normal(0, size, 1000)).astype(F))
    operators = [
        Operator("sigmoid", "Sigmoid", ("logits",), ("scores",)),
        Operator("join", "Concat", ("a", "scores"), ("both",)),
        Operator("turn", move, ("both",), ("turned",)),
    ]
    found = faint_ends(operators, ["turned"], seen)
    assert list(found) == ["join", "turn"]
    assert found["join"] == found["turn"] == "in one scale of 8 bits 'scores' would keep 0.0 dB of signal to noise"
    assert faint_ends([*operators, Operator("last", "Conv", ("turned", "w"), ("y",))], ["y"], seen) == {}
    assert list(faint_ends([*operators, Operator("last", "Conv", ("a", "w"), ("y",))], ["y", "turned"], seen)) == [
        "join",
        "turn",
    ]


def test_a_detector_that_chooses_its_boxes(tmp_path: Path) -> None:
    """Boxes and scores of one tensor are cut apart for NonMaxSuppression, which gives the float network's choice."""
    path = detector(tmp_path / "float.onnx", 300.0, -1.0, "moved")
    loaded = onnx.load(str(path))
    graph = loaded.graph
    numbers = {
        "parts": np.array([4, 5]),
        "many": np.array([3]),
        "over": np.array([0.5], F),
        "least": np.array([0.1], F),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in numbers.items())
    graph.node.extend(
        [
            helper.make_node("Split", ["y", "parts"], ["corners", "marks"], "cut", axis=2),
            helper.make_node("Transpose", ["marks"], ["classes"], "classes", perm=[0, 2, 1]),
            helper.make_node("NonMaxSuppression", ["corners", "classes", "many", "over", "least"], ["z"], "choice"),
        ]
    )
    graph.output[0].CopyFrom(helper.make_tensor_value_info("z", TensorProto.INT64, None))
    onnx.save(loaded, str(path))
    x = normal(12, 3, 6, 6, seed=7)
    made = quantised(path, x, tmp_path)
    assert all(f"{kind} '" in made.stay[0] for kind in ("Concat", "Reshape", "Transpose", "Split"))
    run = interpreters.load("onnxruntime", made.content, "whole")
    real = interpreters.load("onnxruntime", path.read_bytes(), "real")
    same = [{*map(tuple, run([image[None]])[0])} & {*map(tuple, real([image[None]])[0])} for image in x]
    count = [len(real([image[None]])[0]) for image in x]
    assert sum(map(len, same)) > 0.8 * sum(count)


def test_a_join_of_a_tflite_file(tmp_path: Path) -> None:
    """LiteRT's quantiser gives what a CONCATENATION reads the scale of its result."""
    rng = np.random.default_rng(4)
    tensors: list[StoredTensor] = []

    def tensor(name: str, shape: tuple[int, ...], data: Any = None) -> int:
        tensors.append(StoredTensor(name, shape, "float32", data=data))
        return len(tensors) - 1

    x, boxes, logits, scores, y = (
        tensor(name, (1, 8, 8, n)) for name, n in (("x", 3), ("boxes", 4), ("logits", 5), ("scores", 5), ("y", 9))
    )
    steps = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    weights = [
        tensor("w", (4, 1, 1, 3), rng.normal(0, 100, (4, 1, 1, 3)).astype(F)),
        tensor("b", (4,), np.zeros(4, F)),
        tensor("v", (5, 1, 1, 3), rng.normal(0, 1, (5, 1, 1, 3)).astype(F)),
        tensor("c", (5,), np.full(5, -1, F)),
    ]
    operators = [
        StoredOperator("CONV_2D", [x, *weights[:2]], [boxes], "Conv2DOptions", steps),
        StoredOperator("CONV_2D", [x, *weights[2:]], [logits], "Conv2DOptions", steps),
        StoredOperator("LOGISTIC", [logits], [scores]),
        StoredOperator("CONCATENATION", [boxes, scores], [y], "ConcatenationOptions", {"axis": 3}),
    ]
    path = write_tflite(tmp_path / "float.tflite", tensors, operators, [x], [y])
    data = rng.normal(0, 1, (12, 8, 8, 3)).astype(F)
    made = quantised(path, data, tmp_path)
    assert "CONCATENATION 'op003'" in "; ".join(made.stay)
    made.save(tmp_path / "quantised.tflite")
    exe = tw.compile(tmp_path / "quantised.tflite", "tiny", cache=False)
    (taken,) = exe.inputs
    got = np.asarray(exe(stored(data, taken.scale, taken.zero_point, taken.dtype)))
    w, v = (np.asarray(tensors[weights[k]].data).reshape(-1, 3) for k in (0, 2))
    assert decibels(data @ w.T, got[..., :4]) > 25
    assert decibels(1 / (1 + np.exp(1 - data @ v.T)), got[..., 4:]) > 25
