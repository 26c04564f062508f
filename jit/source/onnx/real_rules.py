"""Rules for operators on float32 tensors: what finishes the layer once the result's quantisation is known.

Element-wise operators mean one float32 expression each, which is compared in full. Sums of products are added by ONNX
Runtime in an order of its own: such layers are lowered within a stated bound, or left to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Maximum, Minimum
from tilewright.jit.layers import elementwise, pairwise
from tilewright.jit.layers.builder import Operand, Output, Quantisation
from tilewright.jit.numbers.float_tables import float_pair_table
from tilewright.jit.source.onnx import elements, quantised, reduce, resize
from tilewright.jit.source.onnx.float_sums import Finish, FloatSums, finished
from tilewright.jit.source.onnx.prepared import Node
from tilewright.jit.source.onnx.real import Stretch, quantized
from tilewright.jit.source.onnx.site import Site
from tilewright.jit.source.onnx.units import is_dequantised
from tilewright.jit.source.onnx.weights import (
    by_channel,
    centred,
    channel_scales,
    convolve,
    convolve_transposed,
    fully_connect,
)

Rule = Callable[[Stretch, Site], Finish]


def _constant(site: Site, position: int, refusal: str) -> tuple[Node, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(DequantizeLinear, values, scale, zero point) of a constant that is quantised."""
    node = _dequantised(site, position)
    if node is None:
        raise Unsupported(refusal)
    values, scale, *zero = (site.prepared.array(t) for t in node.inputs if t)
    return node, values, scale, zero[0] if zero else np.zeros((), values.dtype)


