"""ONNX Runtime's kernels on 8-bit tensors that have an exact integer form, or one within a stated bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.float_tables import add_table, multiply_table
from tilewright.jit.frontend.builder import Operand, Output
from tilewright.jit.frontend.layers import elementwise, pairwise, pool
from tilewright.jit.frontend.layers.pool import Window
from tilewright.jit.graph import Concat, Pad
from tilewright.jit.source.onnx.moves import hand_on
from tilewright.jit.source.onnx.site import Site, window_padding, window_steps
from tilewright.jit.source.onnx.units import PASSIVE
from tilewright.jit.source.onnx.weights import centred, channel_scales, convolve, fully_connect, integer_bias


def qlinear_conv(site: Site) -> str:
    """QLinearConv(x, sx, zx, w, sw, zw, sy, zy, bias): ``rint(float32(acc + bias) * (sx * sw / sy)) + zy``."""
    name, result = site.input(0), site.node.outputs[0]
    if site.node.attribute("channels_last", 0):
        raise Unsupported("a convolution with the channels last")
    site.require_image(name, result)
    values = site.constant(3)
    count = values.shape[0]
    return convolve(
        site,
        site.node,
        site.operand(0),
        centred(values, site.constant(5), 0),
        channel_scales(site.constant(4), count),
        integer_bias(site.constant(8) if site.has(8) else None, count),
        site.output(6, 7),
        (site.shape(name), site.shape(result)),
    )


def qgemm(site: Site) -> str:
    """QGemm(a, sa, za, b, sb, zb, c, sy, zy); without sy the result is float32."""
    node = site.node
    if not site.has(7):
        raise Unsupported("a result in float32")
    if node.attribute("transA", 0) or node.attribute("alpha", 1.0) != 1.0:
        raise Unsupported("QGemm with transA or alpha")
    transposed = bool(node.attribute("transB", 0))
    values = site.constant(3)
    if values.ndim != 2:
        raise Unsupported(f"weights of shape {values.shape}")
    axis = 0 if transposed else 1
    weight = centred(values, site.constant(5), axis)
    weight = weight if transposed else weight.T
    name, count = site.input(0), weight.shape[0]
    numbers = site.quantisation(1, 2, site.prepared.types[name][0])
    bias = integer_bias(site.constant(6) if site.has(6) else None, count)
    return fully_connect(site, name, numbers, weight, channel_scales(site.constant(4), count), bias, site.output(7, 8))


def qlinear_matmul(site: Site) -> str:
    """QLinearMatMul(a, sa, za, b, sb, zb, sy, zy) with constant b."""
    values = site.constant(3)
    if values.ndim != 2:
        raise Unsupported(f"weights of shape {values.shape}")
    weight = centred(values, site.constant(5), 1).T
    name, count = site.input(0), weight.shape[0]
    numbers = site.quantisation(1, 2, site.prepared.types[name][0])
    scales = channel_scales(site.constant(4), count)
    return fully_connect(site, name, numbers, weight, scales, integer_bias(None, count), site.output(6, 7))


def qlinear_add(site: Site) -> str:
    """QLinearAdd(a, sa, za, b, sb, zb, sy, zy)."""
    a, b, out = *pair(site, 0, 3), site.output(6, 7)
    return pairwise.add_fitted(site, a, b, out, table_of_add(a, b, out, unsigned=not site.is_signed()))


def qlinear_mul(site: Site) -> str:
    """QLinearMul(a, sa, za, b, sb, zb, sy, zy): the integer product times float32 ``sa * sb / sy``, plus ``zy``."""
    a, b, out = *pair(site, 0, 3), site.output(6, 7)
    q = out.quantisation
    wanted = multiply_table(
        (a.scale, b.scale, q.scale), (a.zero_point, b.zero_point, q.zero_point), unsigned=not site.is_signed()
    )
    return pairwise.multiply_fitted(site, a, b, out, wanted)


def pair(site: Site, first: int, second: int) -> tuple[Operand, Operand]:
    """Two operands with their numbers, with axes that are each other's."""
    require_alike(site, site.input(first), site.input(second))
    return site.operand(first), site.operand(second)


def require_alike(site: Site, first: object, second: object) -> None:
    """Raises Unsupported unless the axes of two tensors are those of the result, in one order."""
    specs = [site.values.specs[key] for key in (first, second, site.node.outputs[0])]
    if len({(len(spec.shape), spec.order) for spec in specs}) > 1:
        raise Unsupported(f"{site.node.kind} of tensors of different ranks or layouts")


def table_of_add(a: Operand, b: Operand, out: Output, *, unsigned: bool) -> np.ndarray:
    """QLinearAdd's results for all pairs, as int8."""
    q = out.quantisation
    return add_table((a.scale, b.scale, q.scale), (a.zero_point, b.zero_point, q.zero_point), unsigned=unsigned)


def qlinear_concat(site: Site) -> str:
    """QLinearConcat(sy, zy, x0, s0, z0, x1, ...): each input through a table of 256 requantised values."""
    node, result = site.node, site.node.outputs[0]
    require_channels(site, int(node.attribute("axis")))
    positions = range(2, len(node.inputs), 3)
    if not positions or (len(node.inputs) - 2) % 3:
        raise Unsupported(f"QLinearConcat with {len(node.inputs)} operands")
    if any(site.values.specs[site.input(p)].order != site.values.specs[result].order for p in positions):
        raise Unsupported("a concatenation of different layouts")
    return elementwise.concat(site, [site.operand(p) for p in positions], site.output(0, 1))


