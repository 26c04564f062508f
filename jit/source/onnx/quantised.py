"""ONNX Runtime's kernels on 8-bit tensors that have an exact integer form, or one within a stated bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import TableSoftmax
from tilewright.jit.layers import elementwise, moves, pairwise, pool
from tilewright.jit.layers.builder import Operand, Output, Quantisation, Weights, nhwc
from tilewright.jit.layers.matmul import Side, matmul
from tilewright.jit.layers.pool import Window
from tilewright.jit.numbers.float_tables import multiply_table
from tilewright.jit.source.matrices import beside_channels, side
from tilewright.jit.source.onnx import elements, reduce, resize
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.moves import hand_on
from tilewright.jit.source.onnx.site import Site, quantisation, window_padding, window_steps
from tilewright.jit.source.onnx.weights import (
    centred,
    channel_scales,
    convolve,
    fully_connect,
    integer_bias,
    require_rows,
)
from tilewright.jit.source.operators import onnx_row
from tilewright.runtime import host, interpreters


def qlinear_conv(site: Site) -> str:
    """QLinearConv(x, sx, zx, w, sw, zw, sy, zy, bias): ``rint(float32(acc + bias) * (sx * sw / sy)) + zy``."""
    name, result = site.input(0), site.node.outputs[0]
    if site.node.attribute("channels_last", 0):
        raise Unsupported("a convolution with the channels last")
    site.require_image(name, result)
    shapes = site.shape(name), site.shape(result)
    return convolve(site, site.node, site.operand(0), _weights(site, 0, bias=8), site.output(6, 7), shapes)


def _weights(site: Site, axis: int, bias: int | None = None) -> Weights:
    """The operands 3, 4 and 5 (weights with their output channels along ``axis``, scale, zero point), and the bias."""
    values = site.constant(3)
    count = values.shape[axis]
    return Weights(
        np.moveaxis(centred(values, site.constant(5), axis), axis, 0),
        channel_scales(site.constant(4), count),
        integer_bias(site.constant(bias) if bias is not None and site.has(bias) else None, count),
    )


def qgemm(site: Site) -> str:
    """QGemm(a, sa, za, b, sb, zb, c, sy, zy); without sy the result is float32."""
    node = site.node
    if not site.has(7):
        raise Unsupported("a result in float32")
    if node.attribute("transA", 0) or node.attribute("alpha", 1.0) != 1.0:
        raise Unsupported("QGemm with transA or alpha")
    transposed = bool(node.attribute("transB", 0))
    return _on_rows(site, 0 if transposed else 1, site.output(7, 8), bias=6)


def qlinear_matmul(site: Site) -> str:
    """QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)."""
    if site.input(3) not in site.prepared.constants:
        return multiply(site, (0, 1, 2), (3, 4, 5), site.output(6, 7))
    return _on_rows(site, 1, site.output(6, 7))


def _on_rows(site: Site, axis: int, out: Output, bias: int | None = None) -> str:
    """A matrix with its output channels along ``axis`` on the rows of the first operand."""
    if site.constant(3).ndim != 2:
        raise Unsupported(f"weights of shape {site.constant(3).shape}")
    name = site.input(0)
    numbers = site.quantisation(1, 2, site.prepared.types[name][0])
    return fully_connect(site, name, numbers, _weights(site, axis, bias), out)


def multiply(site: Site, a: tuple[int, int, int], b: tuple[int, int, int], out: Output) -> str:
    """Matrices of two activations: positions of each one's tensor, scale and zero point."""
    merged = merges(site)
    if not merged:
        require_rows(site)
    sides: list[Side] = []
    for name, (_, scale, zero_point) in ((site.input(a[0]), a), (site.input(b[0]), b)):
        if name in site.prepared.constants:
            raise Unsupported("a product with a constant on the left, or with one for each image")
        numbers = site.quantisation(scale, zero_point, site.prepared.types[name][0])
        sides.append(side(site.values, name, numbers, turned=len(sides) == 1))
    return matmul(site, sides[0], sides[1], out, merged=merged)


def merges(site: Site) -> bool:
    """Whether all that read the node's result put its heads beside each other in the channels."""
    result = site.node.outputs[0]
    shape, rank = site.shape(result), len(site.shape(result))
    readers = site.prepared.readers.get(result, [])
    swaps = [n.kind == "Transpose" and tuple(n.attribute("perm", ())) == beside_channels(rank) for n in readers]
    one = math.prod(shape[:-3]) == 1  # of several images, each one's heads would lie beside the others'
    return rank > 2 and one and bool(swaps) and all(swaps) and result not in site.prepared.outputs


