"""A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND is one with dilation, as LiteRT computes all three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.source.test_tflite_arithmetic import both, zero
from tests.jit.source.test_tflite_source import assert_equal, places
from tests.jit.tflite_models import NONE, RELU, SAME, VALID, TfliteBuilder
from tilewright.jit import graph as g
from tilewright.jit.importer import import_model

DEAL, GATHER = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"


def dilated(
    b: TfliteBuilder, kind: str, block: tuple[int, int], sizes: tuple[int, int], dtype: str = "int8",
    padding: int = SAME, before: tuple[int, int] = (0, 0), crops: tuple[int, int, int, int] = (0, 0, 0, 0),
    kernel: int = 3, own: int = 1, stride: int = 1, activation: int = NONE, other: tuple[int, int] | None = None,
    keep: bool = False,
) -> tuple[int, list[int]]:  # fmt: skip
    """(input, outputs) of the three operators; ``before``: rows and columns of padding at the top and the left."""
    channels = 6
    x = b.tensor([1, *sizes, channels], 0.043, zero(dtype) - 9, dtype)
    pads = [[f, -(n + f) % k] for f, n, k in zip(before, sizes, block, strict=True)]
    parts = [(n + sum(p)) // k for n, p, k in zip(sizes, pads, block, strict=True)]
    batch = block[0] * block[1]
    dealt = b.tensor([batch, *parts, channels], 0.043, zero(dtype) - 9, dtype)
    b.op(DEAL, [x, b.constant(np.array(block, np.int32)), b.constant(np.array(pads, np.int32))], dealt)
    depthwise = kind == "DEPTHWISE_CONV_2D"
    shape = [1 if depthwise else channels, kernel, kernel, channels]
    if dtype == "int8":
        w, scales = b.weights(shape, 3 if depthwise else 0)
    else:
        w = b.tensor(shape, 0.011, 119, dtype, data=b.rng.integers(0, 256, shape).astype(np.uint8))
        scales = np.array([0.011])
    left = [-(-n // stride) if padding == SAME else (n - (kernel - 1) * own - 1) // stride + 1 for n in parts]
    made = b.tensor([batch, *left, channels], 0.11, zero(dtype) + 5, dtype)
    steps = {"StrideH": stride, "StrideW": stride, "DilationHFactor": own, "DilationWFactor": own}
    fields: dict[str, Any] = {"Padding": padding, "FusedActivationFunction": activation, **steps}
    if depthwise:
        fields["DepthMultiplier"] = 1
    options = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    bias = b.tensor([channels], 0.043 * scales, dtype="int32", data=b.rng.integers(-900, 900, channels, np.int32))
    b.op(kind, [dealt, w, bias], made, options, **fields)
    back = block if other is None else other
    size = [n * k - crops[2 * a] - crops[2 * a + 1] for a, (n, k) in enumerate(zip(left, back, strict=True))]
    y = b.tensor([1, *size, channels], 0.11, zero(dtype) + 5, dtype)
    cropped = b.constant(np.array(crops, np.int32).reshape(2, 2))
    b.op(GATHER, [made, b.constant(np.array(back, np.int32)), cropped], y)
    return x, [y, made] if keep else [y]


def run(path: Path, config: str = "pynq-z2") -> dict[str, str]:
    """Where the operators are, of a model whose outputs equal LiteRT's."""
    return places(assert_equal(path, config=config))


CASES: dict[str, dict[str, Any]] = {
    "SAME": {"block": (2, 2), "sizes": (9, 11)},
    "VALID, padded ahead": {"block": (3, 2), "sizes": (12, 13), "padding": VALID, "before": (3, 2)},
    "cropped": {"block": (2, 4), "sizes": (9, 10), "crops": (1, 2, 0, 3)},
    "cropped beyond the padding": {"block": (2, 2), "sizes": (10, 8), "padding": VALID, "crops": (2, 0, 1, 1)},
    "padded and cropped": {"block": (4, 3), "sizes": (11, 14), "before": (4, 3), "crops": (4, 1, 3, 1), "kernel": 2},
    "dilated itself": {"block": (2, 1), "sizes": (16, 9), "own": 2, "activation": RELU},
    "one position": {"block": (5, 5), "sizes": (5, 5), "kernel": 5},
}


@both
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("case", CASES)
def test_three_operators_are_one_layer(case: str, kind: str, dtype: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=len(case))
    x, outputs = dilated(b, kind, dtype=dtype, **CASES[case])
    path = b.save(tmp_path / "m.tflite", [x], outputs)
    layers = [op for op in import_model(path).graph.ops if isinstance(op, (g.Conv2D, g.DepthwiseConv2D))]
    assert [op.covers for op in layers] == [(0, 1, 2)]
    for config in ("tiny", "pynq-z2"):
        assert run(path, config) == dict.fromkeys((DEAL, kind, GATHER), "accelerator")


