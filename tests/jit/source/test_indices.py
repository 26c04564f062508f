"""Inputs that index a table are found, and drawn below its number of entries where nobody gives any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.shell import Shell
from tests.jit.tflite_models import TfliteBuilder
from tilewright.jit.source import open_source
from tilewright.jit.source.index_limits import Indexing, index_limits


def test_an_input_is_followed_to_the_smallest_table() -> None:
    operators = [
        Indexing(["tokens"], ["same"]),
        Indexing([], ["words"], [("same", 50)]),
        Indexing(["same", "mask"], ["joined"]),
        Indexing([], ["places"], [("joined", 20), ("words", 3)]),
    ]
    assert index_limits(["tokens", "mask", "image"], operators) == {"tokens": 20, "mask": 20}


def onnx_tokens(path: Path, table: int = 50) -> Path:
    """Tokens as int64, through a form of their own, to rows of a quantised table, and a product with them."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.02), "z": np.int8(0), "table": rng.integers(-99, 99, (table, 8)).astype(np.int8),
        "w": rng.integers(-99, 99, (8, 8)).astype(np.int8), "first": np.array([0]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Cast", ["tokens"], ["short"], to=TensorProto.INT32),
        helper.make_node("Unsqueeze", ["short", "first"], ["rows"]),
        helper.make_node("DequantizeLinear", ["table", "s", "z"], ["entries"]),
        helper.make_node("Gather", ["entries", "rows"], ["g"]),
        helper.make_node("QuantizeLinear", ["g", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("MatMul", ["d", "wd"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 6, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return path


def tflite_tokens(path: Path, table: int = 50) -> Path:
    b = TfliteBuilder()
    tokens = b.tensor([1, 6], dtype="int32")
    values = b.rng.integers(-99, 99, (table, 8)).astype(np.int8)
    entries = b.tensor([table, 8], 0.02, 0, data=values)
    rows = b.op("GATHER", [entries, tokens], b.tensor([1, 6, 8], 0.02, 0), "GatherOptions", Axis=0)
    y = b.op("TANH", [rows], b.tensor([1, 6, 8], 1 / 128, 0))
    return b.save(path, [tokens], [y])


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_a_model_of_tokens_runs_without_inputs_given(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = {"onnx": onnx_tokens, "tflite": tflite_tokens}[kind](tmp_path / f"m.{kind}")
    assert [*open_source(path).index_limits.values()] == [50]
    shell = Shell(tmp_path, capsys)
    assert shell("run", path, "--no-cache", "--check", "--inputs", 4) == 0, shell.err
    assert "elements of 4 outputs equal the reference" in shell.out