def qlinear_softmax(site: Site) -> str:
    """QLinearSoftmax(x, sx, zx, sy, zy) of uint8 over the last axis, or the channels of an image: a float32 table of
    exponentials."""
    name, node = site.input(0), site.node
    spec, rank, opset = site.values.specs[name], len(site.shape(name)), int(node.attribute("opset"))
    axis = int(node.attribute("axis", -1 if opset >= 13 else 1)) % max(1, rank)
    if spec.dtype != "uint8" or site.is_signed():
        raise Unsupported("a softmax of int8, whose results ONNX Runtime lets wrap")
    last = rank - 1 if spec.order is None else spec.order[-1]
    if rank == 0 or axis != last or (spec.order is not None and opset < 13):
        raise Unsupported(f"a softmax over axis {axis} of shape {site.shape(name)}")
    require_alike(site, name)
    held = site.values.stack(name) if spec.order is None else site.values.chip(name)
    x = replace(held, quantisation=site.quantisation(1, 2, spec.dtype))
    out, scale = site.output(3, 4), np.float32(site.constant(1).reshape(()))
    table = exponentials(scale, site.shape(name)[axis])
    factor = float(np.floor(np.float32(1) / np.float32(out.quantisation.scale)))
    zero_point = out.quantisation.zero_point + 128
    if not 0 < float(table[-1]) * max(factor, site.shape(name)[axis]) < float(np.finfo(np.float32).max):
        raise Unsupported("a softmax whose sums leave float32")
    _compare_softmax(site, axis, table, factor, zero_point)
    site.report_exact(x.shape[3])
    return site.emit(
        TableSoftmax, [x.name], x.shape, out.quantisation, table=tuple(table.tolist()), factor=factor,
        zero_point=zero_point,
    )  # fmt: skip


def _compare_softmax(site: Site, axis: int, table: np.ndarray, factor: float, zero_point: int) -> None:
    """Raises Unsupported unless ONNX Runtime's kernel gives the same for rows of any spread."""
    name, result = site.input(0), site.node.outputs[0]
    run = interpreters.load("onnxruntime", cut(site.prepared, [site.node], [name], [result], {}), site.name)
    rng, shape = np.random.default_rng(0), site.shape(name)
    for spread in (256, 32, 1):
        low = rng.integers(0, 257 - spread, [1 if a == axis else n for a, n in enumerate(shape)])
        x = (low + rng.integers(0, spread, shape)).astype(np.uint8)
        given, wanted = ((np.moveaxis(y, axis, -1) ^ np.uint8(128)).view(np.int8) for y in (x, run([x])[0]))
        if (host.softmax_by_table(given, table, factor, zero_point) != wanted).any():
            raise Unsupported("a softmax whose float32 sums are not known")


def exponentials(scale: np.float32, count: int) -> np.ndarray:
    """``exp((i - 255) * scale)`` for i = 0 .. 255, times what keeps sums of ``count`` of them well within float32.

    The logarithm is float32's in ONNX Runtime, all else float64: it scales all entries alike, but not their roundings.
    """
    logarithm = np.float32(math.log(float(np.finfo(np.float32).max / np.float32(count))))
    room = max(0.0, float(logarithm) - 5) / float(scale)
    return np.array([math.exp((i - 255 + room) * float(scale)) for i in range(256)]).astype(np.float32)


def qlinear_add(site: Site) -> str:
    """QLinearAdd(a, sa, za, b, sb, zb, sy, zy)."""
    a, b, out = *pair(site, 0, 3), site.output(6, 7)
    return pairwise.add(site, a, b, out, unsigned=not site.is_signed())


def qlinear_mul(site: Site) -> str:
    """QLinearMul(a, sa, za, b, sb, zb, sy, zy): the integer product times float32 ``sa * sb / sy``, plus ``zy``."""
    a, b, out = *pair(site, 0, 3), site.output(6, 7)
    q = out.quantisation
    wanted = multiply_table(
        (a.scale, b.scale, q.scale), (a.zero_point, b.zero_point, q.zero_point), unsigned=not site.is_signed()
    )
    return pairwise.multiply_fitted(site, a, b, out, wanted, 0 if site.is_signed() else -128)


def pair(site: Site, first: int, second: int) -> tuple[Operand, Operand]:
    """Two operands with their numbers, with axes that are each other's."""
    require_alike(site, site.input(first), site.input(second))
    return either(site, first), either(site, second)


def either(site: Site, position: int) -> Operand:
    """An activation with its numbers behind it, or a constant image that stands for one."""
    name = site.input(position)
    if name not in site.prepared.constants:
        return site.operand(position)
    values = site.constant(position)
    zero = site.constant(position + 2) if site.has(position + 2) else np.zeros((), values.dtype)
    return fixed(site, name, values, site.constant(position + 1), zero)


def fixed(site: Site, name: str, values: NDArray[Any], scale: NDArray[Any], zero_point: NDArray[Any]) -> Operand:
    """A quantised constant as an image, its axes those of the node's result. Raises Unsupported where it is none."""
    numbers = quantisation(scale, zero_point, values.dtype.name)
    return image(site, name, values.view(np.int8) ^ np.int8(-128 if values.dtype == np.uint8 else 0), numbers)


