"""ConvInteger, MatMulInteger and a QGemm to float32: int32 sums, which float32 nodes scale and a QuantizeLinear makes
8-bit again.

Each of those nodes rounds once. All of them never decrease, so together they are a staircase of the sum, which the
accelerator's output stage has to have the thresholds of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Output, Quantisation, Weights
from tilewright.jit.numbers.scales import LEAST_FLOAT32
from tilewright.jit.source.onnx.site import Site, quantisation
from tilewright.jit.source.onnx.weights import centred, channel_scales, convolve, fully_connect, integer_bias

#: nodes that may follow the sum ahead of QuantizeLinear
STEPS = ("Cast", "Mul", "Add")
_FLOAT = 1  #: ONNX's number of float32
_LARGEST = 2.0**95  #: scale with which no int32 sum becomes an infinity
_MOST = 1 << 24  #: largest bias in units of the sum: float32 rounds it to one of them


@dataclass(frozen=True)
class Sums:
    """What ONNX Runtime makes of a layer's int32 sums; ``steps``: (Mul or Add, float32 by channel) in order.

    ``lower``: (scales, bias in whole units of the sum, output) -> tensor on the accelerator.
    """

    site: Site
    channels: int
    axis: int  #: of the channels, counted from the end
    lower: Callable[[NDArray[np.float64], NDArray[np.int64], Output], str]
    is_float: bool = False
    steps: tuple[tuple[str, NDArray[np.float32]], ...] = ()

    def finish(self, out: Output) -> str:
        """The layer, its result quantised to ``out``. Raises Unsupported where the constants have no such form."""
        scale, offset = np.ones(self.channels), np.zeros(self.channels)
        for kind, value in self.steps:
            if kind == "Mul":
                scale, offset = scale * value, offset * value
            else:
                offset = offset + value
            if not ((scale >= LEAST_FLOAT32) & (scale <= _LARGEST)).all():
                raise Unsupported("sums that are scaled by something else than positive numbers that float32 holds")
        bias = np.rint(offset / scale)
        if not (np.abs(bias) <= _MOST).all():
            raise Unsupported("a bias that is large beside the unit of the sum")
        whole = bias.astype(np.int64)
        return self.lower(scale, whole, replace(out, stage=self._stage(whole, np.float32(out.quantisation.scale))))

    def _stage(self, bias: NDArray[np.int64], unit: np.float32) -> Callable[..., NDArray[np.int64]]:
        def stage(acc: NDArray[np.int64], _scale: object, zero_point: int, lo: int, hi: int) -> NDArray[np.int64]:
            value = (acc - bias[:, None]).astype(np.float32)
            for kind, operand in self.steps:
                value = value * operand[:, None] if kind == "Mul" else value + operand[:, None]
            return np.rint(np.clip(value / unit, lo - zero_point, hi - zero_point)).astype(np.int64) + zero_point

        return stage


def conv_integer(site: Site) -> Sums:
    """ConvInteger(x, w, zx, zw)."""
    name, result = site.input(0), site.node.outputs[0]
    site.require_image(name, result)
    weight, numbers = _weight(site, 0), _numbers(site)
    shapes = site.shape(name), site.shape(result)

    def lower(scales: NDArray[np.float64], bias: NDArray[np.int64], out: Output) -> str:
        x = replace(site.values.chip(name), quantisation=numbers)
        return convolve(site, site.node, x, Weights(weight, scales, bias), out, shapes)

    return Sums(site, weight.shape[0], len(shapes[1]) - 1, lower)


def matmul_integer(site: Site) -> Sums:
    """MatMulInteger(a, b, za, zb) with constant b."""
    name, numbers = site.input(0), _numbers(site)
    if site.constant(1).ndim != 2:
        raise Unsupported(f"weights of shape {site.constant(1).shape}")
    weight = _weight(site, 1).T

    def lower(scales: NDArray[np.float64], bias: NDArray[np.int64], out: Output) -> str:
        return fully_connect(site, name, numbers, Weights(weight, scales, bias), out)

    return Sums(site, weight.shape[0], 1, lower)


def float_gemm(site: Site) -> Sums:
    """QGemm(a, sa, za, b, sb, zb, c) to float32: ``float32(acc + c) * (sa * sb)``."""
    node, name, values = site.node, site.input(0), site.constant(3)
    if node.attribute("transA", 0) or node.attribute("alpha", 1.0) != 1.0:
        raise Unsupported("QGemm with transA or alpha")
    if values.ndim != 2:
        raise Unsupported(f"weights of shape {values.shape}")
    axis = 0 if node.attribute("transB", 0) else 1
    weight = np.moveaxis(centred(values, site.constant(5), axis), axis, 0)
    given = integer_bias(site.constant(6) if site.has(6) else None, len(weight))
    scale = np.float32(site.quantisation(1, 2, site.prepared.types[name][0]).scale)
    factors = scale * channel_scales(site.constant(4), len(weight)).astype(np.float32)

    def lower(scales: NDArray[np.float64], bias: NDArray[np.int64], out: Output) -> str:
        return fully_connect(site, name, _numbers(site), Weights(weight, scales, given + bias), out)

    return Sums(site, len(weight), 1, lower, is_float=True, steps=(("Mul", factors),))


def step(sums: Sums, site: Site, other: str) -> Sums:
    """What a node of ``STEPS`` makes of sums; ``other``: its second operand, "" for a Cast."""
    if site.node.kind == "Cast":
        if sums.is_float or site.node.attribute("to") != _FLOAT:
            raise Unsupported("a Cast of sums to something else than float32")
        return replace(sums, is_float=True)
    if not sums.is_float:
        raise Unsupported(f"{site.kind} of int32 sums")
    value = site.prepared.array(other)
    if value.dtype != np.float32:
        raise Unsupported(f"{site.kind} with a constant of type {value.dtype.name}")
    return replace(sums, steps=(*sums.steps, (site.node.kind, _by_channel(value, sums))))


def _by_channel(value: NDArray[Any], sums: Sums) -> NDArray[np.float32]:
    """(channels,) of a constant that broadcasts along the channels alone."""
    if value.size == 1:
        return np.full(sums.channels, value.reshape(()), np.float32)
    axis = value.ndim - sums.axis
    if axis < 0 or value.shape[axis] != sums.channels or value.size != sums.channels:
        raise Unsupported(f"sums of {sums.channels} channels with a constant of shape {value.shape}")
    return np.asarray(value.reshape(-1), np.float32)


def _weight(site: Site, axis: int) -> NDArray[np.int16]:
    values = site.constant(1)
    weight = centred(values, site.constant(3) if site.has(3) else np.zeros((), values.dtype), axis)
    others = tuple(a for a in range(weight.ndim) if a != axis)
    if int(np.abs(weight.astype(np.int64)).sum(axis=others).max(initial=0)) * 255 >= 1 << 31:
        raise Unsupported("a sum that can leave int32")
    return weight


def _numbers(site: Site) -> Quantisation:
    """Of the data: a zero point, and a unit of one, since the scale is in the float32 nodes."""
    name = site.input(0)
    if name in site.prepared.constants:
        raise Unsupported(f"{site.kind} of a constant")
    dtype = site.prepared.types[name][0]
    return quantisation(np.ones(1, np.float32), site.constant(2) if site.has(2) else np.zeros((), dtype), dtype)