def _sums(site: Site, x: Quantisation, axis: int = 0, groups: int = 1) -> FloatSums:
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
        each, inputs, *kernel = values.shape
        values = values.reshape(each, groups, inputs // groups, *kernel).swapaxes(0, 1)
        values, scales = values.reshape(groups * each, inputs // groups, *kernel), np.tile(scales, groups)
    return FloatSums.of(x, values, scales, _bias(site, len(scales)))


def _bias(site: Site, channels: int) -> NDArray[np.float32]:
    """(channels,): the third operand, a float32 constant or one that is dequantised to that."""
    if not site.has(2):
        return np.zeros(channels, np.float32)
    values = by_channel(_number(site, 2), channels, np.float32)
    if not np.isfinite(values).all():
        raise Unsupported("a bias that is not finite")
    return values


def conv(stretch: Stretch, site: Site) -> Finish:
    """A convolution."""
    name, result = site.input(0), site.node.outputs[0]
    site.require_image(name, result)
    if site.has(3):
        raise Unsupported("a convolution with a tensor added to it")
    sums, x = _sums(site, stretch.numbers(site, 0)), stretch.operand(site, 0)
    shapes = site.shape(name), site.shape(result)
    return finished(site, sums, lambda weights, out: convolve(site, site.node, x, weights, out, shapes))


def conv_transpose(stretch: Stretch, site: Site) -> Finish:
    """A transposed convolution."""
    result = site.node.outputs[0]
    site.require_image(site.input(0), result)
    sums = _sums(site, stretch.numbers(site, 0), 1, int(site.node.attribute("group", 1)))
    x, shape = stretch.operand(site, 0), site.shape(result)
    return finished(site, sums, lambda weights, out: convolve_transposed(site, site.node, x, weights, out, shape))


def gemm(stretch: Stretch, site: Site) -> Finish:
    """Gemm, or MatMul, with constant weights."""
    node = site.node
    numbers = stretch.numbers(site, 0)
    plain = node.kind == "MatMul"
    if not plain and (node.attribute("transA", 0) or node.attribute("alpha", 1.0) != 1.0):
        raise Unsupported("Gemm with transA or alpha")
    if not plain and site.has(2) and node.attribute("beta", 1.0) != 1.0:
        raise Unsupported("Gemm with beta")
    sums = _sums(site, numbers, 0 if not plain and node.attribute("transB", 0) else 1)
    if sums.weights.values.ndim != 2:
        raise Unsupported(f"weights of shape {site.shape(site.input(1))}")
    key = stretch.key(site, 0)
    return finished(site, sums, lambda weights, out: fully_connect(site, key, numbers, weights, out))


def _half_sum(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    return (a + b) / np.float32(2)


def _pair(stretch: Stretch, site: Site, join: Callable[..., Any]) -> Finish:
    """Two tensors: all pairs of values as float32 has them."""
    if len(site.node.inputs) != 2:  # float32 sums of more, of which no table holds all
        raise Unsupported(f"{site.kind} of {len(site.node.inputs)} tensors")
    a, b = _operands(stretch, site)

    def finish(out: Output) -> str:
        q = out.quantisation
        wanted = float_pair_table(join, (a.scale, b.scale, q.scale), (a.zero_point, b.zero_point, q.zero_point))
        if join is np.multiply:
            return pairwise.multiply_fitted(site, a, b, out, wanted, q.zero_point)
        first, second = (_halved(a), _halved(b)) if join is _half_sum else (a, b)
        return pairwise.add_fitted(site, first, second, out, wanted, q.zero_point, subtract=join is np.subtract)

    return finish


add: Rule = partial(_pair, join=np.add)
subtract: Rule = partial(_pair, join=np.subtract)
multiply: Rule = partial(_pair, join=np.multiply)
mean: Rule = partial(_pair, join=_half_sum)


def _halved(x: Operand) -> Operand:
    return replace(x, quantisation=replace(x.quantisation, scale=x.scale / 2))


def _operands(stretch: Stretch, site: Site) -> list[Operand]:
    """8-bit tensors, with axes that are each other's."""
    constants = [_given(site, position) for position in range(len(site.node.inputs))]
    keys = [given[0] if given else stretch.key(site, position) for position, given in enumerate(constants)]
    quantised.require_alike(site, *keys)
    return [
        quantised.fixed(site, *given) if given else stretch.operand(site, position)
        for position, given in enumerate(constants)
    ]


def _given(site: Site, position: int) -> tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    """Name, values, scale and zero point of an operand that is a quantised constant; None for others."""
    node = _dequantised(site, position)
    return None if node is None else (node.inputs[0], *_constant(site, position, "")[1:])


def extreme(stretch: Stretch, site: Site) -> Finish:
    """Max and Min of any number: QuantizeLinear never decreases, so each operand is quantised first."""
    operands = _operands(stretch, site)
    kind = Maximum if site.node.kind == "Max" else Minimum

    def finish(out: Output) -> str:
        first, *others = (
            Operand(elementwise.requantize(site, x, out), x.shape, out.quantisation) for x in operands
        )  # fmt: skip
        for other in others:
            name = pairwise.extreme(site, kind, first, other, out)
            first = Operand(name, site.builder.tensors[name].shape, out.quantisation)
        return first.name

    return finish


def concat(stretch: Stretch, site: Site) -> Finish:
    """Each part quantised to the result's numbers first."""
    positions = range(len(site.node.inputs))
    fixed = {p: _number(site, p) for p in positions if _is_fixed(site, p)}
    computed = {p: stretch.made(site, p) for p in positions if p not in fixed}
    names = [site.input(p) for p in computed]

    def finish(out: Output) -> str:
        q = out.quantisation
        parts = {p: quantised.image(site, site.input(p), _steps(v, out), q) for p, v in fixed.items()}
        parts |= {p: made(out) for p, made in computed.items()}
        return quantised.joined(site, names, [parts[p] for p in positions], out)

    return finish


def _steps(values: NDArray[Any], out: Output) -> NDArray[np.int8]:
    """What QuantizeLinear makes of float32 numbers, as int8."""
    if values.dtype != np.float32:
        raise Unsupported(f"constants of type {values.dtype.name}")
    with np.errstate(over="ignore"):  # as there
        steps = np.rint(values / np.float32(out.quantisation.scale))
    moved = np.clip(np.nan_to_num(steps) + out.quantisation.zero_point, out.lo, out.hi)
    return np.asarray(moved.astype(np.int8))


def _number(site: Site, position: int) -> NDArray[Any]:
    """A constant operand, dequantised where it is stored so."""
    node = _dequantised(site, position)
    if node is None:
        return site.constant(position)
    if node.attribute("block_size", 0):
        raise Unsupported("blocked quantisation")
    _, values, *numbers = _constant(site, position, "")
    along = [1] * values.ndim
    if values.ndim:
        along[int(node.attribute("axis", 1)) % values.ndim] = -1  # that of several scales and zero points
    scale, zero = (n.reshape(along) if n.size > 1 else n.reshape(()) for n in numbers)
    return (values.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale


def _is_fixed(site: Site, position: int) -> bool:
    return site.input(position) in site.prepared.constants or _dequantised(site, position) is not None


def _dequantised(site: Site, position: int) -> Node | None:
    """The DequantizeLinear of an operand that is a quantised constant."""
    node = site.prepared.producers.get(site.input(position))
    if node is None or not is_dequantised(site.prepared, node) or node.inputs[0] not in site.prepared.constants:
        return None
    return node


def pad(stretch: Stretch, site: Site) -> Finish:
    """Pad, ahead of which its operand is quantised to the result's numbers."""
    x, key = stretch.operand(site, 0), stretch.key(site, 0)
    fill = _number(site, 2) if site.has(2) else np.asarray(site.node.attribute("value", 0.0))
    if fill.size != 1:
        raise Unsupported("padding with several values")
    value = float(fill.reshape(()))

    def finish(out: Output) -> str:
        moved = Operand(elementwise.requantize(site, x, out), x.shape, out.quantisation)
        return elements.padded(site, key, moved, min(max(quantized(value, out.quantisation), out.lo), out.hi))

    return finish


def average_pool(stretch: Stretch, site: Site) -> Finish:
    """AveragePool."""
    x = stretch.operand(site, 0)
    over = quantised.window(site, site.input(0), site.node.outputs[0])
    return lambda out: quantised.average(site, x, over, out, fused=False)


def total(stretch: Stretch, site: Site) -> Finish:
    """ReduceMean, ReduceSum, GlobalAveragePool."""
    x, axes = stretch.operand(site, 0), reduce.gone(site)
    return lambda out: reduce.total(site, x, axes, out)


def resize_linear(stretch: Stretch, site: Site) -> Finish:
    """Resize that weighs pixels."""
    x, over = stretch.operand(site, 0), resize.grid(site)
    return lambda out: resize.resized(site, x, over, out)
