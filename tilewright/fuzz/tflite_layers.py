"""Operators of :class:`TfliteNet` with weights: convolutions and fully connected layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.fuzz.flatbuffer import StoredTensor
from tilewright.fuzz.tensors import (
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
from tilewright.fuzz.tflite_base import TfliteBase

Size = int | tuple[int, int]
PADDINGS = {"same": 0, "valid": 1}


class Layers(TfliteBase):
    """Convolution, depthwise and transposed convolution, fully connected.

    ``per_channel`` weights have one scale per output channel (int8 only); ``weight_zero_point`` is for uint8 weights.
    ``bias`` False leaves the operand out.
    """

    def conv(
        self,
        x: Tensor,
        channels: int,
        kernel: Size = 3,
        stride: Size = 1,
        padding: str = "same",
        activation: str = "none",
        dilation: Size = 1,
        groups: int = 1,
        per_channel: bool = True,
        bias: bool = True,
        weight_zero_point: int | None = None,
        **out: Any,
    ) -> Tensor:
        """CONV_2D; ``padding`` is "same" or "valid"."""
        shape = self._window_shape("CONV_2D", x, channels, kernel, stride, dilation, padding)
        depth = x.shape[3]
        if depth % groups or channels % groups:
            raise BuildError(f"CONV_2D: {depth} to {channels} channels in {groups} groups")
        (kh, kw), (sh, sw), (dh, dw) = pair(kernel), pair(stride), pair(dilation)
        weight_shape = (channels, kh, kw, depth // groups)
        code, limit = self._fused(activation)
        w, b, values = self._weights(x, weight_shape, 0, per_channel, bias, weight_zero_point, limit, least=4)
        y = self._output(shape, values, x.dtype, **out)
        self.macs += y.size * math.prod(weight_shape[1:])
        self.op(
            "CONV_2D", [x, w, b] if bias else [x, w], [y], "Conv2DOptions", padding=PADDINGS[padding], strideW=sw,
            strideH=sh, fusedActivationFunction=code, dilationWFactor=dw, dilationHFactor=dh,
        )  # fmt: skip
        return y

    def depthwise(
        self,
        x: Tensor,
        multiplier: int = 1,
        kernel: Size = 3,
        stride: Size = 1,
        padding: str = "same",
        activation: str = "none",
        dilation: Size = 1,
        per_channel: bool = True,
        bias: bool = True,
        weight_zero_point: int | None = None,
        **out: Any,
    ) -> Tensor:
        """DEPTHWISE_CONV_2D with ``multiplier`` output channels for each input channel."""
        self._rank("DEPTHWISE_CONV_2D", x, 4)
        channels = x.shape[3] * multiplier
        shape = self._window_shape("DEPTHWISE_CONV_2D", x, channels, kernel, stride, dilation, padding)
        (kh, kw), (sh, sw), (dh, dw) = pair(kernel), pair(stride), pair(dilation)
        code, limit = self._fused(activation)
        w, b, values = self._weights(x, (1, kh, kw, channels), 3, per_channel, bias, weight_zero_point, limit, least=4)
        y = self._output(shape, values, x.dtype, **out)
        self.macs += y.size * kh * kw
        self.op(
            "DEPTHWISE_CONV_2D", [x, w, b] if bias else [x, w], [y], "DepthwiseConv2DOptions",
            padding=PADDINGS[padding], strideW=sw, strideH=sh, depthMultiplier=multiplier,
            fusedActivationFunction=code, dilationWFactor=dw, dilationHFactor=dh,
        )  # fmt: skip
        return y

    def transpose_conv(
        self,
        x: Tensor,
        channels: int,
        kernel: Size = 3,
        stride: Size = 2,
        padding: str = "same",
        activation: str = "none",
        per_channel: bool = True,
        bias: bool = True,
        weight_zero_point: int | None = None,
        **out: Any,
    ) -> Tensor:
        """TRANSPOSE_CONV: "same" gives size * stride, "valid" (size - 1) * stride + kernel."""
        self._rank("TRANSPOSE_CONV", x, 4)
        kernels, strides = pair(kernel), pair(stride)
        sizes = [
            n * s if padding == "same" else (n - 1) * s + max(k, s)
            for n, k, s in zip(x.shape[1:3], kernels, strides, strict=True)
        ]
        shape = (1, sizes[0], sizes[1], channels)
        weight_shape = (channels, *kernels, x.shape[3])
        code, limit = self._fused(activation)
        w, b, values = self._weights(x, weight_shape, 0, per_channel, bias, weight_zero_point, limit)
        y = self._output(shape, values, x.dtype, **out)
        self.macs += x.size * channels * math.prod(kernels)
        operands: list[Tensor | int] = [self.constant(np.array(shape, np.int32)), w, x, *([b] if bias else [])]
        self.op(
            "TRANSPOSE_CONV", operands, [y], "TransposeConvOptions", padding=PADDINGS[padding], strideW=strides[1],
            strideH=strides[0], fusedActivationFunction=code,
        )  # fmt: skip
        return y

    def fully_connected(
        self,
        x: Tensor,
        channels: int,
        activation: str = "none",
        flatten: bool = True,
        keep_num_dims: bool = False,
        per_channel: bool = False,
        bias: bool = True,
        weight_zero_point: int | None = None,
        **out: Any,
    ) -> Tensor:
        """FULLY_CONNECTED over all axes but the first (``flatten``), else over the last one."""
        depth = math.prod(x.shape[1:]) if flatten else x.shape[-1]
        rows = x.size // depth
        shape = (*x.shape[:-1], channels) if keep_num_dims else (rows, channels)
        if keep_num_dims and depth != x.shape[-1]:
            raise BuildError(f"FULLY_CONNECTED: {x.shape} cannot keep its axes over {depth} values")
        code, limit = self._fused(activation)
        w, b, values = self._weights(x, (channels, depth), 0, per_channel, bias, weight_zero_point, limit, least=2)
        y = self._output(shape, values, x.dtype, **out)
        self.macs += rows * depth * channels
        self.op(
            "FULLY_CONNECTED", [x, w, b if bias else -1], [y], "FullyConnectedOptions", fusedActivationFunction=code,
            keepNumDims=keep_num_dims,
        )  # fmt: skip
        return y

    def batch_matmul(
        self, a: Tensor, b: Tensor, turned_a: bool = False, turned_b: bool = False, **out: Any
    ) -> Tensor:  # fmt: skip
        """BATCH_MATMUL of two tensors of the network, which must be int8."""
        if a.dtype != "int8":
            raise BuildError(f"BATCH_MATMUL: LiteRT has no kernel for {a.dtype}")
        left, right = (
            (*x.shape[:-2], x.shape[-1], x.shape[-2]) if turned else x.shape
            for x, turned in ((a, turned_a), (b, turned_b))
        )
        if len(left) < 2 or left[:-2] != right[:-2] or left[-1] != right[-2]:
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
        self._rank(name, x, 4)
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
        least: int = 8,
    ) -> tuple[int, int, Range]:
        """Constants of a layer, and the range of its sums; the bias has a scale of its own per channel.

        ``least``: bits of the narrowest weights that the kernel takes.
        """
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
