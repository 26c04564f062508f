"""Rules for operators on float32 tensors: what finishes the layer once the result's quantisation is known.

Element-wise operators mean one float32 expression each, which is compared in full. Sums of products are added by ONNX
Runtime in an order of its own: such layers are lowered within a stated bound, or left to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.float_tables import float_pair_table
from tilewright.jit.frontend.builder import Operand, Output, Quantisation, Weights
from tilewright.jit.frontend.layers import elementwise, pairwise
from tilewright.jit.graph import Maximum, Minimum
from tilewright.jit.source.onnx import elements, quantised, reduce, resize
from tilewright.jit.source.onnx.prepared import Node
from tilewright.jit.source.onnx.site import Site
from tilewright.jit.source.onnx.units import is_dequantised
from tilewright.jit.source.onnx.weights import (
    centred,
    channel_scales,
    convolve,
    convolve_transposed,
    fully_connect,
    integer_bias,
)

_METHOD = "ONNX Runtime adds in float32 here, in an order of its own; exact sums on the accelerator"


class Stretch(Protocol):
    """Operands of a node that are 8-bit tensors, dequantised and nothing more; all methods raise Unsupported."""

    def key(self, site: Site, position: int) -> object: ...

    def numbers(self, site: Site, position: int) -> Quantisation: ...

    def operand(self, site: Site, position: int) -> Operand: ...


Rule = Callable[[Stretch, Site], Callable[[Output], str]]


def quantized(value: float, numbers: Quantisation) -> int:
    """A bound as int8: QuantizeLinear never decreases, so clamping ahead of it is clamping behind it."""
    if math.isinf(value):
        return -128 if value < 0 else 127
    with np.errstate(over="ignore"):  # bounds that stand for none
        steps = np.rint(np.float32(value) / np.float32(numbers.scale))
    return int(np.clip(steps + numbers.zero_point, -128, 127))


def _constant(site: Site, position: int, refusal: str) -> tuple[Node, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(DequantizeLinear, values, scale, zero point) of a constant that is quantised."""
    node = site.prepared.producers.get(site.input(position))
    if node is None or not is_dequantised(site.prepared, node) or node.inputs[0] not in site.prepared.constants:
        raise Unsupported(refusal)
    values, scale, *zero = (site.prepared.array(t) for t in node.inputs if t)
    return node, values, scale, zero[0] if zero else np.zeros((), values.dtype)