def image(site: Site, name: str, values: NDArray[np.int8], numbers: Quantisation) -> Operand:
    """Constant int8 values as an image, its axes those of the node's result. Raises Unsupported where it is none."""
    spec = site.values.specs[site.node.outputs[0]]
    rank = len(spec.shape)
    if values.ndim > rank:
        raise Unsupported(f"{site.kind} of a constant of shape {values.shape}")
    moved = values.reshape((1,) * (rank - values.ndim) + values.shape).transpose(spec.order or range(rank))
    return site.values.fixed(name, np.ascontiguousarray(moved).reshape(nhwc(moved.shape)), numbers)


def require_alike(site: Site, *read: object) -> None:
    """Raises Unsupported unless the axes of what is no constant are those of the result, in one order."""
    keys = [key for key in read if key not in site.prepared.constants]
    specs = [site.values.specs[key] for key in (*keys, site.node.outputs[0])]
    if len({(len(spec.shape), spec.order) for spec in specs}) > 1:
        raise Unsupported(f"{site.kind} of tensors of different ranks or layouts")


def qlinear_concat(site: Site) -> str:
    """QLinearConcat(sy, zy, x0, s0, z0, x1, ...): each input through a table of 256 requantised values."""
    positions = range(2, len(site.node.inputs), 3)
    if not positions or (len(site.node.inputs) - 2) % 3:
        raise Unsupported(f"QLinearConcat with {len(site.node.inputs)} operands")
    names = [site.input(p) for p in positions]
    return joined(site, names, [either(site, p) for p in positions], site.output(0, 1))


def concat(site: Site) -> str:
    """Concat of 8-bit tensors as they are."""
    own = site.values.specs[site.node.outputs[0]].quantisation  # the integers are handed on, whatever they stand for
    assert own is not None
    unit, zero = np.ones((), np.float32), np.zeros((), site.prepared.types[site.node.outputs[0]][0])
    inputs = [
        fixed(site, name, site.prepared.array(name), unit, zero)
        if name in site.prepared.constants
        else site.values.chip(name)
        for name in site.node.inputs
    ]
    site.report_exact(inputs[0].shape[3])
    return joined(site, site.node.inputs, [replace(x, quantisation=own) for x in inputs], Output(own))


def joined(site: Site, names: Sequence[str], inputs: list[Operand], out: Output) -> str:
    """Tensors, or constants, one behind the other along the node's axis; ``names``: of its operands."""
    spec = site.values.specs[site.node.outputs[0]]
    rank = len(spec.shape)
    parts = [site.values.specs[name] for name in names if name not in site.prepared.constants]
    if any((len(part.shape), part.order) != (rank, spec.order) for part in parts):
        raise Unsupported("a concatenation of different layouts")
    order = spec.order or tuple(range(rank))
    axis = order.index(int(site.node.attribute("axis")) % max(1, rank)) + 4 - rank
    if axis == 3:
        return elementwise.concat(site, inputs, out)
    same = [replace(x, name=elementwise.requantize(site, x, out), quantisation=out.quantisation) for x in inputs]
    return moves.join(site, same, axis, out)


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


def clamp(site: Site) -> None:
    """Clip and Relu of an 8-bit tensor as it is: how values of fewer bits are written."""
    name = site.input(0)
    dtype = site.prepared.types[name][0]
    moved = 128 if dtype == "uint8" else 0
    relu = site.node.kind == "Relu"
    low, high = (
        int(site.constant(position).reshape(())) - moved if site.has(position) else default
        for position, default in ((1, -moved if relu else -128), (2, 127))
    )
    if low > high:
        raise Unsupported(f"Clip to {low + moved}..{high + moved}")
    site.report_exact(site.values.chip(name).shape[3], "a clamp")

    def clamped(x: Operand) -> str:
        return elementwise.clamp(site, x, low, high)

    site.values.set_function(site.node.outputs[0], name, clamped)


def pad(site: Site) -> str:
    """Pad of an 8-bit tensor with a constant of its own kind."""
    name = site.input(0)
    dtype = site.prepared.types[name][0]
    value = site.constant(2).reshape(-1) if site.has(2) else np.zeros(1, dtype)
    if value.dtype.name != dtype or value.size != 1:
        raise Unsupported("padding with something else than one 8-bit value")
    return elements.padded(site, name, site.values.chip(name), int(value[0]) - (128 if dtype == "uint8" else 0))


def lower(site: Site) -> None:
    """One node from 8-bit tensors to an 8-bit tensor; raises Unsupported for what has no rule."""
    node, row = site.node, onnx_row(site.node.kind)
    if row.is_view and len(node.makes) == 1:
        hand_on(site.builder, site.values, node, site.input(0), node.outputs[0])
    elif row.takes_elements and not resize.is_linear(node):
        elements.take(site, site.input(0), list(node.makes))
    elif row.family == "extreme":
        reduce.extreme(site, site.input(0), node.outputs[0])
    elif row.family == "clamp":
        clamp(site)
    elif row.int8:
        site.values.set_result(node.outputs[0], row.find(row.int8)(site))
    else:
        raise Unsupported(f"{site.kind} has no exact integer form on the accelerator")
