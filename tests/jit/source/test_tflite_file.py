"""Numbers of a ``.tflite`` file that no exporter writes: each is refused by its tensor's name, or left to LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.flatbuffer import packed
from tests.jit.tflite_models import TfliteBuilder
from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.source.tflite.file import File, Tensor, unpacked
from tilewright.runtime.litert.schema import read_model, schema, written


def dense(path: Path) -> bytes:
    b = TfliteBuilder(5)
    x, (w, _) = b.tensor([1, 8], 0.5), b.weights([8, 8], None)
    y = b.op("FULLY_CONNECTED", [x, w], b.tensor([1, 8], 0.25), "FullyConnectedOptions")
    return b.save(path, [x], [y]).read_bytes()


def changed(path: Path, tensor: int, **fields: Any) -> Path:
    """The layer with fields of a tensor, or of its quantisation, changed."""
    model = read_model(dense(path))
    found = model.subgraphs[0].tensors[tensor]
    for name, value in fields.items():
        setattr(found.quantization if hasattr(found.quantization, name) else found, name, value)
    path.write_bytes(written(model))
    return path


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -0.5])
@pytest.mark.parametrize("tensor", [0, 1, 2])
def test_a_scale_that_is_no_number_is_refused(tensor: int, scale: float, tmp_path: Path) -> None:
    path = changed(tmp_path / "m.tflite", tensor, scale=np.array([scale], np.float32))
    with pytest.raises(ModelError, match=rf"tensor {tensor} 't{tensor}' has a scale that is no number"):
        File(path)


def test_a_scale_of_nothing_is_for_litert_to_judge(tmp_path: Path) -> None:
    File(changed(tmp_path / "m.tflite", 1, scale=np.array([0.0], np.float32)))


@pytest.mark.parametrize(("dtype", "low", "high"), [("int8", -128, 127), ("uint8", 0, 255)])
def test_zero_points_are_values_of_their_type(dtype: str, low: int, high: int) -> None:
    for zero_point in (low - 1, low, high, high + 1):
        tensor = Tensor(3, "t", (1, 4), dtype, np.array([0.5], np.float32), np.array([zero_point]), 0, None, False)
        if low <= zero_point <= high:
            found = tensor.quantisation()
            assert (found.scale, found.zero_point) == (0.5, zero_point - (128 if dtype == "uint8" else 0))
        else:
            with pytest.raises(Unsupported, match=f"the zero point {zero_point} of a {dtype} tensor"):
                tensor.quantisation()


@pytest.mark.parametrize(
    ("scales", "zero_points", "said"),
    [([], [], "without one scale"), ([0.5, 0.5], [0, 0], "scales per channel"), ([0.5], [0, 0], "scales per channel"),
     ([0.0], [0], "the scale 0.0 of an activation"), ([np.inf], [0], "the scale inf of an activation"),
     ([-1.0], [0], "the scale -1.0 of an activation")],
)  # fmt: skip
def test_activations_have_one_scale_above_nothing(scales: list[float], zero_points: list[int], said: str) -> None:
    tensor = Tensor(
        3, "t", (1, 4), "int8", np.array(scales, np.float32), np.array(zero_points, np.int64), 0, None, False
    )
    with pytest.raises(Unsupported, match=said):
        tensor.quantisation()


def test_activations_of_other_types_are_named() -> None:
    for dtype in ("", "int16", "float32"):
        tensor = Tensor(3, "t", (1, 4), dtype, np.array([0.5], np.float32), np.array([0]), 0, None, False)
        with pytest.raises(Unsupported, match=f"a tensor of type {dtype or 'unknown'} where 8 bits are needed"):
            tensor.quantisation()


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8])
def test_integers_that_share_bytes_come_out_as_they_went_in(count: int, bits: int) -> None:
    half = 1 << bits - 1
    values = (np.arange(count) * 3 % (2 * half) - half).astype(np.int8)
    assert unpacked(packed(values, bits), bits, (count,)).tolist() == values.tolist()
    assert unpacked(packed(values, bits), bits, (1, count, 1)).shape == (1, count, 1)
    with pytest.raises(ValueError, match="reshape"):
        unpacked(packed(values, bits), bits, (8 * count + 8,))


def test_a_state_is_no_constant_whatever_its_buffer_holds(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    model = read_model(dense(path))
    state = schema().TensorT()
    state.name, state.shape, state.type, state.isVariable = "state", [4], schema().TensorType.INT8, True
    state.buffer = len(model.buffers)
    model.buffers.append(schema().BufferT())
    model.buffers[-1].data = np.arange(4, dtype=np.uint8)
    model.subgraphs[0].tensors.append(state)
    path.write_bytes(written(model))
    tensors = File(path).tensors
    assert (tensors[3].name, tensors[3].variable, tensors[3].data) == ("state", True, None)
    assert tensors[1].data is not None
    assert tensors[1].data.shape == (8, 8)
