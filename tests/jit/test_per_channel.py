"""Functions that are another one in each channel: constants that give every result, or none."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import ONNX_RUNTIME, GraphBuilder, Layer, Operand, Output, Quantisation
from tilewright.jit.layers.per_channel import function
from tilewright.jit.numbers.float_tables import add_table
from tilewright.jit.reference import evaluate

F = np.float32
EVERY = np.arange(-128, 128).astype(np.int8)


def run(wanted: np.ndarray, zero_in: int, zero_out: int) -> list[str]:
    """The operators that give ``wanted`` (256, C), which is checked."""
    builder = GraphBuilder(ONNX_RUNTIME)
    shape = (1, 1, 256, wanted.shape[1])
    x = builder.declare("x", shape)
    operand, out = Operand(x, shape, Quantisation(1.0, zero_in)), Output(Quantisation(1.0, zero_out))
    y = function(Layer(builder, "y"), operand, wanted, out)
    image = np.ascontiguousarray(np.broadcast_to(EVERY[:, None], shape))
    assert np.array_equal(evaluate(builder.finish("g", [x], [y]), {x: image})[y][0, 0], wanted)
    return [op.kind for op in builder.ops]


@pytest.mark.parametrize("seed", range(30))
def test_every_sum_of_onnx_runtime(seed: int) -> None:
    """All values of a tensor plus all 256 numbers, over scales far apart."""
    rng = np.random.default_rng(seed)
    a, b, y = (float(F(np.exp(rng.uniform(np.log(0.003), np.log(0.3))))) for _ in range(3))
    i, j, k = (int(z) for z in rng.integers(-128, 128, 3))
    try:
        kinds = run(add_table((a, b, y), (i, j, k), unsigned=bool(seed % 2)).clip(-128, 127), i, k)
    except Unsupported as error:
        if "no constants give" not in str(error) and "neither straight nor bent" not in str(error):
            raise
        return  # ties that go up here and down there
    assert kinds == ["Requantize"]


@pytest.mark.parametrize("kind", ["sum", "product", "slopes", "clamped"])
def test_float_functions_are_never_refused(kind: str) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        scales = np.exp(rng.uniform(np.log(0.003), np.log(0.3), 2)).astype(F)
        zero_in, zero_out = (int(z) for z in rng.integers(-128, 128, 2))
        x = ((EVERY.astype(int) - zero_in).astype(F) * scales[0])[:, None]
        n = rng.normal(0, 1, rng.integers(2, 40)).astype(F)
        real = {
            "sum": x + n,
            "product": x * n,
            "slopes": np.where(x < 0, x * n, x),
            "clamped": np.maximum(x * n + n[::-1], 0),
        }
        wanted = np.rint(real[kind] / scales[1]).astype(np.int64)
        run(np.clip(wanted + zero_out, -128, 127), zero_in, zero_out)


def test_results_that_no_constants_give_are_refused() -> None:
    wanted = np.clip(np.arange(-128, 128)[:, None] + np.zeros((1, 3), np.int64), -128, 127)
    wanted[100, 1] += 1
    with pytest.raises(Unsupported, match="1 channels whose results no constants give"):
        run(wanted, 0, 0)
    wanted[:, 1] = np.abs(np.arange(-128, 128)) % 50
    with pytest.raises(Unsupported, match="goes up and down"):
        run(wanted, 5, 0)


def test_channels_that_are_alike_are_solved_once() -> None:
    """A flattened image plus a constant of its shape: as many channels as pixels, of 256 kinds, in little memory."""
    table = add_table((0.02, 0.03, 0.05), (3, -7, 5), unsigned=False).clip(-128, 127)
    kinds = np.random.default_rng(0).integers(0, 256, 20_000)
    tracemalloc.start()
    try:
        assert run(table[:, kinds], 3, 5) == ["Requantize"]
        assert tracemalloc.get_traced_memory()[1] < 1 << 29
    finally:
        tracemalloc.stop()
