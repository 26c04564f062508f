"""Operators of :class:`OnnxNet` with weights: convolutions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.onnx_base import CONTRIB, OnnxBase
from tests.fuzz.tensors import (
    ACTIVATION_RANGES,
    Array,
    BuildError,
    Range,
    Tensor,
    pair,
    products,
    random_weights,
    weight_scales,
)

Size = int | tuple[int, int]
Padding = str | Sequence[int]  #: "same", "valid", "SAME_UPPER", "SAME_LOWER", or top, left, bottom, right


class Layers(OnnxBase):
    """Conv, ConvTranspose, Gemm and MatMul; ``layer``: what :meth:`_weighted` takes."""

    def conv(
        self, x: Tensor, channels: int, kernel: Size = 3, stride: Size = 1, padding: Padding = "same",
        dilation: Size = 1, groups: int = 1, **layer: Any,
    ) -> Tensor:  # fmt: skip
        """Conv, with a Relu or Clip behind it where ``activation`` says so."""
        self._need_rank("Conv", x, 4)
        depth = x.shape[1]
        if depth % groups or channels % groups:
            raise BuildError(f"Conv: {depth} to {channels} channels in {groups} groups")
        kernels, strides, dilations = pair(kernel), pair(stride), pair(dilation)
        sizes, attributes = _windows(x.shape[2:], kernels, strides, dilations, padding)
        shape = (x.shape[0], channels, *sizes)
        attributes |= {"kernel_shape": kernels, "strides": strides, "dilations": dilations, "group": groups}
        weight = (channels, depth // groups, *kernels)
        self.macs += math.prod(shape) * math.prod(weight[1:])
        return self._weighted("Conv", x, shape, weight, 0, attributes, **layer)

    def depthwise(self, x: Tensor, multiplier: int = 1, **layer: Any) -> Tensor:
        """Conv with one group per channel."""
        return self.conv(x, x.shape[1] * multiplier, groups=x.shape[1], **layer)

    def conv_transpose(
        self, x: Tensor, channels: int, kernel: Size = 2, stride: Size = 2, pads: Sequence[int] = (0, 0, 0, 0),
        output_padding: Size = 0, groups: int = 1, per_channel: bool = False, **layer: Any,
    ) -> Tensor:  # fmt: skip
        """ConvTranspose; weights are (in, out / groups, height, width), scales along axis 1, one group's for all."""
        self._need_rank("ConvTranspose", x, 4)
        depth = x.shape[1]
        if depth % groups or channels % groups:
            raise BuildError(f"ConvTranspose: {depth} to {channels} channels in {groups} groups")
        kernels, strides, extra = pair(kernel), pair(stride), pair(output_padding)
        sizes = [
            (n - 1) * s + k - pads[a] - pads[a + 2] + e
            for a, (n, k, s, e) in enumerate(zip(x.shape[2:], kernels, strides, extra, strict=True))
        ]
        if any(e >= s for e, s in zip(extra, strides, strict=True)):
            raise BuildError(f"ConvTranspose: output padding {extra} with strides {strides}")
        self.macs += x.size * (channels // groups) * math.prod(kernels)
        attributes = {
            "kernel_shape": kernels, "strides": strides, "pads": list(pads), "output_padding": extra, "group": groups,
        }  # fmt: skip
        shape, weight = (x.shape[0], channels, *sizes), (depth, channels // groups, *kernels)
        layer |= {"per_channel": per_channel, "groups": groups}
        return self._weighted("ConvTranspose", x, shape, weight, 1, attributes, **layer)

    def gemm(
        self, x: Tensor, channels: int, trans_b: bool = True, per_channel: bool = False, **layer: Any
    ) -> Tensor:  # fmt: skip
        """Gemm on (rows, depth)."""
        self._need_rank("Gemm", x, 2)
        rows, depth = x.shape
        weight, axis = ((channels, depth), 0) if trans_b else ((depth, channels), 1)
        self.macs += rows * depth * channels
        attributes = {"transB": int(trans_b)}
        return self._weighted("Gemm", x, (rows, channels), weight, axis, attributes, per_channel=per_channel, **layer)

    def matmul(
        self, x: Tensor, channels: int, per_channel: bool = False, bias: str = "none", form: str = "qdq", **layer: Any
    ) -> Tensor:
        """MatMul with a constant over the last axis, with an Add behind it unless ``bias`` is "none"."""
        self.macs += x.size * channels
        layer |= {"per_channel": per_channel, "bias": bias if form == "qdq" else "none", "form": form}
        shape, weight = (*x.shape[:-1], channels), (x.shape[-1], channels)
        return self._weighted("MatMul", x, shape, weight, 1, {}, **layer)

    def matmul_of(self, a: Tensor, b: Tensor, **out: Any) -> Tensor:
        """MatMul of two tensors of the network."""
        if len(a.shape) != len(b.shape) or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
            raise BuildError(f"MatMul: {a.shape} by {b.shape}")
        depth = a.shape[-1]
        values = Range(depth * a.mean * b.mean, math.sqrt(depth) * a.rms * b.rms)
        self.macs += a.size * b.shape[-1]
        name = self.node("MatMul", [self.read(a), self.read(b)])
        return self.finish(name, (*a.shape[:-1], b.shape[-1]), values, **out)

    # -- shared ------------------------------------------------------------------------------------

    def _weighted(
        self, kind: str, x: Tensor, shape: tuple[int, ...], weight: tuple[int, ...], axis: int,
        attributes: dict[str, Any], *, activation: str = "none", per_channel: bool = True, weight_dtype: str = "int8",
        weight_zero_point: int = 0, bias: str = "exact", form: str = "qdq", groups: int = 1, **out: Any,
    ) -> Tensor:  # fmt: skip
        """A layer of this ``shape``, with weights of another whose channels lie along ``axis``, in QDQ or in operator
        form (``form="qlinear"``).

        ``bias``: "exact" (int32 with scale sx*sw), "other" (int32 with another scale), "float", or "none".
        """
        integer = form == "qlinear"
        bias = "exact" if integer and bias != "none" else bias
        w, b, values = self._constants(
            x, weight, axis, per_channel, weight_dtype, weight_zero_point, bias, groups, not integer
        )
        if integer:
            scale, zero, numbers = self.chosen(values, **out)
            name = self.node(f"QLinear{kind}", [*self.numbers(x), *w, *numbers, *b], **attributes)
            return self._dequantised(name, shape, self.dtype, values, scale, zero)
        apart = kind == "MatMul"  # which takes no bias
        name = self.node(kind, [self.read(x), *w, *([] if apart else b)], **attributes)
        if apart and b:
            name = self.node("Add", [name, *b])
        return self._activated(name, shape, values, activation, **out)

    def _activated(self, name: str, shape: tuple[int, ...], values: Range, activation: str, **out: Any) -> Tensor:
        low, high = ACTIVATION_RANGES[activation]
        if activation == "relu":
            name = self.node("Relu", [name])
        elif activation != "none":
            name = self.node("Clip", [name, self.constant(np.float32(low)), self.constant(np.float32(high))])
        return self.finish(name, shape, Range(values.mean, values.std, low, high), **out)

    def _constants(
        self,
        x: Tensor,
        shape: tuple[int, ...],
        axis: int,
        per_channel: bool,
        dtype: str,
        zero_point: int,
        bias: str,
        groups: int,
        dequantise: bool,
    ) -> tuple[list[str], list[str], Range]:
        """Names of weight and bias, and the range of the sums; channels lie along ``axis`` of the weight."""
        if dequantise is False and x.scale is None:
            raise BuildError("a QLinear operator: its input is not quantised")
        channels = shape[axis]
        if self.narrows(dequantise):
            dtype, zero_point = dtype.replace("8", "4"), zero_point >> 4
        data = random_weights(self.rng, shape, dtype, zero_point)
        rows = np.moveaxis(data, axis, 0).reshape(channels, -1).astype(np.float64) - zero_point
        taps = rows.shape[1] // groups
        scales = weight_scales(self.rng, rows, taps, x, channels if per_channel else 1, self.power_of_two)
        real = rows * scales[:, None]
        w = self._weight(data, scales, zero_point, axis if per_channel else None, dequantise)
        offsets: Array = np.zeros(channels * groups)
        b: list[str] = []
        if bias != "none":
            each = scales if scales.size == 1 else np.tile(scales, groups)
            b, offsets = self._bias(x, each, channels * groups, bias, dequantise)
        sums, squares = real.sum(axis=1) / groups, np.square(real).sum(axis=1) / groups
        return w, b, products(x, np.tile(sums, groups), np.tile(squares, groups), offsets, (-math.inf, math.inf))

    def _bias(self, x: Tensor, scales: Array, channels: int, kind: str, dequantise: bool) -> tuple[list[str], Array]:
        real = self.rng.normal(0, 0.7, channels)
        if kind == "float" or x.scale is None:
            values = real.astype(np.float32)
            return [self.constant(values)], values.astype(np.float64)
        scale = (np.float32(x.scale) * scales).astype(np.float32)
        zero = 0
        if kind == "other":
            scale = (scale * np.float32(self.rng.uniform(0.5, 2.0))).astype(np.float32)
            zero = int(self.rng.integers(-5, 6))
        limit = 1 << 28
        stored = np.clip(np.rint(real / scale.astype(np.float64)), -limit, limit).astype(np.int32) + np.int32(zero)
        name = self.constant(stored)
        if dequantise:
            one = scale.size == 1
            factors = [
                self.constant(scale.ravel()[0] if one else scale),
                self.constant(np.array(zero, np.int32) if one else np.full(scale.shape, zero, np.int32)),
            ]
            name = self.node("DequantizeLinear", [name, *factors], **({} if one else {"axis": 0}))
        return [name], (stored - zero) * scale.astype(np.float64)


def _windows(
    shape: Sequence[int], kernels: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: Padding
) -> tuple[list[int], dict[str, Any]]:
    """Sizes of a window operator's result, and the attributes that give them."""
    reaches = [(k - 1) * d + 1 for k, d in zip(kernels, dilations, strict=True)]
    if isinstance(padding, str) and padding.startswith("SAME"):
        return [-(-n // s) for n, s in zip(shape, strides, strict=True)], {"auto_pad": padding}
    if padding == "same":
        totals = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(shape, strides, reaches, strict=True)]
        pads = [t // 2 for t in totals] + [t - t // 2 for t in totals]
    else:
        pads = [0, 0, 0, 0] if padding == "valid" else [int(p) for p in padding]
    sizes = [(n + pads[a] + pads[a + 2] - reaches[a]) // strides[a] + 1 for a, n in enumerate(shape)]
    if min(sizes) < 1:
        raise BuildError(f"Conv: windows of {list(kernels)} do not fit {list(shape)} with pads {pads}")
    return sizes, {"pads": pads}


__all__ = ["CONTRIB", "Layers", "Padding", "Size"]