def concat(site: Site) -> str:
    """Concat of 8-bit tensors as they are."""
    result = site.node.outputs[0]
    require_channels(site, int(site.node.attribute("axis")))
    if any(site.values.specs[name].order != site.values.specs[result].order for name in site.node.inputs):
        raise Unsupported("a concatenation of different layouts")
    inputs = [site.values.chip(name) for name in site.node.inputs]
    if any(x.shape[:3] != inputs[0].shape[:3] for x in inputs):
        raise Unsupported(f"concatenation of the shapes {', '.join(str(x.shape) for x in inputs)}")
    channels = sum(x.shape[3] for x in inputs)
    site.report_exact(channels)
    return site.emit(
        Concat, [x.name for x in inputs], (*inputs[0].shape[:3], channels), inputs[0].quantisation,
        parts=[None] * len(inputs),
    )  # fmt: skip


def require_channels(site: Site, axis: int) -> None:
    """Raises Unsupported unless ``axis`` holds the channels of the result."""
    result = site.node.outputs[0]
    if axis % max(1, len(site.shape(result))) != site.channel_axis(result):
        raise Unsupported("concatenation over an axis other than the channels")


def qlinear_global_average_pool(site: Site) -> str:
    """QLinearGlobalAveragePool(x, sx, zx, sy, zy): the integer sum times float32 ``sx / (sy * count)``."""
    if site.node.attribute("channels_last", 0):
        raise Unsupported("a pooling with the channels last")
    site.require_image(site.input(0), site.node.outputs[0])
    return pool.global_mean(site, site.operand(0), site.output(3, 4))


def window(site: Site, name: str, result: str) -> Window:
    """The pooling window of the node, over tensors with the channels first."""
    node = site.node
    site.require_image(name, result)
    if node.attribute("channels_last", 0) or node.attribute("storage_order", 0) or len(node.makes) > 1:
        raise Unsupported("pooling that gives positions, or with the channels last")
    shape = tuple(node.attribute("kernel_shape", ()))
    if len(shape) != len(site.shape(name)) - 2:
        raise Unsupported(f"a pooling window {shape} on a tensor of shape {site.shape(name)}")
    kernel, strides, dilations = window_steps(node, shape)
    if dilations != (1, 1):
        raise Unsupported(f"pooling with dilations {dilations}")
    return Window(kernel, strides, window_padding(node, site.shape(name), site.shape(result), shape))


def qlinear_average_pool(site: Site) -> str:
    """QLinearAveragePool(x, sx, zx, sy, zy): float32 sums in the order of the window."""
    return average(site, site.operand(0), window(site, site.input(0), site.node.outputs[0]), site.output(3, 4))


def average(site: Site, x: Operand, over: Window, out: Output, *, fused: bool = True) -> str:
    """Averages of ONNX Runtime's, which add in float32; ``fused``: in one kernel with the quantisation."""
    include = bool(site.node.attribute("count_include_pad", 0))
    if include and site.node.attribute("ceil_mode", 0):
        raise Unsupported("average pooling that counts padding and rounds sizes up")
    return pool.average_pool_onnx_runtime(site, x, over, out, count_include_pad=include, ties_with_zero_point=fused)


def max_pool(site: Site) -> str:
    """MaxPool of an 8-bit tensor as it is."""
    x = site.values.chip(site.input(0))
    return pool.max_pool(site, x, window(site, site.input(0), site.node.outputs[0]), Output(x.quantisation))


def pad(site: Site) -> str:
    """Pad of an 8-bit tensor with a constant of its own kind."""
    name = site.input(0)
    site.require_image(name)
    dtype = site.prepared.types[name][0]
    value = site.constant(2).reshape(-1) if site.has(2) else np.zeros(1, dtype)
    if value.dtype.name != dtype or value.size != 1:
        raise Unsupported("padding with something else than one 8-bit value")
    return pad_with(site, site.values.chip(name), int(value[0]) - (128 if dtype == "uint8" else 0))


def pad_with(site: Site, x: Operand, value: int) -> str:
    """Spatial padding, ``value`` as int8."""
    if (site.node.attribute("mode", "constant") or "constant") != "constant" or site.has(3):
        raise Unsupported(f"padding by mode {site.node.attribute('mode')} or along named axes")
    given = site.constant(1) if site.has(1) else np.asarray(site.node.attribute("pads", ()), np.int64)
    half = given.size // 2
    if half not in (3, 4) or given.size % 2 or (given < 0).any():
        raise Unsupported(f"paddings {given.tolist()}")
    before, after = given[:half].astype(int), given[half:].astype(int)
    if before[:2].any() or after[:2].any():
        raise Unsupported(f"paddings {given.tolist()}; only height and width can be padded")
    top, bottom = (before[2], after[2]) if half == 4 else (0, 0)
    quad = int(top), int(before[-1]), int(bottom), int(after[-1])
    shape = (1, x.shape[1] + quad[0] + quad[2], x.shape[2] + quad[1] + quad[3], x.shape[3])
    site.report_exact(x.shape[3])
    return site.emit(Pad, [x.name], shape, x.quantisation, padding=quad, pad_value=value)


RULES: dict[str, Callable[[Site], str]] = {
    "Concat": concat,
    "MaxPool": max_pool,
    "Pad": pad,
    "QGemm": qgemm,
    "QLinearAdd": qlinear_add,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearConv": qlinear_conv,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearMatMul": qlinear_matmul,
    "QLinearMul": qlinear_mul,
}


def lower(site: Site) -> None:
    """One node from 8-bit tensors to an 8-bit tensor; raises Unsupported for what has no rule."""
    node = site.node
    if node.kind in PASSIVE and len(node.makes) == 1:
        hand_on(site.builder, site.values, node, site.input(0), node.outputs[0])
        return
    rule = RULES.get(node.kind)
    if rule is None:
        raise Unsupported(f"{node.kind} has no exact integer form on the accelerator")
    site.values.set_chip(node.outputs[0], rule(site))
