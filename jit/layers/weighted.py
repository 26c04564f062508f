"""Convolution, depthwise convolution and fully connected layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Conv2D, DepthwiseConv2D
from tilewright.jit.layers.builder import Layer, Operand, Output, Weights
from tilewright.jit.layers.scaling import sum_requant
from tilewright.jit.layers.windows import Quad, meeting
from tilewright.jit.numbers.scales import reachable


def convolution(
    layer: Layer,
    x: Operand,
    weights: Weights,
    out: Output,
    *,
    strides: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: Quad = (0, 0, 0, 0),
    groups: int = 1,
    spread: tuple[int, int] = (1, 1),
    rounding: Rounding = Rounding.DOUBLE,
    float_product: bool = False,
) -> str:
    """``weights``: values (OC, KH, KW, IC / groups); padding t, l, b, r. The input's zero point goes into the bias.

    ``spread``: of a transposed convolution, as are negative paddings (:class:`~tilewright.jit.graph.Conv2D`).
    ``rounding``, ``float_product``: see :func:`sum_requant`.

    Raises Unsupported or NotRepresentable where the accelerator's arithmetic cannot give the oracle's integers.
    """
    weight = narrow(weights.values)
    channels, per_group = weight.shape[0], weight.shape[3]
    if per_group * groups != x.shape[3]:
        raise Unsupported(f"weights for {per_group * groups} channels on a tensor of {x.shape[3]}")
    wide = (1, *((size - 1) * step + 1 for size, step in zip(x.shape[1:3], spread, strict=True)))
    shape = (1, *spatial(wide, weight.shape[1:3], strides, dilation, padding), channels)
    rows, columns = (meeting(wide[1 + a], weight.shape[1 + a], strides[a], dilation[a], *padding[a::2]) for a in (0, 1))
    weight = np.ascontiguousarray(weight[:, rows.taps, columns.taps])
    dilation, padding = (rows.dilation, columns.dilation), (rows.before, columns.before, rows.after, columns.after)
    taps = weight.reshape(channels, -1).T
    folded = weights.bias - x.zero_point * taps.sum(axis=0, dtype=np.int64)
    requant = sum_requant(
        layer, x.scale, weights.scales, folded, *reachable(taps, folded), out, rounding=rounding,
        float_product=float_product,
    )  # fmt: skip
    fields = {
        "requant": requant,
        "strides": strides,
        "dilation": dilation,
        "padding": padding,
        "pad_value": x.zero_point,
    }
    transposed = spread != (1, 1) or min(padding) < 0
    if groups > 1 and groups == x.shape[3] == channels and not transposed:
        kernel = np.ascontiguousarray(weight[:, :, :, 0].transpose(1, 2, 0))
        return layer.emit(DepthwiseConv2D, [x.name], shape, out.quantisation, weight=kernel, **fields)
    return layer.emit(
        Conv2D, [x.name], shape, out.quantisation, weight=weight, groups=groups, spread=spread, **fields
    )  # fmt: skip


def dense(
    layer: Layer, x: Operand, weights: Weights, out: Output, rounding: Rounding = Rounding.SINGLE,
    float_product: bool = False,
) -> str:  # fmt: skip
    """A fully connected layer on every pixel: ``weights`` with values (OC, IC). The rest: see :func:`sum_requant`."""
    kernel = replace(weights, values=weights.values[:, None, None, :])
    return convolution(layer, x, kernel, out, rounding=rounding, float_product=float_product)


def narrow(weight: NDArray[np.integer]) -> NDArray[np.integer]:
    """Weights as int8, or as int16 where some lie beyond: those of uint8 files, less their zero point."""
    values = np.asarray(weight)
    if values.size == 0:
        raise Unsupported("weights without elements")
    low, high = int(values.min()), int(values.max())
    if low < -255 or high > 255:
        raise Unsupported(f"weights from {low} to {high}")
    return np.ascontiguousarray(values.astype(np.int8 if low >= -128 and high <= 127 else np.int16))


def spatial(
    shape: tuple[int, ...], kernel: tuple[int, int], strides: tuple[int, int], dilation: tuple[int, int], padding: Quad
) -> tuple[int, int]:
    """Height and width of a windowed operator's result; Unsupported where there is none."""
    size = (shape[1] + padding[0] + padding[2], shape[2] + padding[1] + padding[3])
    out = tuple((n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(size, kernel, dilation, strides, strict=True))
    if min(out) < 1:
        raise Unsupported(f"a {kernel[0]}x{kernel[1]} window on a padded image of {size[0]}x{size[1]}")
    return out[0], out[1]
