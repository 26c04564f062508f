"""What is wrong with a model is said in one line that names the file and the way out; nothing else escapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.jit.onnx_models import QdqBuilder
from tests.jit.test_onnx_import import conv_relu
from tests.jit.test_tflite_import import conv_grouped
from tests.jit.tflite_models import TfliteBuilder
from tilewright.compiling import compile
from tilewright.errors import TilewrightError
from tilewright.jit.errors import ModelError
from tilewright.jit.importer import import_model
from tilewright.jit.source.onnx.validate import refuse_float


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        import_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    assert isinstance(caught.value, TilewrightError)
    return message


def small_tflite(path: Path) -> Path:
    builder = TfliteBuilder(seed=4)
    return builder.save(path, *conv_grouped(builder))


def small_onnx(path: Path) -> Path:
    builder = QdqBuilder(seed=4)
    return builder.save(path, *conv_relu(builder))


def test_missing_file_folder_and_kind(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.tflite")
    assert "folder" in refused(tmp_path)
    other = tmp_path / "model.pb"
    other.write_bytes(b"x")
    assert "give a .tflite, QDQ .onnx or .pt2" in refused(other)


@pytest.mark.parametrize("name", ["model.tflite", "model.onnx"])
@pytest.mark.parametrize("content", [b"", b"TFL3", b"\0" * 64, b"\xff" * 4096])
def test_no_model_at_all(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = refused(path)
    assert "the file is empty; download" in message if not content else ".;" not in message


@pytest.mark.parametrize("make,name", [(small_tflite, "model.tflite"), (small_onnx, "model.onnx")])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9, 0.99])
def test_truncated(make: Any, name: str, fraction: float, tmp_path: Path) -> None:
    data = make(tmp_path / name).read_bytes()
    path = tmp_path / f"cut_{name}"
    path.write_bytes(data[: int(len(data) * fraction)])
    message = refused(path)
    assert "truncated" in message or "corrupt" in message


@pytest.mark.parametrize("make,name", [(small_tflite, "model.tflite"), (small_onnx, "model.onnx")])
def test_corrupted_bytes_never_escape_as_anything_else(make: Any, name: str, tmp_path: Path) -> None:
    """Flipped bytes give ModelError or, where they hit a weight, a model."""
    good = bytearray(make(tmp_path / name).read_bytes())
    path = tmp_path / f"bad_{name}"
    rng = np.random.default_rng(0)
    outcomes = {"refused": 0, "imported": 0}
    for _ in range(60):
        data = good.copy()
        for position in rng.integers(0, len(data), 3):
            data[position] = int(rng.integers(0, 256))
        path.write_bytes(data)
        try:
            import_model(path)
            outcomes["imported"] += 1
        except ModelError:
            outcomes["refused"] += 1
    assert outcomes["refused"]


def test_float_tflite(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.tensor([1, 4, 4, 2], dtype="float32")
    y = builder.op("RELU", [x], builder.tensor([1, 4, 4, 2], dtype="float32"))
    message = refused(builder.save(tmp_path / "float.tflite", [x], [y]))
    assert "not quantised" in message
    assert "representative_dataset" in message


def test_dynamic_shape_tflite(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.tensor([1, 4, 4, 2], 0.1, 3, signature=[-1, -1, 4, 2])
    y = builder.op("RELU", [x], builder.tensor([1, 4, 4, 2], 0.1, -128))
    assert "dynamic shape" in refused(builder.save(tmp_path / "model.tflite", [x], [y]))


def test_what_looks_across_a_batch_runs_in_the_interpreter(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.tensor([2, 4, 4, 2], 0.1, 3)
    axis = builder.constant(np.array([0], np.int32))
    y = builder.op("MEAN", [x, axis], builder.tensor([4, 4, 2], 0.1, 3), "ReducerOptions", KeepDims=0)
    model = import_model(builder.save(tmp_path / "model.tflite", [x], [y]))
    assert model.host_ops == [("op000_MEAN", "a reduction across images")]


def test_an_operator_unknown_to_the_accelerator_is_left_to_the_interpreter(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.tensor([1, 4, 4, 2], 0.1, 3)
    y = builder.op("L2_NORMALIZATION", [x], builder.tensor([1, 4, 4, 2], 1 / 128, 0), "L2NormOptions")
    model = import_model(builder.save(tmp_path / "model.tflite", [x], [y]))
    assert model.host_ops == [
        ("op000_L2_NORMALIZATION", "L2_NORMALIZATION has no exact integer form on the accelerator")
    ]


def test_what_the_interpreter_cannot_run_is_refused_in_its_words(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.tensor([1, 4, 4, 2], 0.1, 3)
    y = builder.op("CONCAT_EMBEDDINGS", [x], builder.tensor([1, 4, 4, 2], 0.1, 3))
    path = builder.save(tmp_path / "model.tflite", [x], [y])
    with pytest.raises(ModelError, match=r"model.tflite: LiteRT cannot run it: Didn't find op .*CONCAT_EMBEDDINGS"):
        import_model(path)


def test_a_file_that_vela_compiled_is_to_be_given_as_it_was_before(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x, y = builder.tensor([1, 4, 4, 2], 0.1, 3), builder.tensor([1, 4, 4, 2], 0.1, 3)
    commands = builder.constant(np.zeros(64, np.uint8))
    path = builder.save(tmp_path / "model.tflite", [x], builder.custom("ethos-u", [commands, x], [y]))
    said = refused(path)
    assert "compiled for another accelerator: give the file that it was compiled from" in said
    assert "TFLITE_BUILTINS" not in said


def test_shapes_are_those_that_the_interpreter_finds(tmp_path: Path) -> None:
    """The file may be wrong about what its operators compute."""
    builder = TfliteBuilder()
    x = builder.tensor([1, 4, 4, 2], 0.1, 3)
    y = builder.op("TANH", [x], builder.tensor([1, 9, 4, 2], 1 / 128, 0))
    model = import_model(builder.save(tmp_path / "model.tflite", [x], [y]))
    assert model.outputs[0].shape == (1, 4, 4, 2)


def test_tensors_written_twice_are_refused(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x, y = builder.tensor([1, 4, 4, 2], 0.1, 3), builder.tensor([1, 4, 4, 2], 1 / 128, 0)
    builder.op("TANH", [x], y)
    builder.op("TANH", [x], y)
    with pytest.raises(ModelError, match=r"operator 1 \(TANH\) writes tensor 1 \(t1\), which is an input, a constant"):
        import_model(builder.save(tmp_path / "model.tflite", [x], [y]))


def onnx_model(path: Path, kind: str, shape: list[Any]) -> Path:
    node = helper.make_node(kind, ["x"], ["y"], name="the_node")
    quantise = [] if kind == "Relu" else [helper.make_node("QuantizeLinear", ["y", "s"], ["z"])]
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [0.1])
    made = shape[:1] if kind == "Det" else shape
    out = helper.make_tensor_value_info("z" if quantise else "y", TensorProto.UINT8 if quantise else 1, made)
    graph = helper.make_graph(
        [node, *quantise], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [out], [scale]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def test_float_onnx(tmp_path: Path) -> None:
    message = refused(onnx_model(tmp_path / "float.onnx", "Relu", [1, 4]))
    assert "not quantised" in message
    assert "quantize_static" in message


def test_float_pytorch_program(tmp_path: Path) -> None:
    """Its way out is one for ``.pt2`` files, of which no quantiser of ONNX Runtime knows."""
    model = onnx.load(onnx_model(tmp_path / "float.onnx", "Relu", [1, 4]))
    with pytest.raises(ModelError, match="^net.pt2: not quantised: .*; quantise it with `tilewright quantize`$"):
        refuse_float(Path("net.pt2"), model)


@pytest.mark.parametrize("shape", [[1, 4, "w"], ["N", "h", 3], [0, 4]])
def test_shapes_onnx(shape: list[Any], tmp_path: Path) -> None:
    assert "dynamic shape" in refused(onnx_model(tmp_path / "model.onnx", "Abs", shape))


@pytest.mark.parametrize("batch", ["N", None])
def test_an_open_batch_is_one(batch: str | None, tmp_path: Path) -> None:
    path = onnx_model(tmp_path / "model.onnx", "Abs", [batch, 4])
    x = np.linspace(-9, 9, 12, dtype=np.float32).reshape(3, 1, 4)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = np.stack([session.run(None, {"x": one})[0] for one in x])
    assert np.array_equal(compile(path, "tiny", cache=False)(x.reshape(3, 4)), expected.reshape(3, 4))


@pytest.mark.parametrize("kind,shape", [("Abs", [3, 4]), ("Det", [1, 4, 4])])
def test_an_operator_unknown_to_the_accelerator_is_left_to_onnx_runtime(
    kind: str, shape: list[Any], tmp_path: Path
) -> None:
    model = import_model(onnx_model(tmp_path / "model.onnx", kind, shape))
    assert model.host_ops == [("the_node", f"{kind} with a tensor of type float32")]


def test_what_onnx_runtime_cannot_run(tmp_path: Path) -> None:
    message = refused(onnx_model(tmp_path / "model.onnx", "Det", [1, 4, 5]))
    assert "onnxruntime cannot run it" in message
