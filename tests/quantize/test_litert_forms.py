"""Float .tflite operators that ai-edge-quantizer gives scales which LiteRT's kernels do not know."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tilewright.checking import reference_outputs
from tilewright.quantize import LayerLoss, quantize_file
from tilewright.quantize.litert import LitertQuantiser

pytestmark = pytest.mark.skipif(
    find_spec("ai_edge_quantizer") is None, reason="needs ai-edge-quantizer: pip install 'tilewright[quantize]'"
)
F = np.float32
SHAPE = (6, 6, 4)


def loss(
    folder: Path, kind: str, constant: Any, result: tuple[int, ...], options: str = "", **fields: Any
) -> LayerLoss:
    """What quantising costs an operator of a constant and the hyperbolic tangent of an input.

    The accelerator's integers are LiteRT's.
    """
    tensors = [
        StoredTensor("x", (1, *SHAPE), "float32"),
        StoredTensor("curve", (1, *SHAPE), "float32"),
        StoredTensor("c", constant.shape, str(constant.dtype), data=constant),
        StoredTensor("y", result, "float32"),
    ]
    operators = [StoredOperator("TANH", [0], [1]), StoredOperator(kind, [1, 2], [3], options, fields)]
    path = write_tflite(folder / "float.tflite", tensors, operators, [0], [3])
    np.save(folder / "x.npy", np.random.default_rng(1).normal(0, 1, (24, *SHAPE)).astype(F))
    made = quantize_file(path, folder / "x.npy")
    made.save(folder / "quantised.tflite")
    x = np.random.default_rng(2).integers(-128, 128, (4, *SHAPE)).astype(np.int8)
    exe = tw.compile(folder / "quantised.tflite", "tiny", cache=False)
    np.testing.assert_array_equal(exe(x), reference_outputs(folder / "quantised.tflite", [x])[0])
    return next(layer for layer in made.layers if layer.kind == kind)


def numbers(*shape: int) -> Any:
    return np.random.default_rng(3).normal(0, 0.5, shape).astype(F)


@pytest.mark.parametrize("keep", [True, False])
def test_sums_over_axes(keep: bool, tmp_path: Path) -> None:
    """LiteRT's reference kernel adds integers of one scale alone; sums stay in float32."""
    result = (1, 1, 1, 4) if keep else (1, 4)
    axes = np.array([1, 2], np.int32)
    assert loss(tmp_path, "SUM", axes, result, "ReducerOptions", keepDims=keep).after > 20


def test_a_product_with_constant_matrices(tmp_path: Path) -> None:
    """LiteRT's kernel takes one scale for all of them; with one for each column all results were 0."""
    options = {"adjX": False, "adjY": False}
    assert loss(tmp_path, "BATCH_MATMUL", numbers(1, 6, 4, 5), (1, 6, 6, 5), "BatchMatMulOptions", **options).after > 25


