"""Reference evaluator: what every operator of :mod:`tilewright.jit.graph` means, in NumPy.

The oracle of the compiler's tests. Accumulations run as float64 matrix products, which are exact here: the
partial sums of int8 x int8 products stay far below 2^53.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.isa.arithmetic import requantize, rescale, wrap_int32
from tilewright.jit import graph as g
from tilewright.jit.recurrent.ops import Lstm, Svdf
from tilewright.jit.recurrent.reference import lstm, lstm_on, svdf
from tilewright.jit.sampling import Sampling
from tilewright.runtime import host

Array = NDArray[Any]


def apply_requant(acc: Array, requant: g.Requant) -> NDArray[np.int8]:
    """``requant`` applied to int32 accumulators of shape (..., C)."""
    return requantize(
        acc,
        requant.bias,
        requant.multiplier,
        requant.shift,
        requant.offset,
        requant.rounding,
        requant.zero_point,
        requant.lo,
        requant.hi,
    )


def apply_scale(x: Array, scale: g.Scale) -> NDArray[np.int32]:
    """``scale`` applied to an int8 tensor."""
    if scale.table is not None:
        x = np.frombuffer(scale.table, np.int8)[np.asarray(x).view(np.uint8)]
    return rescale(x, scale.bias, scale.multiplier, scale.shift, scale.offset, scale.rounding)


def pad(x: Array, padding: tuple[int, int, int, int], value: int) -> Array:
    """An NHWC image with ``padding`` = (top, left, bottom, right) pixels of ``value`` around it, or so many less."""
    top, left, bottom, right = (max(0, p) for p in padding)
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)
    top, left, bottom, right = (max(0, -p) for p in padding)
    return wide[:, top : wide.shape[1] - bottom, left : wide.shape[2] - right]


def read_by(op: g.Conv2D, x: Array) -> Array:
    """The image that a convolution's kernel runs over: spread, with its padding, less what is left out."""
    if op.spread == (1, 1):
        return pad(x, op.padding, op.pad_value)
    n, height, width, channels = x.shape
    down, across = op.spread
    wide = np.full((n, (height - 1) * down + 1, (width - 1) * across + 1, channels), op.pad_value, x.dtype)
    wide[:, ::down, ::across] = x
    return pad(wide, op.padding, op.pad_value)


def windows(x: Array, kernel: tuple[int, int], strides: tuple[int, int], dilation: tuple[int, int] = (1, 1)) -> Array:
    """View of shape (N, OH, OW, C, KH, KW)."""
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    view = sliding_window_view(x, extent, axis=(1, 2))
    return view[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]


def _sums(view: Array, weight: Array) -> Array:
    """``sum x * w`` over windows (N, OH, OW, IC, KH, KW) with weights (OC, KH, KW, IC), int64."""
    n, oh, ow = view.shape[:3]
    patches = view.reshape(n * oh * ow, -1).astype(np.float64)
    kernel = weight.transpose(3, 1, 2, 0).reshape(patches.shape[1], -1).astype(np.float64)
    return (patches @ kernel).reshape(n, oh, ow, -1).astype(np.int64)


def _conv2d(op: g.Conv2D, x: Array) -> Array:
    _, kh, kw, per_group = op.weight.shape
    view = windows(read_by(op, x), (kh, kw), op.strides, op.dilation)
    weights = np.split(op.weight, op.groups)
    acc = [_sums(view[:, :, :, k * per_group : (k + 1) * per_group], part) for k, part in enumerate(weights)]
    return apply_requant(wrap_int32(np.concatenate(acc, axis=-1)), op.requant)


def _partial_sums(op: g.PartialSums, x: Array) -> Array:
    _, kh, kw, channels = op.weight.shape
    share = x[..., op.first : op.first + channels]
    view = windows(pad(share, op.padding, op.pad_value), (kh, kw), op.strides, op.dilation)
    acc = wrap_int32(_sums(view, op.weight))
    planes = zip(op.factors, op.requants, strict=True)
    return np.concatenate([apply_requant(wrap_int32(acc * f), requant) for f, requant in planes], axis=-1)


