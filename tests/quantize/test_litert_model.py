"""Float files that TensorFlow's converter made smaller, or in which results are that nothing reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.quantize.float_models import float_tflite
from tests.quantize.test_quantize import LITERT, exact_on_the_accelerator, images, refused
from tilewright.jit.errors import ModelError
from tilewright.jit.source.tflite.file import File
from tilewright.quantize import quantize_file
from tilewright.quantize.litert_model import float_form, signed, with_results
from tilewright.runtime.litert.schema import read_model, schema, written

pytestmark = LITERT


def halved(path: Path) -> Path:
    """Every constant of float32 as one of float16 with a DEQUANTIZE, as for ``supported_types=[tf.float16]``."""
    s, model = schema(), read_model(path.read_bytes())
    main, code = model.subgraphs[0], schema().OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.DEQUANTIZE
    code.version = 1
    model.operatorCodes.append(code)
    added = []
    for index, tensor in enumerate(list(main.tensors)):
        stored = model.buffers[tensor.buffer].data
        if tensor.type != s.TensorType.FLOAT32 or stored is None or not len(stored):
            continue
        small, op = s.TensorT(), s.OperatorT()
        small.name, small.shape, small.type = tensor.name + b"/half", tensor.shape, s.TensorType.FLOAT16
        buffer = s.BufferT()
        values = np.asarray(stored, np.uint8).view(np.float32).astype(np.float16)
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        small.buffer, tensor.buffer = len(model.buffers), 0
        model.buffers.append(buffer)
        main.tensors.append(small)
        op.opcodeIndex, op.inputs, op.outputs = len(model.operatorCodes) - 1, [len(main.tensors) - 1], [index]
        added.append(op)
    main.operators = added + list(main.operators)
    path.write_bytes(written(model))
    return path


def dynamic(path: Path, names: dict[bytes, int]) -> tuple[Path, dict[str, Any]]:
    """Weights of int8 with scales along the axes of ``names``, activations of float32; and the weights."""
    s, model = schema(), read_model(path.read_bytes())
    meant = {}
    for tensor in model.subgraphs[0].tensors:
        if tensor.name not in names:
            continue
        axis, shape = names[tensor.name], [int(d) for d in tensor.shape]
        real = np.asarray(model.buffers[tensor.buffer].data, np.uint8).view(np.float32).reshape(shape)
        others = tuple(k for k in range(len(shape)) if k != axis)
        scales = (np.abs(real).max(others, keepdims=True) / 127).astype(np.float32)
        whole = np.rint(real / scales).astype(np.int8)
        model.buffers[tensor.buffer].data = np.frombuffer(whole.tobytes(), np.uint8)
        tensor.type, tensor.quantization = s.TensorType.INT8, s.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = scales.reshape(-1), np.zeros(scales.size, np.int64)
        tensor.quantization.quantizedDimension = axis
        meant[tensor.name.decode()] = whole
    path.write_bytes(written(model))
    return path, meant


def test_weights_of_float16(tmp_path: Path) -> None:
    data = images(tmp_path / "x.npy", (8, 8, 3))
    wanted = quantize_file(float_tflite(tmp_path / "float.tflite"), data)
    result = quantize_file(halved(float_tflite(tmp_path / "half.tflite")), data)
    assert [layer.name[6:] for layer in result.layers] == [layer.name[6:] for layer in wanted.layers]
    result.save(tmp_path / "q.tflite")
    x = np.random.default_rng(1).integers(-128, 128, (3, 8, 8, 3)).astype(np.int8)
    exact_on_the_accelerator(tmp_path / "q.tflite", x, 3)


def test_weights_of_dynamic_range_quantisation_stay_what_they_are(tmp_path: Path) -> None:
    data = images(tmp_path / "x.npy", (8, 8, 3))
    path, meant = dynamic(float_tflite(tmp_path / "hybrid.tflite"), {b"w": 0, b"d": 3, b"v": 0})
    _, report = tw.compile(path, config="tiny", cache=False).run(np.load(data)[:1])
    assert any("0.0% of the model" in note and "`tilewright quantize` makes int8" in note for note in report.notes)
    result = quantize_file(path, data)
    result.save(tmp_path / "q.tflite")
    found = {t.name: t.data for t in File(tmp_path / "q.tflite").tensors if t.name in meant}
    for name, values in meant.items():
        np.testing.assert_array_equal(found[name], values)
    x = np.random.default_rng(1).integers(-128, 128, (3, 8, 8, 3)).astype(np.int8)
    exact_on_the_accelerator(tmp_path / "q.tflite", x, 3)
    with pytest.raises(ModelError, match="is quantised already"):
        File(tmp_path / "q.tflite", quantised=False)
    assert "is quantised already" in refused(tmp_path / "q.tflite", data)


def in_blocks(path: Path, size: int = 4) -> tuple[Path, Any]:
    """The classifier's weights as INT4 with a float16 scale for each ``size`` of a row, as blockwise recipes write
    them; and what they stand for."""
    s, model = schema(), read_model(path.read_bytes())
    main = model.subgraphs[0]
    (weight,) = (tensor for tensor in main.tensors if tensor.name == b"v")
    real = np.asarray(model.buffers[weight.buffer].data, np.uint8).view(np.float32).reshape(-1, size)
    scales = (np.abs(real).max(1, keepdims=True) / 7).astype(np.float16)
    whole = np.rint(real / scales).clip(-7, 7).astype(np.int8).reshape(-1)
    held, buffer = s.TensorT(), s.BufferT()
    held.name, held.shape, held.type, held.buffer = b"scales", [*scales.shape], s.TensorType.FLOAT16, len(model.buffers)
    buffer.data = np.frombuffer(scales.tobytes(), np.uint8)
    model.buffers.append(buffer)
    main.tensors.append(held)
    model.buffers[weight.buffer].data = ((whole[::2] & 15) | (whole[1::2] << 4)).astype(np.uint8)
    details = s.BlockwiseQuantizationT()
    details.scales, details.zeroPoints, details.blockSize = len(main.tensors) - 1, -1, size
    weight.type, weight.quantization = s.TensorType.INT4, s.QuantizationParametersT()
    weight.quantization.details, weight.quantization.detailsType = details, s.QuantizationDetails.BlockwiseQuantization
    path.write_bytes(written(model))
    return path, (whole.reshape(-1, size) * scales.astype(np.float32)).reshape(5, 8)


def test_weights_in_blocks(tmp_path: Path) -> None:
    """Refused where they would be computed with; to be quantised, they are the numbers that they stand for."""
    path, meant = in_blocks(float_tflite(tmp_path / "blocks.tflite"))
    with pytest.raises(ModelError, match="not quantised: .*`tilewright quantize`"):
        tw.compile(path, "tiny", cache=False)
    model = read_model(float_form(path.read_bytes()))
    (weight,) = (tensor for tensor in model.subgraphs[0].tensors if tensor.name == b"v")
    found = np.asarray(model.buffers[weight.buffer].data, np.uint8).view(np.float32).reshape(5, 8)
    np.testing.assert_array_equal(found, meant)
    quantize_file(path, images(tmp_path / "x.npy", (8, 8, 3))).save(tmp_path / "q.tflite")
    x = np.random.default_rng(1).integers(-128, 128, (3, 8, 8, 3)).astype(np.int8)
    exact_on_the_accelerator(tmp_path / "q.tflite", x, 3)
    for field, said in (
        ("zeroPoints", "'v' has blocks with zero points"),
        ("scales", "has blocks of 4 and scales that"),
    ):
        wrong = read_model(path.read_bytes())
        setattr(next(t for t in wrong.subgraphs[0].tensors if t.name == b"v").quantization.details, field, 0)
        (tmp_path / "wrong.tflite").write_bytes(written(wrong))
        assert said in refused(tmp_path / "wrong.tflite", tmp_path / "x.npy")


def split(path: Path, kind: str = "TANH") -> Path:
    """A SPLIT of which nothing reads the second result, as of an unrolled LSTM's first step."""
    tensors = [
        StoredTensor("x", (1, 12), "float32"),
        StoredTensor("axis", (), "int32", data=np.array(1, np.int32)),
        *(StoredTensor(name, (1, 4), "float32") for name in ("a", "b", "c", "y", "z")),
    ]
    operators = [
        StoredOperator("SPLIT", [1, 0], [2, 3, 4], "SplitOptions", {"numSplits": 3}),
        StoredOperator(kind, [2], [5]),
        StoredOperator("MUL", [5, 4], [6], "MulOptions"),
    ]
    return write_tflite(path, tensors, operators, [0], [6])


