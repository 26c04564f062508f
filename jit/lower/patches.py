"""The first convolution on few channels: the host packs its patches, so that it reads many channels at few positions.

A patch may hold fewer rows than the kernel: the convolution then reads one below the other, and output rows share
them. So a kernel of 10 x 4 over a single channel reads 3 patches of 4 x 4, and the bus brings each once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.ir.convolution import Convolution
from tilewright.jit.ir.regions import image_shape
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.plan.layout import units_for
from tilewright.runtime.steps import PackStep, TensorSpec


class Patched(NamedTuple):
    """The packed input, units of one of its pixels, and the convolution's weights (OC, KH, 1, IC) over it, whose kernel
    rows are ``dilation`` rows apart."""

    name: str
    units: int
    weight: NDArray[np.integer]
    dilation: int


def packs_patches(at: Lowering, op: Convolution, kh: int, kw: int, ic: int) -> bool:
    """Whether a convolution's input is packed as patches: a network input of few channels."""
    return op.inputs[0] in at.graph.inputs and of_few_channels(kh, kw, ic, at.config)


def of_few_channels(kh: int, kw: int, ic: int, config: Config) -> bool:
    """Whether patches of a kernel over so many channels are fewer blocks than its positions one by one."""
    packed = -(-kh * kw * ic // config.block_in)
    return packed < kh * kw * -(-ic // config.block_in)


def lower_patches(at: Lowering, op: Convolution, weight: NDArray[np.integer]) -> Patched:
    """Declares the packed input of a convolution with ``weight`` (OC, KH, KW, IC)."""
    _, kh, kw, ic = weight.shape
    shape, out = image_shape(at.spec(op.inputs[0]).shape), image_shape(at.graph.tensors[op.output].shape)
    rows = _patch_rows(op, kh, kw * ic, out[1], at.config)
    reads = -(-kh // rows)
    apart = rows // op.strides[0] if reads > 1 else 1
    units = units_for(rows * kw * ic, at.config)
    name = f"{op.inputs[0]}.patches{at.layer}"
    at.specs[name] = TensorSpec(name, (1, out[1] + (reads - 1) * apart, out[2], rows * kw * ic), "int8")
    at.packs[name] = PackStep(
        tensor=op.inputs[0], segment=1, shape=shape, lanes=at.config.lanes, units=units, layout="patches",
        batch=at.config.batch, padding=_cover(op, (reads * rows, kw), shape, out), pad_value=op.pad_value,
        kernel=(rows, kw), strides=op.strides, dilation=op.dilation,
    )  # fmt: skip
    whole = np.zeros((len(weight), reads * rows, kw, ic), weight.dtype)  # uint8 weights have nine bits
    whole[:, :kh] = weight
    return Patched(name, units, whole.reshape(len(weight), reads, 1, rows * kw * ic), apart)


def _patch_rows(op: Convolution, kh: int, row: int, height: int, config: Config) -> int:
    """Kernel rows of a patch, of ``row`` values each: as few blocks for an output as can be, then as few units."""

    def cost(rows: int) -> tuple[int, int]:
        reads, units = -(-kh // rows), units_for(rows * row, config)
        return reads * units, (height + (reads - 1) * rows // op.strides[0]) * units

    shared = range(op.strides[0], kh, op.strides[0]) if op.dilation[0] == 1 else ()
    return min((kh, *shared), key=cost)


def _cover(
    op: Convolution, kernel: tuple[int, int], source: tuple[int, int, int, int], out: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Padding that gives exactly the output's positions: bottom and right may be less than the operator's."""
    top, left, _, _ = op.padding
    need = [
        (o - 1) * s + (k - 1) * d + 1 - size - before
        for o, s, k, d, size, before in zip(
            out[1:3], op.strides, kernel, op.dilation, source[1:3], (top, left), strict=True
        )
    ]
    return top, left, max(0, need[0]), max(0, need[1])
