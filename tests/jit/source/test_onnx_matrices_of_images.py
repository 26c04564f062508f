"""Products of matrices beside convolutions: the file's last axis is multiplied, the accelerator's is the channels'.

All sizes are alike, so that nothing but the numbers tells one axis from another.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jit.source.onnx_nets import NetBuilder, Tensor
from tests.jit.source.onnx_run import compared
from tilewright.jit.graph import Conv2D, MatMul

SIZE = 6


def _by_constant(b: NetBuilder, x: Tensor) -> str:
    return b.op("MatMul", [x.name, b.weight((SIZE, SIZE), axis=1)[0]])


def _by_itself(b: NetBuilder, x: Tensor) -> str:
    return b.op("MatMul", [x.name, x.name])


def _by_its_transpose(b: NetBuilder, x: Tensor) -> str:
    axes = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    turned = b.op("Transpose", [x.name], perm=axes)
    return b.op("MatMul", [x.name, b.pair(turned, x.shape, x.scale, 2).name])


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("product", [_by_constant, _by_itself, _by_its_transpose])
def test_a_product_of_what_a_convolution_gives(
    tmp_path: Path, product: Callable[[NetBuilder, Tensor], str], axes: int
) -> None:
    b = NetBuilder(5)
    shape = (1, SIZE, *(SIZE,) * axes)
    x = b.real_input((1, 3, *(SIZE + 2,) * axes))
    image = b.fitted(b.conv(x, SIZE), shape, 3.0)
    b.output(b.fitted(product(b, image), shape, 20.0).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sum(isinstance(op, (Conv2D, MatMul)) for op in built.graph.ops) == 2


def test_a_convolution_of_a_product(tmp_path: Path) -> None:
    """There the result is an image, too; the product stays on the CPU."""
    b = NetBuilder(6)
    shape = (1, SIZE, SIZE, SIZE)
    image = b.fitted(b.conv(b.real_input((1, 3, SIZE + 2, SIZE + 2)), SIZE), shape, 3.0)
    again = b.fitted(_by_constant(b, image), shape, 20.0)
    b.output(b.fitted(b.conv(again, 2, kernel=1), (1, 2, SIZE, SIZE), 60.0).name, (1, 2, SIZE, SIZE))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert sum(isinstance(op, Conv2D) for op in built.graph.ops) == 2
