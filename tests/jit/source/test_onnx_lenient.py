"""Files that ONNX Runtime runs although onnx' own checker refuses them, and what is said of those that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, kinds
from tilewright.checking import reference_outputs
from tilewright.jit.errors import ModelError
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime.random_inputs import random_inputs


def convolution(path: Path, batch: int = 1) -> Path:
    b = NetBuilder(1)
    x = b.real_input((batch, 4, 6, 6))
    weight, _ = b.weight((5, 4, 3, 3))
    b.output(b.pair(b.op("Conv", [x.name, weight]), (batch, 5, 4, 4), 0.05, 3).name, (batch, 5, 4, 4))
    return b.save(path)


def unsorted(model: Any) -> None:
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def negative_batch(model: Any) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1


CHANGES: list[Callable[[Any], None]] = [
    lambda model: model.graph.output[0].type.tensor_type.ClearField("shape"),
    lambda model: model.graph.ClearField("name"),
    lambda model: setattr(model, "ir_version", 3),  # initializers were inputs then
    unsorted,
    negative_batch,
]


@pytest.mark.parametrize("change", CHANGES, ids=["shape", "name", "ir", "unsorted", "negative"])
@pytest.mark.parametrize("batch", [1, 3])
def test_what_onnx_runtime_runs(change: Callable[[Any], None], batch: int, tmp_path: Path) -> None:
    path = convolution(tmp_path / "m.onnx", batch)
    model = onnx.load(str(path))
    change(model)
    onnx.save(model, str(path))
    executable = tw.compile(path, "tiny", cache=False)
    x = random_inputs(executable.inputs, 0, 3)
    y, report = executable.run(x)
    assert report.cycles > 0
    assert np.array_equal(y, reference_outputs(path, x)[0])
    assert executable.artifact.batch == (1 if change is negative_batch else batch)


def test_layer_normalization_of_onnx_runtime_s_optimiser(tmp_path: Path) -> None:
    """Its optimiser of transformers writes the operator into files whose opset has none of that name."""
    b = NetBuilder(2, opset=13)
    x = b.real_input((1, 6, 16))
    ones, zeros = b.constant(np.ones(16, F)), b.constant(np.zeros(16, F))
    y = b.op("LayerNormalization", [x.name, ones, zeros], axis=-1, epsilon=1e-5)
    weight, _ = b.weight((16, 8), per_channel=False)
    z = b.op("MatMul", [b.pair(y, (1, 6, 16), 0.02, 3).name, weight])
    b.output(b.pair(z, (1, 6, 8), 0.05, 3).name, (1, 6, 8))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert kinds(built) == ["Conv2D"]


def test_an_output_without_a_type_that_the_interpreter_reads_on(tmp_path: Path) -> None:
    """A network's output needs none, but the part that reads it does."""
    b = NetBuilder(4)
    between = b.op("MaxPool", [b.input((1, 4, 6, 6), "uint8")], kernel_shape=[2, 2])
    b.output(between, (1, 4, 5, 5), "uint8")
    b.output(b.dequantise(between, -0.05, np.uint8(7)), (1, 4, 5, 5))  # a scale that stays with it
    path = b.save(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    for value in model.graph.output:
        value.ClearField("type")
    onnx.save(model, str(path))
    compared(path)


def test_an_output_that_is_constant_in_the_interpreter_alone(tmp_path: Path) -> None:
    """ONNX Runtime folds no DequantizeLinear, and makes the one behind a Transpose anew, without its name."""
    path = convolution(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    b = NetBuilder(3)
    c = b.dequantise(b.constant(np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)), 0.1, np.int8(0))
    b.output(b.op("Transpose", [c], perm=[0, 2, 3, 1]), (1, 3, 4, 2))
    with pytest.raises(ModelError, match="takes no input: its outputs are constants"):
        tw.compile(b.save(tmp_path / "c.onnx"), "tiny", cache=False)
    constant = onnx.compose.add_prefix(onnx.load(str(tmp_path / "c.onnx")), "constant_")
    onnx.save(onnx.compose.merge_models(model, constant, io_map=[]), str(path))
    _, built = compared(path)
    assert len(built.graph.outputs) == 2


def refusal(model: Any, path: Path) -> str:
    onnx.save(model, str(path))
    with pytest.raises(ModelError) as caught:
        OnnxSource(path)
    return str(caught.value)


def test_what_is_said_of_others(tmp_path: Path) -> None:
    path = convolution(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    model.graph.node.append(helper.make_node("Requantised", [model.graph.output[0].name], ["z"]))
    last = len(model.graph.node) - 1
    assert f"onnxruntime cannot run it: op{last:03d} (Requantised): No Op registered" in refusal(model, path)

    model = onnx.load(str(convolution(path)))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert "is a tensor without a shape; export the model with tensors of fixed shapes" in refusal(model, path)

    model = onnx.load(str(convolution(path)))
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"weights.bin.*; it belongs beside the model"):
        OnnxSource(path)
