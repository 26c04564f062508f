"""What damaged models have found: tensors that nobody gives, products beyond int32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.cases import EXACT, check_case
from tests.jit.tflite_models import TfliteBuilder
from tilewright.compiling import compile
from tilewright.errors import TilewrightError


@pytest.mark.parametrize("kind", ["ADD", "MAXIMUM"])
def test_a_tensor_that_nobody_gives_is_named(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, nothing, y = (b.tensor([1, 4, 4, 4], 0.5) for _ in range(3))
    b.op(kind, [x, nothing], y, *(["AddOptions"] if kind == "ADD" else []))
    path = b.save(tmp_path / "m.tflite", [x], [y])
    with pytest.raises(TilewrightError, match="t1: nothing gives it before it is read, and it holds no data"):
        compile(path, "tiny", cache=False)


@pytest.mark.parametrize("bias", [1000, 40_000, 2_139_095_040, -2_139_095_040])
def test_a_product_beyond_int32_is_left_to_litert(bias: int, tmp_path: Path) -> None:
    """LiteRT's conversion to int32 wraps there; a clamp would be another number."""
    b = TfliteBuilder(5)
    x = b.tensor([1, 4], 1 / 256, dtype="uint8")
    w = b.tensor([4, 4], 131072.0, 128, "uint8", np.full((4, 4), 128, np.uint8))
    k = b.tensor([4], 512.0, dtype="int32", data=np.array([bias, 0, 5, -bias], np.int32))
    y = b.tensor([1, 4], 1 / 256, 128, "uint8")
    b.op("FULLY_CONNECTED", [x, w, k], y, "FullyConnectedOptions")
    path = b.save(tmp_path / "m.tflite", [x], [y])
    values = np.random.default_rng(0).integers(0, 256, (3, 4), dtype=np.uint8)
    assert check_case(path, "tiny", [values]).kind == EXACT


@pytest.mark.parametrize("scale", [1e-9, 1e-7, 1e-4])
def test_a_mean_whose_shift_leaves_int32_is_left_to_litert(scale: float, tmp_path: Path) -> None:
    """LiteRT shifts the sum to the left before it multiplies, and wraps."""
    b = TfliteBuilder(5)
    x, y = b.tensor([1, 9, 2, 8], 0.0625, -1), b.tensor([1, 1, 2, 8], scale, -4)
    axes = b.tensor([1], dtype="int32", data=np.array([1], np.int32))
    b.op("MEAN", [x, axes], y, "ReducerOptions", KeepDims=1)
    path = b.save(tmp_path / "m.tflite", [x], [y])
    values = np.random.default_rng(0).integers(-128, 128, (20, 9, 2, 8), dtype=np.int8)
    assert check_case(path, "tiny", [values]).kind == EXACT


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("numbers", [(0.25, 3), (0.125, 7), (None, 0), (np.full(8, 0.25, np.float32), 0)])
@pytest.mark.parametrize("kind", ["RESHAPE", "RESHAPE ones", "TRANSPOSE", "TRANSPOSE axes"])
def test_what_moves_elements_may_give_them_another_scale(kind: str, numbers: Any, dtype: str, tmp_path: Path) -> None:
    """LiteRT does not compare the scales; what reads the elements then, in LiteRT or outside, reads the last."""
    offset = 128 if dtype == "uint8" else 0
    b = TfliteBuilder(5)
    x = b.tensor([1, 9, 2, 8], 0.125, 3 + offset, dtype)
    scale, zero = numbers
    shape = {"RESHAPE ones": [1, 1, 18, 8], "TRANSPOSE axes": [1, 2, 9, 8]}.get(kind, [1, 9, 2, 8])
    moved = b.tensor(shape, scale, zero if scale is None else zero + offset, dtype, axis=3)
    if kind.startswith("RESHAPE"):
        b.op("RESHAPE", [x, b.constant(np.array(shape, np.int32))], moved, "ReshapeOptions")
    else:
        order = [0, 2, 1, 3] if kind == "TRANSPOSE axes" else [0, 1, 2, 3]
        b.op("TRANSPOSE", [x, b.constant(np.array(order, np.int32))], moved, "TransposeOptions")
    y, z = b.tensor([1, 1, *shape[2:]], 1e-9, -4 + offset, dtype), b.tensor([1, *shape[1:]], 0.5, offset, dtype)
    axes = b.constant(np.array([1], np.int32))
    outputs = [moved]
    if scale is not None and np.size(scale) == 1:
        b.op("MEAN", [moved, axes], y, "ReducerOptions", KeepDims=1)
        b.op("QUANTIZE", [moved], z)
        outputs += [y, z]
    path = b.save(tmp_path / "m.tflite", [x], outputs)
    info = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(info.min, info.max + 1, (3, 9, 2, 8)).astype(dtype)
    assert check_case(path, "tiny", [values]).kind == EXACT
    if scale is not None and np.size(scale) == 1:
        shown = compile(path, "tiny", cache=False).outputs[0]
        assert (shown.scale, shown.zero_point) == (scale, zero + offset)


@pytest.mark.parametrize("dtype", ["int8", "int32", "float32"])
@pytest.mark.parametrize("shape", [[1, 4], [7, 4], []])
def test_a_constant_output_is_given_with_every_inference(shape: list[int], dtype: str, tmp_path: Path) -> None:
    b = TfliteBuilder(5)
    x, y = b.tensor([1, 4], 0.5), b.tensor([1, 4], 0.9)
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    anchors = b.tensor(shape, 0.25 if dtype == "int8" else None, 1, dtype, values)
    b.op("ADD", [x, x], y, "AddOptions")
    path = b.save(tmp_path / "m.tflite", [x], [anchors, y])
    given = np.random.default_rng(0).integers(-128, 128, (3, 4), dtype=np.int8)
    assert check_case(path, "tiny", [given]).kind == EXACT
