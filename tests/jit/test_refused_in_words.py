"""Files that people have and that nothing can be done with: said in words of their own, with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.jit.test_model_errors import refused
from tests.quantize.test_quantize import LITERT
from tilewright.checking import reference_outputs
from tilewright.quantize import QuantizeError, quantize_file
from tilewright.runtime.interpreters import first_line
from tilewright.runtime.litert.foreign import way_out_of_foreign

F = TensorProto.FLOAT


def saved(
    path: Path, nodes: list[Any], constants: dict[str, Any], kind: int = F, shape: Any = (1, 8), ir_version: int = 8
) -> Path:
    """A model of input ``x`` and output ``y``."""
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    outputs = [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, held)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=ir_version), str(path))
    return path


SCALE = {"s": np.float32(0.1), "z": np.uint8(128)}


def between_scales(node: Any) -> list[Any]:
    """QDQ around a node that reads ``d`` and makes ``f``."""
    return [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node,
        helper.make_node("QuantizeLinear", ["f", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]


def test_random_numbers(tmp_path: Path) -> None:
    """No two runs are equal, so nothing that a check says of it would mean anything."""
    node = helper.make_node("RandomNormalLike", ["d"], ["f"])
    path = saved(tmp_path / "net.onnx", between_scales(node), SCALE)
    assert "RandomNormalLike (f) gives random numbers; make them an input" in refused(path)


@pytest.mark.parametrize("stored", ["initializer", "node"])
@pytest.mark.parametrize("training", [True, False])
def test_dropout_in_training_mode_alone(training: bool, stored: str, tmp_path: Path) -> None:
    nodes = between_scales(helper.make_node("Dropout", ["d", "half", "training"], ["f"]))
    constants: dict[str, Any] = SCALE | {"half": np.float32(0.5)}
    if stored == "node":
        nodes.insert(
            0, helper.make_node("Constant", [], ["training"], value=numpy_helper.from_array(np.asarray(training)))
        )
    else:
        constants["training"] = np.asarray(training)
    path = saved(tmp_path / "net.onnx", nodes, constants)
    if training:
        assert "Dropout in training mode (f) gives random numbers; export it for inference" in refused(path)
        return
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    y, _ = tw.compile(path, "tiny", cache=False).run(x)
    np.testing.assert_array_equal(y, reference_outputs(path, [x])[0])


def test_random_numbers_of_tflite(tmp_path: Path) -> None:
    numbers = (np.array([0.05], np.float32), np.array([-3], np.int64))
    tensors = [
        StoredTensor("x", (2,), "int32"),
        StoredTensor("r", (4, 4), "float32"),
        StoredTensor("y", (4, 4), "int8", *numbers),
    ]
    operators = [
        StoredOperator("RANDOM_UNIFORM", [0], [1], "RandomOptions"),
        StoredOperator("QUANTIZE", [1], [2]),
    ]
    path = write_tflite(tmp_path / "net.tflite", tensors, operators, [0], [2])
    assert "RANDOM_UNIFORM gives random numbers" in refused(path)


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general"])
def test_qonnx_whose_domain_the_file_does_not_import(domain: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [helper.make_node("BipolarQuant", ["x", "s"], ["y"], domain=domain)], SCALE)
    assert "quantised as QONNX (BipolarQuant)" in refused(path)


def test_integers_without_scales_are_not_told_to_be_quantised(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "net.onnx", [helper.make_node("Max", ["x", "z"], ["y"])], {"z": np.uint8(3)}, TensorProto.UINT8
    )
    message = refused(path)
    assert "nothing of float32 to quantise; run it in ONNX Runtime" in message
    assert "tilewright quantize" not in message
    tensors = [StoredTensor(name, (4,), "bool") for name in ("a", "b", "y")]
    path = write_tflite(tmp_path / "net.tflite", tensors, [StoredOperator("LOGICAL_OR", [0, 1], [2])], [0, 1], [2])
    message = refused(path)
    assert "none of float32 to quantise; run it in LiteRT" in message
    assert "tilewright quantize" not in message


def test_an_open_dimension_that_is_no_batch_is_named(tmp_path: Path) -> None:
    """Steps of a sound, say: with one of them the kernel of three does not fit."""
    constants = SCALE | {"w": np.ones((2, 1, 3), np.uint8), "axes": np.array([0, 1])}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Unsqueeze", ["q", "axes"], ["u"]),
        helper.make_node("QLinearConv", ["u", "s", "z", "w", "s", "z", "s", "z"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    message = refused(saved(tmp_path / "net.onnx", nodes, constants, shape=("steps",)))
    assert "The first dimension of x is open, and was taken for a batch of 1" in message


def test_a_file_of_tomorrows_version_runs(tmp_path: Path) -> None:
    """onnx writes version numbers that ONNX Runtime of the same year does not know."""
    path = saved(
        tmp_path / "net.onnx", between_scales(helper.make_node("Relu", ["d"], ["f"])), SCALE,
        ir_version=int(onnx.IR_VERSION) + 1,
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    y, _ = tw.compile(path, "tiny", cache=False).run(x)
    np.testing.assert_array_equal(y, reference_outputs(path, [x])[0])


def test_results_without_elements(tmp_path: Path) -> None:
    """A slice from beyond the end."""
    constants = SCALE | {"begin": np.array([100]), "end": np.array([200]), "axis": np.array([1])}
    nodes = between_scales(helper.make_node("Slice", ["d", "begin", "end", "axis"], ["f"]))
    exe = tw.compile(saved(tmp_path / "net.onnx", nodes, constants), "tiny", cache=False)
    y, _ = exe.run(np.zeros((3, 8), np.float32))
    assert y.shape == (3, 0)


def test_what_goes_behind_operators_that_litert_lacks() -> None:
    unresolved = "Encountered unresolved custom op: {}"
    assert "compiled for another accelerator" in way_out_of_foreign(unresolved.format("edgetpu-custom-op"))
    assert "TFLITE_BUILTINS" in way_out_of_foreign(unresolved.format("Whitespace"))
    assert way_out_of_foreign("squeeze.cc:70 was not true") == ""


def test_words_that_repeat_for_every_tensor_are_cut() -> None:
    assert len(first_line(ValueError("Tensor 3 has invalid parameters. " * 100))) < 520


def test_quantising_onnx_of_other_domains_alone(tmp_path: Path) -> None:
    node = helper.make_node(
        "LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 8, intercepts=[0.5]
    )
    path = saved(tmp_path / "net.onnx", [node], {})
    model = onnx.load(str(path))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    onnx.save(model, str(path))
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    with pytest.raises(QuantizeError, match="nothing in it that ONNX Runtime's quantiser takes .operators: LinearReg"):
        quantize_file(path, tmp_path / "x.npy")


@LITERT
def test_quantising_tflite_without_anything_to_quantise(tmp_path: Path) -> None:
    tensors = [StoredTensor(name, (4,), "bool") for name in ("a", "b", "y")]
    path = write_tflite(tmp_path / "net.tflite", tensors, [StoredOperator("LOGICAL_OR", [0, 1], [2])], [0, 1], [2])
    np.savez(tmp_path / "x.npz", a=np.ones((2, 4), bool), b=np.ones((2, 4), bool))
    with pytest.raises(QuantizeError, match="nothing in it that ai-edge-quantizer takes .operators: LOGICAL_OR"):
        quantize_file(path, tmp_path / "x.npz")