@pytest.mark.parametrize("kind", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("shape", [(4,), (6, 1), (6, 6, 4)])
def test_extremes_with_constants_of_fewer_axes(shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    """The quantiser failed at these; they stay in float32."""
    assert loss(tmp_path, kind, numbers(*shape), (1, *SHAPE), "MaximumMinimumOptions").after > 25


@pytest.mark.parametrize("masked", [-np.inf, float(np.finfo(F).min), -1e9, -1e4])
def test_masks_ahead_of_a_softmax(masked: float, tmp_path: Path) -> None:
    """The scores keep their bits, whatever stands where none may be; LiteRT ends the process at some such scales."""
    mask = np.where(np.tril(np.ones((6, 4))), 0, masked).astype(F)
    tensors = [
        StoredTensor("x", (1, *SHAPE), "float32"),
        StoredTensor("scores", (1, *SHAPE), "float32"),
        StoredTensor("mask", mask.shape, "float32", data=mask),
        StoredTensor("sum", (1, *SHAPE), "float32"),
        StoredTensor("y", (1, *SHAPE), "float32"),
    ]
    operators = [
        StoredOperator("TANH", [0], [1]),
        StoredOperator("ADD", [1, 2], [3], "AddOptions"),
        StoredOperator("SOFTMAX", [3], [4], "SoftmaxOptions", {"beta": 1.0}),
    ]
    path = write_tflite(tmp_path / "float.tflite", tensors, operators, [0], [4])
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(0, 1, (24, *SHAPE)).astype(F))
    made = quantize_file(path, tmp_path / "x.npy")
    assert next(layer.after for layer in made.layers if layer.kind == "SOFTMAX") > 25
    said = " ".join(made.stay)  # LiteRT adds to the least number at the least: of -inf the sum is finite
    assert all(name in said for name in ("ADD 'op001'", "SOFTMAX 'op002'"))


def test_a_result_that_is_quantised_behind_its_layer(tmp_path: Path) -> None:
    """What the network gives is what is compared, not the float32 that it is made of."""
    tensors = [
        StoredTensor("x", (1, *SHAPE), "float32"),
        StoredTensor("curve", (1, *SHAPE), "float32"),
        StoredTensor("slopes", (1, 1, 4), "float32", data=numbers(1, 1, 4)),
        StoredTensor("y", (1, *SHAPE), "float32"),
    ]
    operators = [StoredOperator("TANH", [0], [1]), StoredOperator("PRELU", [1, 2], [3])]
    path = write_tflite(tmp_path / "float.tflite", tensors, operators, [0], [3])
    np.save(tmp_path / "x.npy", x := np.random.default_rng(1).normal(0, 1, (8, *SHAPE)).astype(F))
    made = quantize_file(path, tmp_path / "x.npy")
    quantiser = LitertQuantiser(path, 8)
    real, got = (quantiser.answer(content) for content in (None, made.content))
    pairs = [(real([one[None]]), got([one[None]])) for one in x]
    signal, noise = (sum(float((part**2).sum()) for part in parts) for parts in zip(*[(a, a - b) for a, b in pairs]))
    shown = next(layer.after for layer in made.layers if layer.kind == "PRELU")
    assert shown == pytest.approx(10 * np.log10(signal / noise), abs=0.01)


def test_a_result_of_one_number(tmp_path: Path) -> None:
    """Its range is that of all inputs: an average of each one's, the quantiser's own, would be no range at all."""
    assert loss(tmp_path, "FULLY_CONNECTED", numbers(1, 144), (1, 1), "FullyConnectedOptions").after > 30


@pytest.mark.parametrize("bits", [8, 4])
def test_a_layer_that_is_always_zero(bits: int, tmp_path: Path) -> None:
    """Weights of nothing, and a negative bias ahead of a Relu6: at the quantiser's own scale 6 is no int32."""
    tensors = [
        StoredTensor("x", (1, *SHAPE), "float32"),
        StoredTensor("w", (3, 3, 3, 4), "float32", data=np.zeros((3, 3, 3, 4), F)),
        StoredTensor("b", (3,), "float32", data=np.full(3, -1.25, F)),
        StoredTensor("y", (1, *SHAPE[:2], 3), "float32"),
    ]
    options = {"padding": 0, "strideW": 1, "strideH": 1, "fusedActivationFunction": 3}
    options |= {"dilationWFactor": 1, "dilationHFactor": 1}
    operators = [StoredOperator("CONV_2D", [0, 1, 2], [3], "Conv2DOptions", options)]
    path = write_tflite(tmp_path / "float.tflite", tensors, operators, [0], [3])
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(0, 1, (8, *SHAPE)).astype(F))
    quantised = tmp_path / "quantised.tflite"
    quantize_file(path, tmp_path / "x.npy", bits=bits).save(quantised)
    x = np.random.default_rng(2).integers(-128, 128, (4, *SHAPE)).astype(np.int8)
    y = tw.compile(quantised, "tiny", cache=False)(x)
    np.testing.assert_array_equal(y, reference_outputs(quantised, [x])[0])
    assert (y == y.flat[0]).all()
