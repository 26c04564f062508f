"""BATCH_MATMUL, FULLY_CONNECTED of two activations, and an attention block of them: LiteRT's own integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.jit.source.test_tflite_arithmetic import differing, zero
from tests.jit.source.test_tflite_source import assert_equal, places
from tests.jit.tflite_models import RELU, TfliteBuilder


def matmul(b: TfliteBuilder, x: int, y: int, shape: list[int], turned: tuple[bool, bool], **numbers: float) -> int:
    out = b.tensor(shape, numbers.get("scale", 0.5), int(numbers.get("zero_point", -5)))
    return b.op("BATCH_MATMUL", [x, y], out, "BatchMatMulOptions", AdjX=turned[0], AdjY=turned[1])


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("stack", [[], [1], [3], [1, 4]])
def test_stacks_of_matrices(stack: list[int], turned: tuple[bool, bool], tmp_path: Path) -> None:
    b = TfliteBuilder(3)
    first, second = [*stack, 9, 20], [*stack, 20, 13]
    x = b.tensor([*stack, 20, 9] if turned[0] else first, 0.11, -128)
    y = b.tensor([*stack, 13, 20] if turned[1] else second, 0.07, 17)
    z = matmul(b, x, y, [*stack, 9, 13], turned, scale=1.7)
    path = b.save(tmp_path / "m.tflite", [x, y], [z])
    assert places(assert_equal(path))["BATCH_MATMUL"] == "accelerator"


@pytest.mark.parametrize("turned", [False, True])
def test_a_constant_matrix(turned: bool, tmp_path: Path) -> None:
    b = TfliteBuilder(4)
    x = b.tensor([1, 7, 20], 0.05, 3)
    weights, _ = b.weights([6, 20] if turned else [20, 6], None)
    z = matmul(b, x, weights, [1, 7, 6], (False, turned), scale=0.21)
    path = b.save(tmp_path / "m.tflite", [x], [z])
    assert set(places(assert_equal(path)).values()) == {"accelerator"}


def test_fully_connected_of_two_activations(tmp_path: Path) -> None:
    b = TfliteBuilder(5)
    x, y = b.tensor([9, 40], 0.05, 3), b.tensor([11, 40], 0.04, 0)
    z = b.tensor([9, 11], 0.4, -20)
    b.op("FULLY_CONNECTED", [x, y, -1], z, "FullyConnectedOptions", FusedActivationFunction=RELU)
    path = b.save(tmp_path / "m.tflite", [x, y], [z])
    assert set(places(assert_equal(path)).values()) == {"accelerator"}


ROWS, DEPTH = 4000, 130


def rows_of(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows whose products with 127, ..., 127, 1 come to these ``sums``, of up to two million either way."""
    last = (sums + 63) % 127 - 63
    each, more = np.divmod((sums - last) // 127, DEPTH - 1)
    return np.column_stack([each[:, None] + (np.arange(DEPTH - 1) < more[:, None]), last])


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("kind", "dtype"), [("BATCH_MATMUL", "int8"), ("FULLY_CONNECTED", "int8"), ("FULLY_CONNECTED", "uint8")]
)
def test_products_at_their_ties(kind: str, dtype: str, constant: bool, tmp_path: Path) -> None:
    """Without a bias: BATCH_MATMUL multiplies the scales in float32, FULLY_CONNECTED in float64."""
    for seed in range(6):
        b = TfliteBuilder(seed)
        ends = ((0.004, 0.006), (0.01, 0.014), (0.8, 1.2))
        first, second, result = (np.float32(b.rng.uniform(*each)) for each in ends)
        ties = (b.rng.integers(-120, 120, ROWS) + 0.5) / (float(first) * float(second) / float(result))
        given = (rows_of(np.round(ties).astype(np.int64)) + zero(dtype)).astype(dtype)
        column = (np.append(np.full(DEPTH - 1, 127), 1) + zero(dtype)).astype(dtype).reshape(1, -1)
        x = b.tensor([ROWS, DEPTH], first, zero(dtype), dtype)
        y = b.tensor([1, DEPTH], second, zero(dtype), dtype, column if constant else None)
        z = b.tensor([ROWS, 1], result, zero(dtype) - 3, dtype)
        if kind == "BATCH_MATMUL":
            b.op(kind, [x, y], z, "BatchMatMulOptions", AdjX=False, AdjY=True)
        else:
            b.op(kind, [x, y, -1], z, "FullyConnectedOptions")
        read, values = ([x], [given]) if constant else ([x, y], [given, column])
        assert differing(b, read, z, values, tmp_path / "m.tflite") == 0


def attention(b: TfliteBuilder, tokens: int, heads: int, depth: int) -> tuple[int, int]:
    """Input and output of a block: projections, scores, softmax, weighted values, put together and projected."""
    width = heads * depth

    def dense(x: int, scale: float) -> int:
        weights, scales = b.weights([width, width], 0)
        out = b.tensor([1, tokens, width], scale, int(b.rng.integers(-9, 9)))
        bias = b.bias(x, scales, width)
        return b.op("FULLY_CONNECTED", [x, weights, bias], out, "FullyConnectedOptions", KeepNumDims=True)

    def moved(kind: str, x: int, numbers: list[int], shape: list[int], options: str) -> int:
        like = b.tensors[x]
        out = b.tensor(shape, like["scale"], like["zero_point"])
        return b.op(kind, [x, b.constant(np.array(numbers, np.int32))], out, options)

    def split(x: int) -> int:
        x = moved("RESHAPE", x, [1, tokens, heads, depth], [1, tokens, heads, depth], "ReshapeOptions")
        return moved("TRANSPOSE", x, [0, 2, 1, 3], [1, heads, tokens, depth], "TransposeOptions")

    x = b.tensor([1, tokens, width], 0.03, 4)
    q, k, v = (split(dense(x, 0.3)) for _ in range(3))
    scores = matmul(b, q, k, [1, heads, tokens, tokens], (False, True), scale=3.0, zero_point=2)
    share = b.tensor([1, heads, tokens, tokens], 1 / 256, -128)
    b.op("SOFTMAX", [scores], share, "SoftmaxOptions", Beta=0.05)
    values = matmul(b, share, v, [1, heads, tokens, depth], (False, False), scale=0.1, zero_point=-7)
    values = moved("TRANSPOSE", values, [0, 2, 1, 3], [1, tokens, heads, depth], "TransposeOptions")
    values = moved("RESHAPE", values, [1, tokens, width], [1, tokens, width], "ReshapeOptions")
    return x, dense(values, 0.1)


@pytest.mark.parametrize(("heads", "depth"), [(2, 16), (3, 10), (1, 16)])
def test_an_attention_block(heads: int, depth: int, tmp_path: Path) -> None:
    b = TfliteBuilder(6)
    x, y = attention(b, 20, heads, depth)
    path = b.save(tmp_path / "m.tflite", [x], [y])
    artifact = assert_equal(path, config="pynq-z2")
    assert len(artifact.programs) == 2
    assert {kind for kind, place in places(artifact).items() if place == "interpreter"} == set()
    assert {places(artifact)[kind] for kind in ("BATCH_MATMUL", "FULLY_CONNECTED")} == {"accelerator"}