def test_results_that_nothing_reads(tmp_path: Path) -> None:
    result = quantize_file(split(tmp_path / "m.tflite"), images(tmp_path / "x.npy", (12,)))
    result.save(tmp_path / "q.tflite")
    file = File(tmp_path / "q.tflite")
    assert [file.tensors[i].dtype for op in file.operators if op.kind == "SPLIT" for i in op.outputs] == ["int8"] * 3
    assert [op.kind for op in file.operators] == ["SPLIT", "TANH", "MUL"]
    assert [file.tensors[i].name for i in file.outputs] == ["z"]
    x = np.random.default_rng(1).integers(-128, 128, (3, 12)).astype(np.int8)
    exact_on_the_accelerator(tmp_path / "q.tflite", x, 0)


def test_an_operator_without_a_reference_kernel(tmp_path: Path) -> None:
    result = quantize_file(split(tmp_path / "m.tflite", "ELU"), images(tmp_path / "x.npy", (12,)))
    assert {layer.name for layer in result.layers} == {"op000_SPLIT", "op001_ELU", "op002_MUL"}


def test_what_is_float_stays(tmp_path: Path) -> None:
    content = float_tflite(tmp_path / "m.tflite").read_bytes()
    before, after = (read_model(c).subgraphs[0] for c in (content, float_form(content)))
    assert [list(op.inputs) for op in before.operators] == [list(op.inputs) for op in after.operators]
    assert with_results(signed(content), 1) == signed(content)


