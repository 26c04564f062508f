"""Pools, reshapes, padding, joins and changes of scale: each rule gives the graph tensor with the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Concat, Requant, Requantize, Reshape, Scale
from tilewright.jit.layers import elementwise, pool
from tilewright.jit.layers.builder import Operand, Output
from tilewright.jit.layers.moves import choose, joined
from tilewright.jit.layers.pool import Window
from tilewright.jit.numbers.float_tables import fit
from tilewright.jit.numbers.scales import NotRepresentable
from tilewright.jit.source.tflite import moves, tables
from tilewright.jit.source.tflite.matmul import product_of_rows
from tilewright.jit.source.tflite.site import NONE, Site
from tilewright.jit.source.tflite.weighted import fully_connected, same_padding
from tilewright.jit.source.values import Rearranged, View
from tilewright.runtime.litert.schema import schema


def _window(site: Site, x: Operand) -> Window:
    kernel = site.option("filterHeight"), site.option("filterWidth")
    strides = site.option("strideH"), site.option("strideW")
    if min(*kernel, *strides) < 1:
        raise Unsupported(f"a pooling window {kernel} with strides {strides}")
    return Window(kernel, strides, same_padding(x.shape, kernel, strides, (1, 1), site.option("padding")))


def average_pool_2d(site: Site) -> str:
    """AVERAGE_POOL_2D."""
    site.same_kind(0)
    x, out = site.operand(0), site.output(site.option("fusedActivationFunction"))
    return pool.average_pool_litert(site, x, _window(site, x), out, unsigned=site.result.dtype == "uint8")


def max_pool_2d(site: Site) -> str:
    """MAX_POOL_2D."""
    site.same_kind(0)
    x = site.operand(0)
    return pool.max_pool(site, x, _window(site, x), site.output(site.option("fusedActivationFunction")))


def reshape(site: Site) -> str | Sequence[str | View | Rearranged]:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same elements in the same order."""
    site.same_kind(0)
    site.require_known(1)
    if site.tensor(0).index in site.values.rearranged:
        return moves.rearranged(site)
    x = site.pixels(0)
    if x.quantisation != site.result.quantisation():
        raise Unsupported("a change of scale within a reshape")
    shape = site.values.held_shape(site.result.index)
    if int(np.prod(shape)) != int(np.prod(x.shape)):
        raise Unsupported(f"a reshape of {x.shape} to {shape}")
    if shape not in (x.shape, (1, 1, 1, shape[3])):  # pixels change their rows, or become channels
        return moves.rearranged(site)
    return x.name if shape == x.shape else site.emit(Reshape, [x.name], shape, x.quantisation, shape=shape)


def pad(site: Site) -> str:
    """PAD and PADV2 of all axes"""
    site.same_kind(0)
    x, out = site.pixels(0), site.output()
    if x.quantisation != out.quantisation:
        raise Unsupported("a change of scale within padding")
    shape, given = site.tensor(0).shape, site.constant(1).astype(np.int64)
    if given.shape != (len(shape), 2):
        raise Unsupported(f"paddings of shape {given.shape}")
    widths = np.concatenate([np.zeros((max(0, 3 - len(shape)), 2), np.int64), given])
    if (widths < 0).any():
        raise Unsupported(f"padding {given.tolist()}")
    value = out.quantisation.zero_point
    if site.op.kind == "PADV2":
        fill = site.tensor(2)
        if fill.dtype != site.result.dtype or fill.quantisation() != out.quantisation:
            raise Unsupported("a padding value with a scale of its own")
        value = int(site.constant(2).reshape(())) - (128 if fill.dtype == "uint8" else 0)
    ahead = shape[:-2] if len(shape) > 2 else (1,)
    rows = np.pad(np.arange(x.shape[1]).reshape(ahead), widths[:-2], constant_values=-1).reshape(-1)
    columns, channels = (np.pad(np.arange(x.shape[a]), widths[a - 4], constant_values=-1) for a in (2, 3))
    site.report_exact(x.shape[3])
    return choose(site, x, rows, columns, channels, fill=value).name


