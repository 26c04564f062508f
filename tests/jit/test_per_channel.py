"""Sums with numbers per channel: biases that give every result, or none."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.jit.errors import Unsupported
from tilewright.jit.float_tables import add_table
from tilewright.jit.frontend.builder import ONNX_RUNTIME, GraphBuilder, Layer, Operand, Output, Quantisation
from tilewright.jit.frontend.layers.per_channel import shifted
from tilewright.jit.graph import Requantize
from tilewright.jit.reference import apply_requant, apply_scale

EVERY = np.arange(-128, 128).astype(np.int8)


def add_numbers(step: float, wanted: np.ndarray, zero_point: int) -> Requantize:
    builder = GraphBuilder(ONNX_RUNTIME)
    shape = (1, 1, 4, wanted.shape[1])
    x = builder.declare("x", shape)
    operand, out = Operand(x, shape, Quantisation(step, 0)), Output(Quantisation(1.0, zero_point))
    shifted(Layer(builder, "y"), operand, wanted, step, out)
    (op,) = builder.ops
    assert isinstance(op, Requantize)
    return op


@pytest.mark.parametrize("seed", range(30))
def test_every_result_of_onnx_runtime(seed: int) -> None:
    """All values of a tensor plus all 256 numbers, over scales far apart."""
    rng = np.random.default_rng(seed)
    scales = tuple(float(np.float32(np.exp(rng.uniform(np.log(0.003), np.log(0.3))))) for _ in range(3))
    zero_points = tuple(int(z) for z in rng.integers(-128, 128, 3))
    table = add_table(
        (scales[0], scales[1], scales[2]), (zero_points[0], zero_points[1], zero_points[2]), unsigned=bool(seed % 2)
    )  # fmt: skip
    wanted = table.clip(-128, 127)
    try:
        op = add_numbers(float(np.float32(scales[0]) / np.float32(scales[2])), wanted, zero_points[2])
    except Unsupported as error:
        if "no bias gives" not in str(error):
            raise
        return  # ties that go up here and down there
    results = apply_requant(np.broadcast_to(apply_scale(EVERY, op.scale)[:, None], wanted.shape), op.requant)
    assert np.array_equal(results, wanted)


def test_scales_are_rarely_refused() -> None:
    refused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        a, b, y = (float(np.float32(rng.uniform(0.01, 0.1))) for _ in range(3))
        try:
            add_numbers(float(np.float32(a) / np.float32(y)), add_table((a, b, y), (3, -4, 5)).clip(-128, 127), 5)
        except Unsupported:
            refused += 1
    assert refused <= 2


def test_results_that_no_bias_gives_are_refused() -> None:
    wanted = np.clip(np.arange(-128, 128)[:, None] + np.zeros((1, 3), np.int64), -128, 127)
    wanted[100, 1] += 1
    with pytest.raises(Unsupported, match="1 channels whose float32 sums no bias gives"):
        add_numbers(1.0, wanted, 0)
    with pytest.raises(Unsupported, match="a step of"):
        add_numbers(1e-12, wanted, 0)