def _weights(site: Site, x: Quantisation, axis: int = 0, groups: int = 1) -> Weights:
    """The second and the third operand, for an image of ``x``.

    ``axis``: of the output channels, of which ``groups`` follow each other along the other one.
    """
    node, given, scale, zero = _constant(site, 1, "weights that are no quantised constants")
    if node.attribute("block_size", 0):
        raise Unsupported("blocked quantisation")
    if given.ndim < 2:
        raise Unsupported(f"weights of shape {given.shape}")
    if scale.size > 1 and int(node.attribute("axis", 1)) % given.ndim != axis:
        raise Unsupported("weight scales along an axis other than the output channel")
    values, scales = np.moveaxis(centred(given, zero, axis), axis, 0), channel_scales(scale, given.shape[axis])
    if groups > 1:
        if (scales != scales[0]).any():
            raise Unsupported("weight scales per channel of a transposed convolution in groups")
        each, inputs, *kernel = values.shape
        values = values.reshape(each, groups, inputs // groups, *kernel).swapaxes(0, 1)
        values, scales = values.reshape(groups * each, inputs // groups, *kernel), np.tile(scales, groups)
    return Weights(values, scales, _bias(site, x, scales))


def _bias(site: Site, x: Quantisation, scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """A dequantised bias in units of the accumulator, which its own scale must be."""
    if not site.has(2):
        return integer_bias(None, len(scales))
    _, values, scale, zero = _constant(site, 2, "a bias that is no quantised constant")
    unit = np.float32(x.scale) * scales.astype(np.float32)
    if zero.any() or scale.size not in (1, unit.size) or (scale.reshape(-1) != unit).any():
        raise Unsupported("a bias with a scale or zero point of its own")
    return integer_bias(values, len(scales))


def _conv(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    numbers = stretch.numbers(site, 0)
    name, result = site.input(0), site.node.outputs[0]
    site.require_image(name, result)
    if site.has(3):
        raise Unsupported("a convolution with a tensor added to it")
    weights = _weights(site, numbers)
    shapes = site.shape(name), site.shape(result)

    def finish(out: Output) -> str:
        tensor = convolve(site, site.node, stretch.operand(site, 0), weights, out, shapes)
        _state_products(site, numbers, weights, out)
        return tensor

    return finish


def _conv_transpose(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    numbers, groups = stretch.numbers(site, 0), int(site.node.attribute("group", 1))
    result = site.node.outputs[0]
    site.require_image(site.input(0), result)
    weights = _weights(site, numbers, 1, groups)

    def finish(out: Output) -> str:
        tensor = convolve_transposed(site, site.node, stretch.operand(site, 0), weights, out, site.shape(result))
        _state_products(site, numbers, weights, out)
        return tensor

    return finish


def _gemm(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    node = site.node
    numbers = stretch.numbers(site, 0)
    plain = node.kind == "MatMul"
    if not plain and (node.attribute("transA", 0) or node.attribute("alpha", 1.0) != 1.0):
        raise Unsupported("Gemm with transA or alpha")
    if not plain and site.has(2) and node.attribute("beta", 1.0) != 1.0:
        raise Unsupported("Gemm with beta")
    transposed = not plain and bool(node.attribute("transB", 0))
    weights = _weights(site, numbers, 0 if transposed else 1)
    if weights.values.ndim != 2:
        raise Unsupported(f"weights of shape {site.shape(site.input(1))}")

    def finish(out: Output) -> str:
        tensor = fully_connect(site, stretch.key(site, 0), numbers, weights, out)
        _state_products(site, numbers, weights, out)
        return tensor

    return finish


def _state_products(site: Site, x: Quantisation, weights: Weights, out: Output) -> None:
    """Restates the layer's exactness, which was noted as of integer sums."""
    scales, taps = weights.scales, weights.values.reshape(len(weights.scales), -1)
    reach = np.abs(taps.astype(np.int64)).sum(axis=1) * max(127 - x.zero_point, 128 + x.zero_point)
    reach = reach + np.abs(weights.bias)
    powers = all(math.frexp(float(v))[0] == 0.5 for v in (x.scale, out.quantisation.scale, *np.unique(scales)))
    if powers and reach.max() < 1 << 24:
        return  # no float32 operation rounds anything
    step = x.scale * scales / out.quantisation.scale
    _state_doubt(site, out, reach, step, taps.shape[1])


def _state_doubt(site: Site, out: Output, reach: NDArray[Any], step: NDArray[Any], terms: int) -> None:
    """Sums of ``terms`` float32 terms, of up to ``reach`` steps in all, are off by less than their roundings."""
    entry = site.builder.exactness[-1]
    slack = (terms + 4) * 2.0**-24 * reach
    near = (out.hi - out.lo) * (2 * slack + 1) / (2 * reach + 1)
    site.builder.exactness[-1] = replace(
        entry,
        exact=0,
        bound=entry.bound + 1 + int((slack * step).max()),
        worst=float(min(1.0, entry.worst + near.max())),
        method=_METHOD,
        wrong=(),
    )


def _pair(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    """Add, Sub and Mul: all pairs of values as float32 has them."""
    a, b = _operands(stretch, site)
    join = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[site.node.kind]

    def finish(out: Output) -> str:
        q = out.quantisation
        wanted = float_pair_table(join, (a.scale, b.scale, q.scale), (a.zero_point, b.zero_point, q.zero_point))
        if join is np.multiply:
            return pairwise.multiply_fitted(site, a, b, out, wanted)
        return pairwise.add_fitted(site, a, b, out, wanted, subtract=join is np.subtract)

    return finish


def _operands(stretch: Stretch, site: Site) -> tuple[Operand, Operand]:
    """Two 8-bit tensors, with axes that are each other's."""
    if len(site.node.inputs) != 2:
        raise Unsupported(f"{site.node.kind} of {len(site.node.inputs)} tensors")
    constants = [_given(site, position) for position in (0, 1)]
    keys = [given[0] if given else stretch.key(site, position) for position, given in enumerate(constants)]
    quantised.require_alike(site, *keys)
    first, second = (
        quantised.fixed(site, *given) if given else stretch.operand(site, position)
        for position, given in enumerate(constants)
    )
    return first, second


def _given(site: Site, position: int) -> tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    """Name, values, scale and zero point of an operand that is a quantised constant; None for others."""
    node = site.prepared.producers.get(site.input(position))
    if node is None or not is_dequantised(site.prepared, node) or node.inputs[0] not in site.prepared.constants:
        return None
    return node.inputs[0], *_constant(site, position, "")[1:]


def _extreme(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    """Max and Min: QuantizeLinear never decreases, so each operand is quantised first."""
    operands = _operands(stretch, site)
    kind = Maximum if site.node.kind == "Max" else Minimum

    def finish(out: Output) -> str:
        a, b = (
            Operand(elementwise.requantize(site, x, out), x.shape, out.quantisation) for x in operands
        )  # fmt: skip
        return pairwise.extreme(site, kind, a, b, out)

    return finish


def _concat(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    inputs = [stretch.operand(site, p) for p in range(len(site.node.inputs))]
    return lambda out: quantised.joined(site, site.node.inputs, inputs, out)


def _number(site: Site, position: int) -> NDArray[Any]:
    """A constant operand, dequantised where it is stored so."""
    node = site.prepared.producers.get(site.input(position))
    if node is None or not is_dequantised(site.prepared, node) or node.inputs[0] not in site.prepared.constants:
        return site.constant(position)
    values, scale, *rest = (site.prepared.array(t) for t in node.inputs if t)
    return (values.astype(np.int32) - (rest[0].astype(np.int32) if rest else 0)).astype(np.float32) * scale


def _pad(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    x, key = stretch.operand(site, 0), stretch.key(site, 0)
    fill = _number(site, 2) if site.has(2) else np.asarray(site.node.attribute("value", 0.0))
    if fill.size != 1:
        raise Unsupported("padding with several values")
    value = float(fill.reshape(()))

    def finish(out: Output) -> str:
        moved = Operand(elementwise.requantize(site, x, out), x.shape, out.quantisation)
        return elements.padded(site, key, moved, min(max(quantized(value, out.quantisation), out.lo), out.hi))

    return finish


def _average_pool(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    x = stretch.operand(site, 0)
    over = quantised.window(site, site.input(0), site.node.outputs[0])
    return lambda out: quantised.average(site, x, over, out, fused=False)


def _sum(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    """ReduceMean, ReduceSum, GlobalAveragePool."""
    x, axes = stretch.operand(site, 0), reduce.gone(site)
    return lambda out: reduce.total(site, x, axes, out)


def _resize(stretch: Stretch, site: Site) -> Callable[[Output], str]:
    """Resize that weighs pixels."""
    x, over = stretch.operand(site, 0), resize.grid(site)
    return lambda out: resize.resized(site, x, over, out)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("Add", "Mul", "Sub"), _pair),
    **dict.fromkeys(("Max", "Min"), _extreme),
    "AveragePool": _average_pool,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "Gemm": _gemm,
    "GlobalAveragePool": _sum,
    "MatMul": _gemm,
    "Pad": _pad,
    "ReduceMean": _sum,
    "ReduceSum": _sum,
    "Resize": _resize,
}