def concatenation(site: Site) -> str:
    """CONCATENATION over any axis; uint8 inputs may have other scales than the result."""
    positions = range(len(site.op.inputs))
    site.same_kind(*positions)
    rank = len(site.result.shape)
    axis = site.option("axis") % max(1, rank)
    if site.option("fusedActivationFunction") != NONE:
        raise Unsupported("concatenation with an activation")
    out, inputs = site.output(), [site.either(k) for k in positions]
    parts = [_part(site, x, out) for x in inputs]
    channels = sum(x.shape[3] for x in inputs) if axis == rank - 1 else inputs[0].shape[3]
    site.report_exact(channels, "" if not any(parts) else "all 256 inputs compared")
    if axis != rank - 1:
        alike = [_requantized(site, x, p, out) for x, p in zip(inputs, parts, strict=True)]
        return joined(site, alike, [site.tensor(k).shape for k in positions], axis, out).name
    if any(x.shape[:3] != inputs[0].shape[:3] for x in inputs):
        raise Unsupported(f"concatenation of the shapes {', '.join(str(x.shape) for x in inputs)}")
    shape = (*inputs[0].shape[:3], channels)
    return site.emit(Concat, [x.name for x in inputs], shape, out.quantisation, parts=parts)


def _part(site: Site, x: Operand, out: Output) -> tuple[Scale, Requant] | None:
    """LiteRT's ``ConcatenationWithScaling``: ``round(x * s + (-z * s)) + z_out`` in float32, half away from zero."""
    f = np.float32
    if elementwise.is_copy(x, out):
        return None
    if site.result.dtype != "uint8":
        raise Unsupported("a change of scale within an int8 concatenation")
    scale = f(x.scale) * (f(1.0) / f(out.quantisation.scale))
    bias = -f(x.zero_point + 128) * scale
    real = np.arange(256).astype(f) * scale + bias
    wanted = np.copysign(np.floor(np.abs(real) + f(0.5)), real).astype(np.int64) + out.quantisation.zero_point
    ratio, zero_point = x.scale / out.quantisation.scale, out.quantisation.zero_point
    fitted = fit(wanted, ratio, x.zero_point, zero_point, out.lo, out.hi, x.shape[3])
    if fitted is None:
        raise Unsupported("a change of scale that fixed point cannot give exactly")
    return fitted


def _requantized(site: Site, x: Operand, part: tuple[Scale, Requant] | None, out: Output) -> Operand:
    if part is None:
        return x
    name = site.emit(Requantize, [x.name], x.shape, out.quantisation, scale=part[0], requant=part[1])
    return Operand(name, x.shape, out.quantisation)


def quantize(site: Site) -> str:
    """QUANTIZE from 8 bits to 8 bits."""
    try:
        return elementwise.requantize(site, site.pixels(0), site.output())
    except NotRepresentable:
        return tables.table(site)


def activation(site: Site) -> str:
    """RELU, RELU6 and RELU_N1_TO_1."""
    site.same_kind(0)
    kind = getattr(schema().ActivationFunctionType, site.op.kind)
    try:
        return elementwise.requantize(site, site.pixels(0), site.output(kind), float_ratio=True)
    except NotRepresentable:
        return tables.table(site)


def any_fully_connected(site: Site) -> str:
    """FULLY_CONNECTED with ``weight`` (OC, IC), constant or not, on rows of IC elements, whatever the input's shape."""
    return fully_connected(site) if site.is_constant(1) else product_of_rows(site)


def softmax(site: Site) -> str:
    """SOFTMAX over the last axis."""
    site.same_kind(0)
    x = site.pixels(0)
    beta = getattr(site.op.options, "beta", None)
    if beta is None:
        raise Unsupported("no option beta")
    return elementwise.softmax(site, x, site.result.quantisation(), float(np.float32(beta)))
