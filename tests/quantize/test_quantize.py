"""Float models in, 8-bit models out that the accelerator runs, and what each layer lost."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tests.jit.onnx_models import QdqBuilder
from tests.jit.test_onnx_import import conv_relu
from tests.quantize.float_models import float_onnx, float_tflite, two_inputs
from tilewright.checking import reference_outputs
from tilewright.cli.app import main
from tilewright.errors import TilewrightError
from tilewright.jit.source.tflite.file import File
from tilewright.quantize import litert, quantize_file
from tilewright.quantize.base import Layer
from tilewright.quantize.loss import Powers, layer_losses
from tilewright.runtime.litert.schema import read_model, written

LITERT = pytest.mark.skipif(
    find_spec("ai_edge_quantizer") is None, reason="needs ai-edge-quantizer: pip install 'tilewright[quantize]'"
)


def images(path: Path, shape: tuple[int, ...], count: int = 12) -> Path:
    np.save(path, np.random.default_rng(0).normal(0, 1, (count, *shape)).astype(np.float32))
    return path


def exact_on_the_accelerator(model: Path, x: np.ndarray[Any, Any], kinds: int, bits: int = 8) -> None:
    """Compiles and compares with the interpreter; all ``kinds`` layers with products run on the accelerator, which has
    weights of ``bits``."""
    exe = tw.compile(model, config=tw.PRESETS["tiny"].replace(weight_bits=bits), cache=False)
    np.testing.assert_array_equal(exe(x), reference_outputs(model, [x])[0])
    weighted = [o for o in exe.artifact.options["operators"] if o["macs"]]
    assert [o["place"] for o in weighted] == ["accelerator"] * kinds
    assert all(o["exact"] == "proven" for o in weighted)


@pytest.mark.parametrize("opset", [11, 17])
def test_float_onnx(opset: int, tmp_path: Path) -> None:
    """A batch that is left open becomes 1; an opset without scales per channel is converted."""
    model = float_onnx(tmp_path / "float.onnx", opset)
    data = images(tmp_path / "x.npy", (3, 8, 8))
    x = np.load(data)
    session = onnxruntime.InferenceSession(str(model))
    np.save(tmp_path / "labels.npy", session.run(None, {"x": x})[0].argmax(1))
    seen: list[str] = []
    result = quantize_file(
        model, data, labels=tmp_path / "labels.npy", progress=lambda what, done, total: seen.append(what)
    )
    assert result.inputs == 12
    assert result.accuracy is not None
    assert result.accuracy[0] == 1.0
    assert result.accuracy[1] > 0.8
    assert list(dict.fromkeys(seen)) == [
        "calibrating", "comparing layers", "float accuracy", "quantised accuracy",
    ]  # fmt: skip
    lost = [layer.lost for layer in result.layers]
    assert lost == sorted(lost, reverse=True)
    assert {layer.kind for layer in result.layers} >= {"Conv", "Add", "GlobalAveragePool", "Gemm"}
    assert all(20 < layer.after < 70 for layer in result.layers)
    result.save(tmp_path / "quantised.onnx")
    exact_on_the_accelerator(tmp_path / "quantised.onnx", x[:3], 3)


def test_what_is_measured_may_be_other_inputs_than_those_of_the_ranges(tmp_path: Path) -> None:
    model, data = float_onnx(tmp_path / "float.onnx", 17), images(tmp_path / "x.npy", (3, 8, 8))
    x = np.load(data)
    np.save(tmp_path / "test.npy", 4 * x[:5])  # beyond the ranges
    wanted = onnxruntime.InferenceSession(str(model)).run(None, {"x": 4 * x[:5]})[0].argmax(1)
    np.save(tmp_path / "labels.npy", wanted)
    seen = quantize_file(model, data)
    result = quantize_file(model, data, test=tmp_path / "test.npy", labels=tmp_path / "labels.npy")
    assert result.content == seen.content
    assert result.inputs == 12
    assert result.accuracy is not None
    assert result.accuracy[0] == 1.0
    assert result.layers[0].after < seen.layers[0].after - 3
    with pytest.raises(TilewrightError, match=r"labels.npy: int64\(5,\); 12 whole numbers are needed"):
        quantize_file(model, data, labels=tmp_path / "labels.npy")


@pytest.mark.parametrize("opset", [11, 17, 21])
def test_float_onnx_to_four_bits(opset: int, tmp_path: Path) -> None:
    """Packed in the file, in the memories, and proven; numbers that are no weights keep 8 bits."""
    data = images(tmp_path / "x.npy", (3, 8, 8))
    result = quantize_file(float_onnx(tmp_path / "float.onnx", opset), data, bits=4)
    assert all(15 < layer.after < 50 for layer in result.layers)
    result.save(tmp_path / "quantised.onnx")
    types = {t.name: t.data_type for t in onnx.load(str(tmp_path / "quantised.onnx")).graph.initializer}
    assert list(types.values()).count(onnx.TensorProto.INT4) == 3
    for bits in (4, 8):
        exact_on_the_accelerator(tmp_path / "quantised.onnx", np.load(data)[:3], 3, bits)


def test_constants_of_other_operators_keep_eight_bits(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info("x", 1, [1, 2, 4, 4])]
    constant = numpy_helper.from_array(np.random.default_rng(2).normal(0, 1, (1, 2, 4, 4)).astype(np.float32), "c")
    weight = numpy_helper.from_array(np.random.default_rng(3).normal(0, 1, (3, 2, 1, 1)).astype(np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "c"], ["a"], "sum"), helper.make_node("Conv", ["a", "w"], ["y"], "conv")]
    outputs = [helper.make_tensor_value_info("y", 1, [1, 3, 4, 4])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [constant, weight])
    path = tmp_path / "float.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), str(path))
    content = quantize_file(path, images(tmp_path / "x.npy", (2, 4, 4)), bits=4).content
    types = {t.name: t.data_type for t in onnx.load_from_string(content).graph.initializer}
    assert types["c_quantized"] == onnx.TensorProto.INT8
    assert types["w_quantized"] == onnx.TensorProto.INT4


def test_onnx_of_a_newer_file_version_than_onnxruntime_reads(tmp_path: Path) -> None:
    path = float_onnx(tmp_path / "float.onnx", 17)
    model = onnx.load(path)
    model.ir_version = onnx.IR_VERSION
    onnx.save(model, str(path))
    made = quantize_file(path, images(tmp_path / "x.npy", (3, 8, 8), 4))
    assert onnx.load_from_string(made.content).ir_version < onnx.IR_VERSION


@LITERT
@pytest.mark.parametrize("bits,least", [(8, 15), (4, 12)])
def test_float_tflite(bits: int, least: int, tmp_path: Path) -> None:
    data = images(tmp_path / "x.npy", (8, 8, 3), 20)
    result = quantize_file(float_tflite(tmp_path / "float.tflite"), data, bits=bits)
    names = ["op000_CONV_2D", "op001_DEPTHWISE_CONV_2D", "op002_MEAN", "op003_FULLY_CONNECTED"]
    assert sorted(layer.name for layer in result.layers) == names
    assert all(least < layer.after < 60 for layer in result.layers)
    result.save(tmp_path / "quantised.tflite")
    types = [t.dtype for t in File(tmp_path / "quantised.tflite").tensors if t.name in ("w", "d", "v")]
    assert types == [f"int{bits}"] * 3
    x = np.random.default_rng(1).integers(-128, 128, (3, 8, 8, 3)).astype(np.int8)
    exact_on_the_accelerator(tmp_path / "quantised.tflite", x, 3, bits)


@LITERT
def test_a_float_file_of_an_old_converter(tmp_path: Path) -> None:
    """Its operators' codes are in the old field alone."""
    path, data = float_tflite(tmp_path / "float.tflite"), images(tmp_path / "x.npy", (8, 8, 3))
    wanted = quantize_file(path, data)
    model = read_model(path.read_bytes())
    for code in model.operatorCodes:
        code.builtinCode = 0
    path.write_bytes(written(model))
    assert quantize_file(path, data).layers == wanted.layers


