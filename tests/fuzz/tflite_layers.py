"""Operators of :class:`TfliteNet` with weights: convolutions and fully connected layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz.flatbuffer import StoredTensor
from tests.fuzz.tensors import (
    Array,
    BuildError,
    Range,
    Tensor,
    limits,
    pair,
    products,
    random_weights,
    same_output,
    weight_scales,
    window_output,
)
from tests.fuzz.tflite_base import TfliteBase

Size = int | tuple[int, int]
PADDINGS = {"same": 0, "valid": 1}


class Layers(TfliteBase):
    """Convolution, depthwise and transposed convolution, fully connected; ``layer``: what :meth:`_layer` takes."""

    def conv(
        self, x: Tensor, channels: int, kernel: Size = 3, stride: Size = 1, padding: str = "same", dilation: Size = 1,
        groups: int = 1, **layer: Any,
    ) -> Tensor:  # fmt: skip
        """CONV_2D; ``padding`` is "same" or "valid"."""
        shape = self._window_shape("CONV_2D", x, channels, kernel, stride, dilation, padding)
        depth = x.shape[3]
        if depth % groups or channels % groups:
            raise BuildError(f"CONV_2D: {depth} to {channels} channels in {groups} groups")
        weight = (channels, *pair(kernel), depth // groups)
        fields = self._window(stride, padding, dilation)
        return self._layer("CONV_2D", "Conv2DOptions", x, shape, weight, 0, fields, least=4, **layer)

    def depthwise(
        self, x: Tensor, multiplier: int = 1, kernel: Size = 3, stride: Size = 1, padding: str = "same",
        dilation: Size = 1, **layer: Any,
    ) -> Tensor:  # fmt: skip
        """DEPTHWISE_CONV_2D with ``multiplier`` output channels for each input channel."""
        name = "DEPTHWISE_CONV_2D"
        self._need_rank(name, x, 4)
        channels = x.shape[3] * multiplier
        shape = self._window_shape(name, x, channels, kernel, stride, dilation, padding)
        weight, fields = (1, *pair(kernel), channels), self._window(stride, padding, dilation)
        fields["depthMultiplier"] = multiplier
        return self._layer(name, "DepthwiseConv2DOptions", x, shape, weight, 3, fields, least=4, **layer)

    def transpose_conv(
        self, x: Tensor, channels: int, kernel: Size = 3, stride: Size = 2, padding: str = "same", more: Size = 0,
        **layer: Any,
    ) -> Tensor:  # fmt: skip
        """TRANSPOSE_CONV: "same" gives size * stride, "valid" (size - 1) * stride + kernel, and ``more`` pixels as far
        as a convolution back gives the same size."""
        self._need_rank("TRANSPOSE_CONV", x, 4)
        kernels, strides = pair(kernel), pair(stride)
        sizes = []
        for n, k, s, extra in zip(x.shape[1:3], kernels, strides, pair(more), strict=True):
            size = n * s if padding == "same" else (n - 1) * s + max(k, s)
            least = (n - 1) * s + (1 if padding == "same" else k)
            sizes.append(min(max(size + extra, least), least + s - 1))
        shape = (x.shape[0], *sizes, channels)
        weight, fields = (channels, *kernels, x.shape[3]), self._window(stride, padding)
        return self._layer("TRANSPOSE_CONV", "TransposeConvOptions", x, shape, weight, 0, fields, **layer)

    def fully_connected(
        self, x: Tensor, channels: int, flatten: bool = True, keep_num_dims: bool = False, per_channel: bool = False,
        **layer: Any,
    ) -> Tensor:  # fmt: skip
        """FULLY_CONNECTED over all axes but the first (``flatten``), else over the last one."""
        depth = math.prod(x.shape[1:]) if flatten else x.shape[-1]
        shape = (*x.shape[:-1], channels) if keep_num_dims else (x.size // depth, channels)
        if keep_num_dims and depth != x.shape[-1]:
            raise BuildError(f"FULLY_CONNECTED: {x.shape} cannot keep its axes over {depth} values")
        fields, layer = {"keepNumDims": keep_num_dims}, layer | {"per_channel": per_channel}
        return self._layer(
            "FULLY_CONNECTED", "FullyConnectedOptions", x, shape, (channels, depth), 0, fields, least=2, **layer
        )

    def _layer(
        self, name: str, options: str, x: Tensor, shape: tuple[int, ...], weight: tuple[int, ...], axis: int,
        fields: dict[str, Any], *, activation: str = "none", per_channel: bool = True, bias: bool = True,
        weight_zero_point: int | None = None, least: int = 8, **out: Any,
    ) -> Tensor:  # fmt: skip
        """A layer of this ``shape``, with weights of another whose channels lie along ``axis``.

        ``per_channel`` weights have one scale per output channel (int8 only); ``weight_zero_point`` is for uint8
        weights. ``bias`` False leaves the operand out. ``least``: bits of the narrowest weights of the kernel.
        """
        code, limit = self._fused(activation)
        w, b, values = self._weights(x, weight, axis, per_channel, bias, weight_zero_point, limit, least)
        y = self._output(shape, values, x.dtype, **out)
        turned = name == "TRANSPOSE_CONV"
        self.macs += (x.size if turned else y.size) * math.prod(weight) // (weight[3] if turned else weight[axis])
        operands: list[Tensor | int] = [x, w, b] if bias or name == "FULLY_CONNECTED" else [x, w]
        if turned:
            operands = [self.constant(np.array(shape, np.int32)), w, x, *operands[2:]]
        self.op(name, operands, [y], options, fusedActivationFunction=code, **fields)
        return y

    @staticmethod
    def _window(stride: Size, padding: str, dilation: Size | None = None) -> dict[str, Any]:
        """Fields of the options of a layer with a window."""
        height, width = pair(stride)
        fields = {"padding": PADDINGS[padding], "strideW": width, "strideH": height}
        if dilation is not None:
            fields["dilationHFactor"], fields["dilationWFactor"] = pair(dilation)
        return fields

    def batch_matmul(
        self, a: Tensor, b: Tensor, turned_a: bool = False, turned_b: bool = False, **out: Any
    ) -> Tensor:  # fmt: skip
        """BATCH_MATMUL of two int8 tensors; ``b`` may be one matrix for all of ``a``."""
        if a.dtype != "int8":
            raise BuildError(f"BATCH_MATMUL: LiteRT has no kernel for {a.dtype}")
        left, right = (
            (*x.shape[:-2], x.shape[-1], x.shape[-2]) if turned else x.shape
            for x, turned in ((a, turned_a), (b, turned_b))
        )
        one = len(right) == 2 <= len(left)
        if min(len(left), len(right)) < 2 or not (one or left[:-2] == right[:-2]) or left[-1] != right[-2]:
            raise BuildError(f"BATCH_MATMUL: {left} by {right}")
        depth = left[-1]
        values = Range(depth * a.mean * b.mean, math.sqrt(depth) * a.rms * b.rms)
        y = self._output((*left[:-1], right[-1]), values, a.dtype, **out)
        self.macs += math.prod(left) * right[-1]
        self.op("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions", adjX=turned_a, adjY=turned_b)
        return y

    def _window_shape(
        self, name: str, x: Tensor, channels: int, kernel: Size, stride: Size, dilation: Size, padding: str
    ) -> tuple[int, ...]:
        self._need_rank(name, x, 4)
        sizes = [
            same_output(n, s) if padding == "same" else window_output(name, n, k, s, d)
            for n, k, s, d in zip(x.shape[1:3], pair(kernel), pair(stride), pair(dilation), strict=True)
        ]
        return (x.shape[0], sizes[0], sizes[1], channels)

    def _weights(
        self,
        x: Tensor,
        shape: tuple[int, ...],
        axis: int,
        per_channel: bool,
        bias: bool,
        weight_zero_point: int | None,
        limit: tuple[float, float],
        least: int,
    ) -> tuple[int, int, Range]:
        """Constants of a layer, and the range of its sums; the bias has a scale of its own per channel."""
        self._need_quantised("a layer", x)
        channels = shape[axis]
        low, high = limits(x.dtype)
        zero = weight_zero_point if weight_zero_point is not None else (0 if x.dtype == "int8" else 128)
        if x.dtype == "int8":
            zero = 0
        dtype = f"int{max(self.weight_bits, least)}" if x.dtype == "int8" else x.dtype
        stored = random_weights(self.rng, shape, dtype, min(high, max(low, zero)))
        rows = np.moveaxis(stored, axis, 0).reshape(channels, -1).astype(np.float64) - zero
        one_scale = not per_channel or x.dtype == "uint8"
        scales = weight_scales(self.rng, rows, rows.shape[1], x, 1 if one_scale else channels, self.power_of_two)
        real = rows * scales[:, None]
        w = self._store(
            StoredTensor(
                f"w{len(self.tensors)}", shape, dtype, scales, np.array([zero]), 0 if one_scale else axis, stored
            )
        )
        offsets: Array = np.zeros(channels)
        b = -1
        if bias:
            products_scale = (np.float32(x.scale or 1.0) * scales).astype(np.float32)
            drawn = np.rint(self.rng.normal(0, 0.7, channels) / products_scale.astype(np.float64))
            values = np.clip(drawn, -(1 << 28), 1 << 28).astype(np.int32)
            offsets = values * products_scale.astype(np.float64)
            b = self._bias(values, products_scale)
        found = products(x, real.sum(axis=1), np.square(real).sum(axis=1), offsets, limit)
        return w, b, found