@pytest.mark.parametrize(
    "form",
    [{"stride": 2, "sizes": (16, 16)}, {"stride": 2, "kernel": 1}, {"other": (4, 1), "block": (2, 2)}, {"keep": True}],
    ids=["strides", "strides of one tap", "another block", "read in between"],
)
def test_other_forms_are_not_one_layer(form: dict[str, Any], tmp_path: Path) -> None:
    b = TfliteBuilder(seed=4)
    x, outputs = dilated(b, "CONV_2D", **{"block": (2, 2), "sizes": (8, 8)} | form)
    path = b.save(tmp_path / "m.tflite", [x], outputs)
    assert run(path) == {DEAL: "interpreter", "CONV_2D": "accelerator", GATHER: "interpreter"}


def along_one_axis(b: TfliteBuilder, reshape: str, dtype: str, path: Path, known: bool = True) -> Path:
    """As a causal Conv1D with dilation is converted: padded ahead, and each part without padding. Unless ``known``, an
    input of the network says which shape the first reshape makes."""
    length, channels, block, kernel = 22, 6, 4, 3
    x = b.tensor([1, length, channels], 0.043, zero(dtype) - 9, dtype)
    padded = (kernel - 1) * block
    part = -(-(length + padded) // block)
    pads = np.array([[padded, part * block - length - padded]], np.int32)
    dealt = b.tensor([block, part, channels], 0.043, zero(dtype) - 9, dtype)
    b.op(DEAL, [x, b.constant(np.array([block], np.int32)), b.constant(pads)], dealt)
    image = b.tensor([block, 1, part, channels], 0.043, zero(dtype) - 9, dtype)
    expand = reshape == "EXPAND_DIMS"
    shape = np.array(1 if expand else [block, 1, part, channels], np.int32)
    given = b.constant(shape) if known else b.tensor(list(shape.shape), dtype="int32")
    b.op(reshape, [dealt, given], image, "ExpandDimsOptions" if expand else "ReshapeOptions")
    if dtype == "int8":
        w, scales = b.weights([channels, 1, kernel, channels], 0)
    else:
        data = b.rng.integers(0, 256, [channels, 1, kernel, channels]).astype(np.uint8)
        w, scales = b.tensor([channels, 1, kernel, channels], 0.011, 119, dtype, data=data), np.array([0.011])
    bias = b.tensor([channels], 0.043 * scales, dtype="int32", data=b.rng.integers(-900, 900, channels, np.int32))
    left = part - kernel + 1
    made = b.tensor([block, 1, left, channels], 0.11, zero(dtype) + 5, dtype)
    steps = dict.fromkeys(("StrideH", "StrideW", "DilationHFactor", "DilationWFactor"), 1)
    b.op("CONV_2D", [image, w, bias], made, "Conv2DOptions", Padding=VALID, FusedActivationFunction=NONE, **steps)
    back = b.tensor([block, left, channels], 0.11, zero(dtype) + 5, dtype)
    b.op("RESHAPE", [made, b.constant(np.array([block, left, channels], np.int32))], back, "ReshapeOptions")
    y = b.tensor([1, length, channels], 0.11, zero(dtype) + 5, dtype)
    crops = b.constant(np.array([[0, left * block - length]], np.int32))
    b.op(GATHER, [back, b.constant(np.array([block], np.int32)), crops], y)
    return b.save(path, [x] if known else [x, given], [y])


@both
@pytest.mark.parametrize("reshape", ["EXPAND_DIMS", "RESHAPE"])
def test_along_one_axis_between_reshapes(reshape: str, dtype: str, tmp_path: Path) -> None:
    path = along_one_axis(TfliteBuilder(seed=8), reshape, dtype, tmp_path / "m.tflite")
    assert set(run(path).values()) == {"accelerator"}


@pytest.mark.parametrize("numbers", [(0.06, -9), (0.043, 4)], ids=["scale", "zero point"])
def test_a_reshape_that_gives_other_numbers_is_no_part_of_a_layer(numbers: tuple[float, int], tmp_path: Path) -> None:
    """LiteRT does not compare them, and the convolution reads its own operand's."""
    b = TfliteBuilder(seed=8)
    path = along_one_axis(b, "RESHAPE", "int8", tmp_path / "m.tflite")
    (image,) = [op["output"] for op in b.operators if op["inputs"][0] == b.operators[0]["output"]]
    b.tensors[image] |= {"scale": numbers[0], "zero_point": numbers[1]}
    (bias,) = [op["inputs"][2] for op in b.operators if op["name"] == "CONV_2D"]
    b.tensors[bias]["scale"] = b.tensors[bias]["scale"] * (numbers[0] / 0.043)
    b.save(path, [0], [b.operators[-1]["output"]])
    assert run(path)[DEAL] == "interpreter"


@pytest.mark.parametrize("reshape", ["EXPAND_DIMS", "RESHAPE"])
def test_reshapes_to_a_shape_that_an_input_gives_are_no_part_of_a_layer(reshape: str, tmp_path: Path) -> None:
    path = along_one_axis(TfliteBuilder(seed=8), reshape, "int8", tmp_path / "m.tflite", known=False)
    reasons = dict(import_model(path).host_ops)
    assert reasons[f"op001_{reshape}"] == "a shape that operand 1 gives when it runs"
