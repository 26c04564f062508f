"""Weights and biases of the prepared graph as the shared lowering takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Reshape
from tilewright.jit.layers.builder import Layer, Operand, Output, Quantisation, Weights
from tilewright.jit.layers.weighted import convolution, dense
from tilewright.jit.source.onnx.prepared import Node
from tilewright.jit.source.onnx.site import Site, window_padding, window_steps

_TYPES = ("int8", "uint8", "int4", "uint4", "int2", "uint2")


def centred(values: NDArray[Any], zero_point: NDArray[Any], axis: int) -> NDArray[np.int16]:
    """Weights of 8 bits or fewer less their zero points, of which there is one or one per index of ``axis``."""
    if values.dtype.name not in _TYPES or zero_point.dtype != values.dtype:
        raise Unsupported(f"weights of type {values.dtype.name} with zero points of type {zero_point.dtype.name}")
    along = [1] * values.ndim
    if zero_point.size > 1:
        if zero_point.size != values.shape[axis]:
            raise Unsupported(f"{zero_point.size} weight zero points for {values.shape[axis]} channels")
        along[axis] = zero_point.size
    return values.astype(np.int16) - zero_point.astype(np.int16).reshape(along)


def channel_scales(scale: NDArray[Any], channels: int) -> NDArray[np.float64]:
    """(channels,)."""
    if scale.ndim > 1:
        raise Unsupported(f"weights quantised in blocks, with scales of shape {scale.shape}")
    if scale.dtype != np.float32 or scale.size not in (1, channels):
        raise Unsupported(f"{scale.size} weight scales of type {scale.dtype.name} for {channels} channels")
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise Unsupported("weight scales that are not positive numbers")
    return np.broadcast_to(scale.reshape(-1).astype(np.float64), (channels,))


def integer_bias(values: NDArray[Any] | None, channels: int) -> NDArray[np.int64]:
    """(channels,); zeros where there is none."""
    return np.zeros(channels, np.int64) if values is None else by_channel(values, channels, np.int32).astype(np.int64)


def by_channel(values: NDArray[Any], channels: int, dtype: type[np.generic]) -> NDArray[Any]:
    """(channels,) of a bias of that type, whose last axis is that of the channels: Gemm takes others too."""
    if values.dtype != dtype or not (values.size == 1 or values.shape[-1:] == (channels,) == (values.size,)):
        raise Unsupported(f"a bias of {values.dtype.name}{values.shape} for {channels} channels")
    return np.broadcast_to(values.reshape(-1), (channels,))


def convolve(
    layer: Layer,
    node: Node,
    x: Operand,
    weights: Weights,
    out: Output,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> str:
    """``weights`` as in the file, (OC, IC / groups, spatial axes); ``shapes``: of input and result, axes as there."""
    weight = weights.values
    kernel, strides, dilation = window_steps(node, weight.shape[2:])
    stated = tuple(node.attribute("kernel_shape", weight.shape[2:]))
    if stated != weight.shape[2:]:
        raise Unsupported(f"kernel_shape {stated} with weights of shape {weight.shape}")
    padding = window_padding(node, *shapes, weight.shape[2:])
    ordered = weight.reshape(*weight.shape[:2], *kernel).transpose(0, 2, 3, 1)
    return convolution(
        layer, x, replace(weights, values=ordered), out, strides=strides, dilation=dilation, padding=padding,
        groups=int(node.attribute("group", 1)),
    )  # fmt: skip


def convolve_transposed(
    layer: Layer,
    node: Node,
    x: Operand,
    weights: Weights,
    out: Output,
    shape: tuple[int, ...],
) -> str:
    """``weights`` (OC, IC / groups, spatial axes) over the image spread by the strides; ``shape``: the result's, with
    its axes as in the file."""
    weight = weights.values
    kernel, strides, dilation = window_steps(node, weight.shape[2:])
    rank = len(weight.shape) - 2
    pads = list(node.attribute("pads", [0] * 2 * rank))
    if (node.attribute("auto_pad", "NOTSET") or "NOTSET") != "NOTSET" or node.attribute("output_shape"):
        raise Unsupported("a transposed convolution whose padding follows from the result's shape")
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    before = [r - p for r, p in zip(reach, [0] * (2 - rank) + pads[:rank], strict=True)]
    sizes = (*x.shape[1 : 3 - rank], *shape[2:])  # of one axis, the rows are signals
    after = [
        o + r - b - (n - 1) * s - 1 for o, r, b, n, s in zip(sizes, reach, before, x.shape[1:3], strides, strict=True)
    ]
    ordered = weight.reshape(*weight.shape[:2], *kernel)[:, :, ::-1, ::-1].transpose(0, 2, 3, 1)
    return convolution(
        layer, x, replace(weights, values=ordered), out, dilation=dilation, groups=int(node.attribute("group", 1)),
        padding=(before[0], before[1], after[0], after[1]), spread=strides,
    )  # fmt: skip


def fully_connect(site: Site, key: object, numbers: Quantisation, weights: Weights, out: Output) -> str:
    """``weights`` (OC, IC) on the rows of ``key``; their columns are permuted where that is an image laid flat.

    The accelerator lays images out with the channels last, the file with the channels first. Raises Unsupported where
    others hold the result as an image.
    """
    values, weight = site.values, weights.values
    require_rows(site)
    x = None
    if values.is_pending(key) and values.specs[values.reshaped[key]].order is not None:
        image, places = values.chip(values.reshaped[key]), values.own_places(values.reshaped[key]).reshape(-1)
        if weight.shape[1] == places.size:
            flat = (1, 1, 1, places.size)
            weight = weight[:, np.argsort(places)]
            name = site.builder.append(Reshape, f"flat_{image.name}", [image.name], flat, like=numbers, shape=flat)
            x = Operand(name, flat, numbers)
    if x is None:
        x = replace(values.stack(key), quantisation=numbers)
    if x.shape[3] != weight.shape[1]:
        raise Unsupported(f"weights for {weight.shape[1]} inputs on a tensor of {x.shape[3]}")
    return dense(site, x, replace(weights, values=weight), out)


def require_rows(site: Site) -> None:
    """Raises Unsupported where the last axis of the node's result is not that of a row, to those beside it."""
    result = site.node.outputs[0]
    if not site.values.in_order(result):
        raise Unsupported(
            f"a product of matrices of shape {site.shape(result)} that is an image to the layers beside it"
        )