@pytest.mark.parametrize("bits,least", [(8, 20), (4, 10)])
def test_float_pt2(bits: int, least: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'tilewright[torch]'")
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)
    )
    program = torch.export.export(module.eval(), (torch.zeros(1, 3, 8, 8),))
    torch.export.save(program, str(tmp_path / "float.pt2"))
    data = images(tmp_path / "x.npy", (3, 8, 8))
    result = quantize_file(tmp_path / "float.pt2", data, bits=bits)
    assert [layer.after > least for layer in result.layers] == [True] * len(result.layers)
    result.save(tmp_path / "quantised.onnx")
    exact_on_the_accelerator(tmp_path / "quantised.onnx", np.load(data)[:3], 2, bits)


def test_losses_of_layers_by_hand() -> None:
    """A layer whose result the quantised model lacks is one with its reader."""
    layers = [Layer("one", "Conv", ("x",), "a"), Layer("two", "Relu", ("a",), "b"), Layer("three", "Add", ("b",), "c")]
    real = {"x": [3.0, 4.0], "a": [1.0, 1.0], "b": [6.0, 8.0], "c": [0.0, 10.0]}
    got = {"x": [3.0, 4.0], "b": [6.0, 9.0], "c": [1.0, 10.0]}

    def tensors(values: dict[str, list[float]]) -> Any:
        return lambda x: {name: np.array(value) for name, value in values.items()}

    found = layer_losses(layers, tensors(real), tensors(got), [[]], lambda *_: None)
    assert [(layer.name, layer.kind) for layer in found] == [("one", "Conv+Relu"), ("three", "Add")]
    assert [layer.before for layer in found] == [math.inf, pytest.approx(20)]
    assert [layer.after for layer in found] == [pytest.approx(20), pytest.approx(20)]