def _total(op: g.Total, *inputs: Array) -> Array:
    channels = len(op.requant.bias)
    acc = np.zeros((*inputs[0].shape[:-1], channels), np.int64)
    for x in inputs:
        for k, scale in enumerate(op.scales):
            acc += apply_scale(x[..., k * op.pitch + op.first :][..., :channels], scale)
    return apply_requant(wrap_int32(acc), op.requant)


def _depthwise(op: g.DepthwiseConv2D, x: Array) -> Array:
    view = windows(pad(x, op.padding, op.pad_value), op.weight.shape[:2], op.strides, op.dilation)
    acc = np.einsum("nhwcij,ijc->nhwc", view.astype(np.int32), op.weight.astype(np.int32))
    return apply_requant(acc, op.requant)


def by_head(x: Array, heads: int) -> Array:
    """A tensor of :class:`~tilewright.jit.graph.MatMul` as (heads, pixels, channels of a head), a view of it."""
    _, rows, pixels, channels = x.shape
    return x[0] if rows == heads else x.reshape(pixels, heads, channels // heads).transpose(1, 0, 2)


def of_heads(x: Array, merged: bool) -> Array:
    """The tensor of (heads, pixels, channels of a head)."""
    return x.transpose(1, 0, 2).reshape(1, 1, x.shape[1], -1) if merged else x[None]


def _matmul(op: g.MatMul, a: Array, b: Array) -> Array:
    left, right = (
        by_head(x, op.heads).astype(np.float64) - offset for x, offset in zip((a, b), op.offsets, strict=True)
    )
    result = apply_requant(wrap_int32((left @ right.transpose(0, 2, 1)).astype(np.int64)), op.requant)
    return of_heads(result, op.merged)


def _pairwise(join: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """What an operator of two tensors means, which it joins by ``join``."""

    def rule(op: g.Pairwise, a: Array, b: Array) -> Array:
        first, second, *corrections = (apply_scale((a, b)[k], scale).astype(np.int64) for k, scale in op.terms)
        return apply_requant(wrap_int32(sum(corrections, join(first, second))), op.requant)

    return rule


def valid_counts(size: tuple[int, int], op: g.AvgPool2D) -> Array:
    """Number of unpadded elements in each window, (OH, OW), for an input of ``size`` (H, W)."""
    ones = pad(np.ones((1, *size, 1), np.int64), op.padding, 0)
    return windows(ones, op.kernel, op.strides)[0, :, :, 0].sum(axis=(-1, -2))


def _average_pool(op: g.AvgPool2D, x: Array) -> Array:
    acc = windows(pad(x.astype(np.int64), op.padding, 0), op.kernel, op.strides).sum(axis=(-1, -2))
    counts = valid_counts((x.shape[1], x.shape[2]), op)
    result = np.empty(acc.shape, np.int8)
    for count, requant in op.requants.items():
        where = counts == count
        result[:, where] = apply_requant(acc[:, where], requant)
    return result


def _max_pool(op: g.MaxPool2D, x: Array) -> Array:
    view = windows(pad(x, op.padding, -128), op.kernel, op.strides)
    return np.clip(view.max(axis=(-1, -2)), op.lo, op.hi)


def _requantize(op: g.Requantize, x: Array) -> Array:
    return apply_requant(apply_scale(x, op.scale), op.requant)


def resampled(x: Array, rows: Sampling, columns: Sampling, offset: int) -> NDArray[np.int64]:
    """The sums of :class:`~tilewright.jit.graph.Resample`, (1, OH, OW, C)."""
    return columns.apply(rows.apply(x.astype(np.int64) - offset, 1), 2)


def sliced(op: g.Slice, x: Array) -> Array:
    """The rows and columns that the operator takes."""
    rows, columns = (
        slice(first, first + (count - 1) * step + 1, step)
        for first, count, step in zip(op.begin, op.size, op.strides, strict=True)
    )
    return x[:, rows, columns]


def _concat(op: g.Concat, *inputs: Array) -> Array:
    parts = [
        x if part is None else apply_requant(apply_scale(x, part[0]), part[1])
        for x, part in zip(inputs, op.parts, strict=True)
    ]
    return np.concatenate(parts, axis=-1)


_EVALUATE: dict[type[g.Op], Callable[..., Any]] = {
    g.Conv2D: _conv2d,
    g.PartialSums: _partial_sums,
    g.Total: _total,
    g.DepthwiseConv2D: _depthwise,
    g.Add: _pairwise(np.add),
    g.Multiply: _pairwise(np.multiply),
    g.Maximum: _pairwise(np.maximum),
    g.Minimum: _pairwise(np.minimum),
    g.MatMul: _matmul,
    g.AvgPool2D: _average_pool,
    g.MaxPool2D: _max_pool,
    g.Requantize: _requantize,
    g.Pad: lambda op, x: pad(x, op.padding, op.pad_value),
    g.Slice: sliced,
    g.Concat: _concat,
    Lstm: lambda op, x, *states: lstm_on(op, x, *states) if states else lstm(op, x),
    Svdf: svdf,
    g.Resample: lambda op, x: apply_requant(resampled(x, op.rows, op.columns, op.offset), op.requant),
    g.Reshape: lambda op, x: host.reshape(x, op.shape),
    g.Softmax: lambda op, x: host.softmax_int8(x, op.multiplier, op.left_shift, op.diff_min),
    g.TableSoftmax: lambda op, x: host.softmax_by_table(x, np.array(op.table, np.float32), op.factor, op.zero_point),
    g.HostCast: lambda op, x: host.cast(x, op.offset, op.dtype),
    g.Constant: lambda op, x: op.values,
    g.QuantizeFloat: lambda op, x: host.quantize(x, op.scale, op.zero_point, op.dtype, op.rounding),
    g.DequantizeFloat: lambda op, x: host.dequantize(x, op.scale, op.zero_point),
    g.Transpose: lambda op, x: np.ascontiguousarray(x.transpose(op.permutation)),
}


def result_of(op: g.Op, *inputs: Array) -> Array:
    """What an operator of a kind that no interpreter runs gives for these inputs."""
    result: Array = _EVALUATE[type(op)](op, *inputs)
    return result


def evaluate(graph: g.Graph, inputs: dict[str, Array], keep: bool = False) -> dict[str, Array]:
    """The graph's outputs by name; with ``keep`` every tensor, inputs included.

    ``inputs``: one array per graph input, of the shape and dtype in ``graph.tensors``. Raises ValueError for a
    missing input or a wrong shape or dtype, and where an operator's result contradicts its declared shape.
    """
    values: dict[str, Array] = {}
    for name in graph.inputs:
        spec = graph.tensors[name]
        if name not in inputs:
            raise ValueError(f"{graph.name}: input {name!r} is missing")
        value = np.asarray(inputs[name])
        if value.shape != spec.shape or value.dtype != spec.dtype:
            raise ValueError(
                f"{graph.name}: input {name!r} is {value.dtype}{value.shape}, expected {spec.dtype}{spec.shape}"
            )
        values[name] = value
    for op in graph.ops:
        if type(op) not in _EVALUATE:
            raise ValueError(f"{graph.name}: {op.name} ({op.kind}) runs in an interpreter")
        found = _EVALUATE[type(op)](op, *(values[name] for name in op.inputs))
        for name, result in zip(op.outputs, found if isinstance(found, tuple) else (found,), strict=True):
            spec = graph.tensors[name]
            if result.shape != spec.shape or result.dtype != spec.dtype:
                raise ValueError(
                    f"{graph.name}: {op.name} gives {result.dtype}{result.shape}, declared {spec.dtype}{spec.shape}"
                )
            values[name] = result
    return values if keep else {name: values[name] for name in graph.outputs}
