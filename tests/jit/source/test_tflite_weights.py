"""Odd weights and biases that LiteRT takes: what a rule does not take is left to it, all is computed alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.source.test_tflite_source import assert_equal
from tests.jit.tflite_models import SAME, TfliteBuilder
from tilewright.runtime.litert.schema import read_model, schema, written

#: shapes of the image and the weights, the weights' axis of channels, options
LAYERS: dict[str, tuple[list[int], list[int], int, str]] = {
    "CONV_2D": ([1, 4, 4, 4], [4, 1, 1, 4], 0, "Conv2DOptions"),
    "DEPTHWISE_CONV_2D": ([1, 4, 4, 4], [1, 2, 2, 4], 3, "DepthwiseConv2DOptions"),
    "FULLY_CONNECTED": ([1, 4], [4, 4], 0, "FullyConnectedOptions"),
}
STEPS = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1, "Padding": SAME}


def layer(kind: str, path: Path, edit: Callable[[Any, Any], None]) -> Path:
    """A layer of one scale for each channel, with its weights and bias changed by ``edit``."""
    shape, weights, axis, options = LAYERS[kind]
    b = TfliteBuilder(3)
    x, y = b.tensor(shape, 0.04, -3), b.tensor(shape, 0.2, 7)
    w, scales = b.weights(weights, axis)
    fields = {} if kind == "FULLY_CONNECTED" else STEPS | ({"DepthMultiplier": 1} if axis == 3 else {})
    b.op(kind, [x, w, b.bias(x, scales, 4)], y, options, **fields)
    model = read_model(b.save(path, [x], [y]).read_bytes())
    main = model.subgraphs[0]
    edit(model, [main.tensors[t] for t in main.operators[0].inputs])
    path.write_bytes(written(model))
    return path


def quantised(**fields: Any) -> Callable[[Any, Any], None]:
    """Other numbers of the weights."""

    def edit(_: Any, tensors: Any) -> None:
        for name, value in fields.items():
            setattr(tensors[1].quantization, name, value)

    return edit


def zero_points(*values: int) -> Callable[[Any, Any], None]:
    return quantised(zeroPoint=np.array(values, np.int64))


def wide_bias(model: Any, tensors: Any) -> None:
    bias = tensors[2]
    values = np.asarray(model.buffers[bias.buffer].data, np.uint8).view(np.int32).astype(np.int64)
    model.buffers[bias.buffer].data, bias.type = values.view(np.uint8), schema().TensorType.INT64


@pytest.mark.parametrize(
    ("kind", "edit", "reason"),
    [
        ("CONV_2D", quantised(quantizedDimension=3), "weight scales along axis 3, not 0"),
        ("DEPTHWISE_CONV_2D", zero_points(0, 0, 0, 5), "int8 weights with a zero point"),
        ("DEPTHWISE_CONV_2D", zero_points(5, 0, 0, 0), "int8 weights with a zero point"),
        ("FULLY_CONNECTED", zero_points(0, -5, 0, 0), "int8 weights with a zero point"),
        ("FULLY_CONNECTED", quantised(scale=np.array([0.01], np.float32), zeroPoint=np.array([5])),
            "int8 weights with a zero point"),
        ("FULLY_CONNECTED", wide_bias, "a bias of int64(4,) for 4 channels"),
    ],
)  # fmt: skip
def test_what_litert_alone_takes_is_left_to_it(
    kind: str, edit: Callable[[Any, Any], None], reason: str, tmp_path: Path
) -> None:
    (entry,) = assert_equal(layer(kind, tmp_path / "m.tflite", edit)).options["operators"]
    assert (entry["place"], entry["reason"]) == ("interpreter", reason)


def split_bias(_: Any, tensors: Any) -> None:
    tensors[2].shape, tensors[2].quantization = [2, 2], None


def no_scale(_: Any, tensors: Any) -> None:
    tensors[1].quantization.scale = np.array([0.01, 0.0, 0.02, 0.03], np.float32)


@pytest.mark.parametrize(
    ("kind", "edit"),
    [("CONV_2D", split_bias), ("FULLY_CONNECTED", split_bias), ("CONV_2D", no_scale), ("DEPTHWISE_CONV_2D", no_scale),
     ("CONV_2D", quantised(scale=np.array([0.01], np.float32), zeroPoint=np.array([0]), quantizedDimension=2))],
)  # fmt: skip
def test_what_is_odd_and_clear_runs_on_the_accelerator(
    kind: str, edit: Callable[[Any, Any], None], tmp_path: Path
) -> None:
    (entry,) = assert_equal(layer(kind, tmp_path / "m.tflite", edit)).options["operators"]
    assert entry["place"] == "accelerator"