def test_integers_of_sixteen_bits_are_quantised(tmp_path: Path) -> None:
    """A model without weights whose activations are of int16 runs as it is."""
    tensors = [
        StoredTensor(name, (1, 8), "int16", np.array([s]), np.array([0])) for name, s in (("x", 2**-12), ("y", 2**-15))
    ]
    path = write_tflite(tmp_path / "m.tflite", tensors, [StoredOperator("TANH", [0], [1])], [0], [1])
    x = np.random.default_rng(1).integers(-32768, 32768, (3, 8)).astype(np.int16)
    exact_on_the_accelerator(path, x, 0)
    assert "is quantised already" in refused(path, images(tmp_path / "x.npy", (8,)))


def test_sparse_weights_are_written_out(tmp_path: Path) -> None:
    """The quantiser takes what DENSIFY makes for an activation, which LiteRT has no kernel for."""
    dense = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32) * np.array([1, 0, 1, 0], np.float32)
    tensors = [
        StoredTensor("x", (1, 4), "float32"),
        StoredTensor("w", (4,), "float32", data=dense[:, ::2].reshape(-1)),
        StoredTensor("d", (2, 4), "float32"),
        StoredTensor("y", (1, 2), "float32"),
    ]
    operators = [
        StoredOperator("DENSIFY", [1], [2], "DensifyOptions"),
        StoredOperator("FULLY_CONNECTED", [0, 2, -1], [3], "FullyConnectedOptions"),
    ]
    path = write_tflite(tmp_path / "sparse.tflite", tensors, operators, [0], [3])
    s, model = schema(), read_model(path.read_bytes())
    sparsity, levels = s.SparsityParametersT(), [s.DimensionMetadataT() for _ in range(2)]
    sparsity.traversalOrder, sparsity.dimMetadata = [0, 1], levels
    levels[0].denseSize, levels[1].format = 2, 1
    for name, values in (("Segments", [0, 2, 4]), ("Indices", [0, 2, 0, 2])):
        numbers = s.Int32VectorT()
        numbers.values = values
        setattr(levels[1], f"array{name}Type", s.SparseIndexVector.Int32Vector)
        setattr(levels[1], f"array{name}", numbers)
    stored = model.subgraphs[0].tensors[1]
    stored.shape, stored.sparsity = [2, 4], sparsity
    path.write_bytes(written(model))
    x = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    result = quantize_file(path, tmp_path / "x.npy")
    assert [layer.kind for layer in result.layers] == ["FULLY_CONNECTED"]
    (tmp_path / "int8.tflite").write_bytes(result.content)
    constant = [t for t in File(tmp_path / "int8.tflite").tensors if t.data is not None and t.shape == (2, 4)]
    assert [t.dtype for t in constant] == ["int8"]
    assert [t.data[:, 1::2].any() for t in constant if t.data is not None] == [False]
    given = np.random.default_rng(2).integers(-128, 128, (8, 4)).astype(np.int8)
    exact_on_the_accelerator(tmp_path / "int8.tflite", given, 1)
