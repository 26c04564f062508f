"""Operators between tensors that the accelerator holds with their axes in different orders, channels last or as in the
file.

All sizes are alike, so that nothing but the numbers tells one axis from another.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared
from tilewright.jit.graph import Conv2D, Maximum

SIZE = 4


@pytest.mark.parametrize("axes", [1, 2])
def test_a_softmax_of_rows_whose_result_is_an_image(tmp_path: Path, axes: int) -> None:
    """Its rows come as the file has them, and go to a maximum that holds its channels last."""
    b = NetBuilder(3)
    shape = (1, SIZE, *(SIZE,) * axes)
    image = b.fitted(b.conv(b.real_input(shape), SIZE, kernel=1), shape, 2.0)
    turned = b.op("Transpose", [image.name], perm=[0, *reversed(range(1, 2 + axes))])
    rows = b.pair(turned, shape, image.scale, int(b.rng.integers(-3, 3)))
    soft = b.pair(b.op("Softmax", [rows.name], axis=-1), shape, 1 / 256, -128)
    b.output(b.fitted(b.op("Max", [soft.name, image.name]), shape, 2.0).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sum(isinstance(op, (Conv2D, Maximum)) for op in built.graph.ops) == 2


def test_sums_of_a_convolution_that_a_constant_gives_another_axis(tmp_path: Path) -> None:
    """A constant of five axes makes five of the four of an image."""
    b = NetBuilder(4)
    shape = (1, SIZE, SIZE, SIZE)
    x = b.input(shape, b.activations)
    weight = b.constant(b.rng.integers(-100, 100, (SIZE, SIZE, 1, 1)).astype(np.int8))
    sums = b.op("ConvInteger", [x, weight, b.constant(b.zero(3))], kernel_shape=[1, 1])
    scaled = b.op("Mul", [b.op("Cast", [sums], to=1), b.constant(np.full((1, 1, 1, 1, 1), 2**-10, F))])
    b.output(b.quantise(scaled, 0.25, 5), (1, *shape), b.activations)
    compared(b.save(tmp_path / "m.onnx"))


def test_weights_of_two_signals_laid_flat(tmp_path: Path) -> None:
    """Of three axes the first need not be a batch of one: the channels lie between it and the pixels."""
    b = NetBuilder(5)
    shape = (1, SIZE, SIZE)
    signal = b.fitted(b.conv(b.real_input(shape), SIZE, kernel=1), shape, 2.0)
    both = b.op("Concat", [signal.name, signal.name], axis=0)
    pair = b.pair(both, (2, SIZE, SIZE), signal.scale, int(b.rng.integers(-3, 3)))
    flat = b.pair(b.op("Reshape", [pair.name, b.constant(np.array([1, -1]))]), (1, 2 * SIZE**2), pair.scale, 2)
    b.output(b.fitted(b.gemm(flat.name, flat, 2 * SIZE**2, 3), (1, 3), 10.0).name, (1, 3))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sum(isinstance(op, Conv2D) for op in built.graph.ops) == 2


def test_a_transposed_convolution_of_several_signals(tmp_path: Path) -> None:
    """Of three axes the first counts signals, which lie below each other on the accelerator."""
    b = NetBuilder(6)
    x = b.real_input((3, SIZE, 5))
    made = b.op("ConvTranspose", [x.name, b.weight((SIZE, 2, 3), axis=1)[0]], strides=[2], pads=[1, 0])
    b.output(b.fitted(made, (3, 2, 10), 2.0).name, (3, 2, 10))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sum(isinstance(op, Conv2D) for op in built.graph.ops) == 1