@pytest.mark.parametrize("size", [1.0, 1e-25, 1e25])
def test_ratios_of_float32_tensors_of_any_size(size: float) -> None:
    """Squares of the least and the greatest numbers of float32 are none of float32."""
    powers = Powers()
    exact = np.full(1000, 10 * size, np.float32)
    powers.add("y", exact, exact + np.float32(size))
    assert powers.decibels("y") == pytest.approx(20, abs=1e-3)
    powers.add("y", np.array([np.inf], np.float32), np.array([1], np.float32))
    assert powers.decibels("y") == pytest.approx(20, abs=1e-3)
    powers.add("y", np.array([1], np.float32), np.array([np.nan], np.float32))
    assert powers.decibels("y") == -math.inf


def test_data_from_a_folder_and_by_name(tmp_path: Path) -> None:
    """One input a file, or several stacked; .npz for models of several inputs."""
    x = np.load(images(tmp_path / "x.npy", (3, 8, 8)))
    folder = tmp_path / "inputs"
    folder.mkdir()
    np.save(folder / "a.npy", x[0])
    np.save(folder / "b.npy", x[1:])
    model = float_onnx(tmp_path / "float.onnx")
    assert quantize_file(model, folder).content == quantize_file(model, tmp_path / "x.npy").content
    half = x.astype(np.float16)
    for name, values in (("half", half), ("same", half.astype(np.float32))):
        np.save(tmp_path / f"{name}.npy", values)
    contents = [quantize_file(model, tmp_path / f"{name}.npy").content for name in ("half", "same")]
    assert contents[0] == contents[1]
    left = np.random.default_rng(0).normal(0, 1, (4, 2, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "two.npz", left=left, right=left[::-1])
    result = quantize_file(two_inputs(tmp_path / "two.onnx"), tmp_path / "two.npz")
    assert [layer.name for layer in result.layers] == ["sum"]


def refused(model: Path, data: Path, **options: Any) -> str:
    with pytest.raises(TilewrightError) as caught:
        quantize_file(model, data, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_wrong_data(tmp_path: Path) -> None:
    model, data = float_onnx(tmp_path / "float.onnx"), images(tmp_path / "x.npy", (3, 8, 8))
    (tmp_path / "empty").mkdir()
    assert "holds no .npy files" in refused(model, tmp_path / "empty")
    assert "x.npy: input x: shape (12, 3, 8, 9), the model takes (N, 3, 8, 8)" in refused(
        model, images(tmp_path / "x.npy", (3, 8, 9))
    )
    np.save(data, np.zeros((2, 3, 8, 8)))
    assert "dtype float64, the model takes float32" in refused(model, data)
    np.save(data, np.full((2, 3, 8, 8), np.nan, np.float32))
    assert "NaN" in refused(model, data)
    images(data, (3, 8, 8))
    np.save(tmp_path / "labels.npy", np.zeros(5, np.int64))
    assert "labels.npy: int64(5,); 12 whole numbers are needed" in refused(model, data, labels=tmp_path / "labels.npy")
    assert "cannot be read" in refused(model, tmp_path / "none.npy")
    assert "takes 2 inputs; give a .npz with left, right" in refused(two_inputs(tmp_path / "two.onnx"), data)
    np.savez(tmp_path / "two.npz", left=np.zeros((1, 2, 4, 4), np.float32))
    assert "holds left, but no input right" in refused(tmp_path / "two.onnx", tmp_path / "two.npz")


def test_wrong_models(tmp_path: Path) -> None:
    data = images(tmp_path / "x.npy", (3, 8, 8))
    assert "no such file" in refused(tmp_path / "none.onnx", data)
    assert "is a folder" in refused(tmp_path, data)
    (tmp_path / "model.h5").write_bytes(b"x")
    assert "unknown kind of model '.h5'" in refused(tmp_path / "model.h5", data)
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 100)
    assert "corrupt or truncated" in refused(tmp_path / "bad.onnx", data)
    builder = QdqBuilder(seed=4)
    assert "is quantised already" in refused(builder.save(tmp_path / "q.onnx", *conv_relu(builder)), data)
    assert "dynamic shape" in refused(float_onnx(tmp_path / "open.onnx", batch=0), data)
    assert "--bits 3: weights are quantised to 8 or 4" in refused(float_onnx(tmp_path / "f.onnx"), data, bits=3)


def test_without_litert_quantiser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert, "find_spec", lambda name: None)
    message = refused(float_tflite(tmp_path / "float.tflite"), images(tmp_path / "x.npy", (8, 8, 3)))
    assert "pip install 'tilewright[quantize]'" in message


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = float_onnx(tmp_path / "float.onnx"), images(tmp_path / "x.npy", (3, 8, 8))
    np.save(tmp_path / "labels.npy", np.zeros(12, np.int64))
    out = tmp_path / "quantised.onnx"
    arguments = ["quantize", str(model), "--data", str(data), "--labels", str(tmp_path / "labels.npy"), "-o"]
    assert main([*arguments, str(out)]) == 0
    shown = capsys.readouterr().out
    assert "SNR before, dB" in shown
    assert "accuracy" in shown
    assert f"{out.stat().st_size:,} bytes, ranges from 12 inputs" in shown
    assert main([*arguments, str(tmp_path / "quantised.tflite")]) == 2
    assert ".onnx models become .onnx files" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "gone" / "quantised.onnx")]) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "two.onnx"), "--bits", "2"]) == 2
    assert "8 or 4 bits" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["float.onnx", "labels.npy", "quantised.onnx", "x.npy"]
    assert main(["quantize", "--help"]) == 0
    assert "Example: tilewright quantize" in capsys.readouterr().out
