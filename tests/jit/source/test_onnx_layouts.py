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
