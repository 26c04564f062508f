"""What a graph means, in the algebra: every operator from its definition in :mod:`tilewright.jit.graph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import Rounding, wrap_int32
from tilewright.jit import graph as g
from tilewright.jit.errors import Unfollowed
from tilewright.jit.proof.algebra import LINEAR, MAXSET, MINSET, PLAIN, SUM_TERMS, table_form
from tilewright.jit.proof.elements import (
    map_elements,
    members,
    multiply_elements,
    product_of_elements,
    reduce_elements,
    requantize_elements,
)
from tilewright.jit.recurrent.ops import Svdf
from tilewright.jit.reference import apply_scale, by_head, of_heads, pad, read_by, sliced, valid_counts, windows

Elements = NDArray[np.float64]

_BLOCK = 1 << 20  #: elements of one matrix of patches
_INT8 = np.arange(-128, 128).astype(np.int8)


def evaluate_elements(
    graph: g.Graph, inputs: Mapping[str, Elements], seed: int, keep: bool = False
) -> dict[str, Elements]:
    """The graph's outputs by name, reduced; with ``keep`` every tensor.

    ``inputs``: elements in the shape of each graph input. Raises :class:`Unfollowed` for an operator without a meaning
    in the algebra.
    """
    values = dict(inputs)
    last = {t: number for number, op in enumerate(graph.ops) for t in op.inputs}
    for number, op in enumerate(graph.ops):
        rule = _RULES.get(type(op))
        if rule is None:
            raise Unfollowed(f"{op.name} ({op.kind}): the algebra has no form of the operator")
        result = rule(op, seed, *(values[t] for t in op.inputs))
        for t, found in zip(op.outputs, result if isinstance(result, tuple) else (result,), strict=True):
            if found.shape != graph.tensors[t].shape:
                raise ValueError(f"{graph.name}: {op.name} gives {found.shape}, not the declared shape")
            values[t] = found
        if not keep:
            for t in op.inputs:
                if last[t] == number and t not in graph.outputs:
                    values.pop(t, None)
    return values if keep else {t: values[t] for t in graph.outputs}


def _requantize(acc: Elements, kind: int, requant: g.Requant, seed: int) -> Elements:
    """``acc`` of shape (..., C)."""
    channels = acc.shape[-1]
    fields = (requant.bias, requant.multiplier, requant.shift, requant.offset)
    prm = np.stack([np.broadcast_to(np.asarray(f, np.int64), channels) for f in fields])
    flat = np.ascontiguousarray(acc, np.float64).reshape(-1, channels)
    out = np.empty_like(flat)
    rounding = int(requant.rounding)
    requantize_elements(flat, kind, prm, rounding, requant.zero_point, requant.lo, requant.hi, seed, out)
    return out.reshape(acc.shape)


def _sum(acc: Elements, weights: NDArray[np.int8], requant: g.Requant, seed: int) -> Elements:
    """Requantised sums of shape (..., C), ``weights`` (C, terms): a single weight of 1 selects an int8 value."""
    result = _requantize(acc, LINEAR, requant, seed)
    used = np.count_nonzero(weights, axis=1)
    plain = (used == 0) | ((used == 1) & (weights.sum(axis=1, dtype=np.int64) == 1))
    if plain.any():
        result[..., plain] = _requantize(acc, PLAIN, requant, seed)[..., plain]
    return result


def _scale(x: Elements, scale: g.Scale, seed: int) -> tuple[Elements, int]:
    """Rescaled elements, and what kind of accumulator they are: the table of all int8 values decides."""
    form = table_form(seed, apply_scale(_INT8, scale).astype(np.int64))
    out = np.empty(x.size)
    map_elements(np.ascontiguousarray(x).ravel(), *form, out)
    return out.reshape(x.shape), PLAIN if tuple(form) == (1, 0, 0) else LINEAR


def _products(patches: Elements, kernel: Elements) -> Elements:
    """``patches @ kernel`` over the field, not reduced; (N, K) and (K, M)."""
    total = np.zeros((patches.shape[0], kernel.shape[1]))
    for first in range(0, kernel.shape[0], SUM_TERMS):
        part = patches[:, first : first + SUM_TERMS] @ kernel[first : first + SUM_TERMS]
        if kernel.shape[0] > SUM_TERMS:
            reduce_elements(part.reshape(-1))
        total += part
    return total


def _matmul(op: g.MatMul, seed: int, a: Elements, b: Elements) -> Elements:
    sides = zip((a, b), op.offsets, strict=True)
    left, right = (np.ascontiguousarray(by_head(x, op.heads)) - offset for x, offset in sides)
    for side in (left, right):
        reduce_elements(side.reshape(-1))
    heads = [product_of_elements(x, y) for x, y in zip(left, right, strict=True)]
    return of_heads(_requantize(np.stack(heads), LINEAR, op.requant, seed), op.merged)


def _convolved(view: Elements, weight: NDArray[np.int8]) -> Elements:
    """Sums over windows (OH, OW, IC, KH, KW) with weights (OC, KH, KW, IC), (OH, OW, OC), not reduced."""
    oh, ow = view.shape[:2]
    kernel = weight.transpose(1, 2, 3, 0).reshape(-1, len(weight)).astype(np.float64)
    acc = np.empty((oh, ow, len(weight)))
    rows = max(1, _BLOCK // (ow * len(kernel)))
    for y in range(0, oh, rows):
        part = view[y : y + rows].transpose(0, 1, 3, 4, 2)
        acc[y : y + rows] = _products(part.reshape(-1, len(kernel)), kernel).reshape(len(part), ow, -1)
    return acc


def _conv2d(op: g.Conv2D, seed: int, x: Elements) -> Elements:
    channels_out, kh, kw, per_group = op.weight.shape
    view = windows(read_by(op, x), (kh, kw), op.strides, op.dilation)[0]
    weights = enumerate(np.split(op.weight, op.groups))
    by_group = [_convolved(view[:, :, k * per_group : (k + 1) * per_group], part) for k, part in weights]
    acc = np.concatenate(by_group, axis=2)
    if op.spread == (1, 1):
        return _sum(acc[None], op.weight.reshape(channels_out, -1), op.requant, seed)
    result = np.empty((1, *acc.shape))
    for down, across in np.ndindex(*op.spread):
        places = (slice(down, None, op.spread[0]), slice(across, None, op.spread[1]))
        met = [
            (first - before + np.arange(kernel) * apart) % step == 0
            for first, before, kernel, apart, step in zip(
                (down, across), op.padding[:2], (kh, kw), op.dilation, op.spread, strict=True
            )
        ]
        used = op.weight[:, met[0]][:, :, met[1]]
        # what lies between pixels is a constant, which the result does not hang on
        sums = (weight.sum(axis=(1, 2, 3), dtype=np.int64) for weight in (op.weight, used))
        between = op.pad_value * np.subtract(*sums)
        requant = replace(op.requant, bias=wrap_int32(op.requant.bias + between).astype(np.int32))
        result[0][places] = _sum(acc[places] - between, used.reshape(channels_out, used[0].size), requant, seed)
    return result


def _partial_sums(op: g.PartialSums, seed: int, x: Elements) -> Elements:
    channels_out, kh, kw, channels = op.weight.shape
    share = pad(x[..., op.first : op.first + channels], op.padding, op.pad_value)
    acc = _convolved(windows(share, (kh, kw), op.strides, op.dilation)[0], op.weight)[None]
    reduce_elements(acc.reshape(-1))
    planes = [_sum(acc, op.weight.reshape(channels_out, -1), op.requants[0], seed)]
    for factor, requant in zip(op.factors[1:], op.requants[1:], strict=True):
        moved = _times(np.array([float(factor)]), acc.ravel()).reshape(acc.shape)
        planes.append(_requantize(moved, LINEAR, requant, seed))
    return np.concatenate(planes, axis=-1)


def _total(op: g.Total, seed: int, *inputs: Elements) -> Elements:
    channels = len(op.requant.bias)
    scaled = [
        _scale(x[..., k * op.pitch + op.first :][..., :channels], scale, seed)
        for x in inputs for k, scale in enumerate(op.scales)
    ]  # fmt: skip
    kind = scaled[0][1] if len(scaled) == 1 else LINEAR
    return _requantize(np.sum([values for values, _ in scaled], axis=0), kind, op.requant, seed)


def _tap_sums(x: Elements, kernel: tuple[int, int], strides: Any, dilation: Any, weight: Any) -> Elements:
    """``sum x * weight[ky, kx]`` over each window, one tap after another; ``weight`` (KH, KW, C) or None for ones."""
    view = windows(x, kernel, strides, dilation)
    acc = np.zeros(view.shape[:4])
    for tap, (ky, kx) in enumerate(np.ndindex(*kernel)):
        values = view[..., ky, kx]
        acc += values if weight is None else values * weight[ky, kx].astype(np.float64)
        if tap % SUM_TERMS == SUM_TERMS - 1:
            reduce_elements(acc.reshape(-1))
    return acc


def _depthwise(op: g.DepthwiseConv2D, seed: int, x: Elements) -> Elements:
    kernel = (op.weight.shape[0], op.weight.shape[1])
    acc = _tap_sums(pad(x, op.padding, op.pad_value), kernel, op.strides, op.dilation, op.weight)
    return _sum(acc, op.weight.reshape(-1, op.weight.shape[2]).T, op.requant, seed)


def _scaled_pair(op: g.Pairwise, seed: int, a: Elements, b: Elements) -> tuple[Elements, Elements, bool]:
    """Both operands rescaled, in the shape of the result, and whether both are int8 values."""
    (x, kind_a), (y, kind_b) = _scale(a, op.scale_a, seed), _scale(b, op.scale_b, seed)
    return x, np.broadcast_to(y, x.shape), kind_a == kind_b == PLAIN


def _add(op: g.Add, seed: int, a: Elements, b: Elements) -> Elements:
    x, y, *corrections = (_scale((a, b)[k], scale, seed)[0] for k, scale in op.terms)
    return _requantize(sum(corrections, x + y), LINEAR, op.requant, seed)


def _multiply(op: g.Multiply, seed: int, a: Elements, b: Elements) -> Elements:
    x, y, _ = _scaled_pair(op, seed, a, b)
    total = np.empty(x.size)
    multiply_elements(x.ravel(), y.ravel(), total)
    return _requantize(total.reshape(x.shape), LINEAR, op.requant, seed)


def _extreme(op: g.Pairwise, seed: int, a: Elements, b: Elements) -> Elements:
    *operands, plain = _scaled_pair(op, seed, a, b)
    if not plain:
        raise Unfollowed(f"{op.name} ({op.kind}): of other than int8 values as they are")
    kind = MAXSET if isinstance(op, g.Maximum) else MINSET
    found = [np.empty(operands[0].size) for _ in operands]
    for operand, each in zip(operands, found, strict=True):
        members(operand.ravel(), kind, seed, each)
    return _requantize((found[0] + found[1]).reshape(operands[0].shape), kind, op.requant, seed)


def _average_pool(op: g.AvgPool2D, seed: int, x: Elements) -> Elements:
    acc = _tap_sums(pad(x, op.padding, 0), op.kernel, op.strides, (1, 1), None)
    counts = valid_counts((x.shape[1], x.shape[2]), op)
    result = np.full(acc.shape, np.nan)
    kind = PLAIN if op.kernel == (1, 1) else LINEAR
    for count, requant in op.requants.items():
        where = counts == count
        result[:, where] = _requantize(acc[:, where], kind, requant, seed)
    return result


def _max_pool(op: g.MaxPool2D, seed: int, x: Elements) -> Elements:
    padded = np.ascontiguousarray(pad(x, op.padding, -128))
    one, zero = np.array([1], np.int32), np.array([0], np.int32)
    clamp = g.Requant(zero, one, zero, zero, Rounding.SINGLE, 0, op.lo, op.hi)
    if op.kernel == (1, 1):
        return _requantize(padded[:, :: op.strides[0], :: op.strides[1]], PLAIN, clamp, seed)
    each = np.empty(padded.size)
    members(padded.ravel(), MAXSET, seed, each)
    return _requantize(_tap_sums(each.reshape(padded.shape), op.kernel, op.strides, (1, 1), None), MAXSET, clamp, seed)


def _rescaled(x: Elements, scale: g.Scale, requant: g.Requant, seed: int) -> Elements:
    acc, kind = _scale(x, scale, seed)
    return _requantize(acc, kind, requant, seed)


def _resample(op: g.Resample, seed: int, x: Elements) -> Elements:
    """Rows and columns that take one int8 value as it is select it; every other value is a sum."""
    acc = np.empty((1, len(op.rows), len(op.columns), x.shape[3]))
    across = list(zip(op.columns.places.T, op.columns.weights.T.astype(np.float64), strict=True))
    for y, taps in enumerate(op.rows.taps()):
        total = np.zeros(acc.shape[2:])
        for i, by in taps:
            for places, weights in across:
                total += _times(by * weights, x[0, i, places] - op.offset)
        reduce_elements(total.reshape(-1))
        acc[0, y] = total
    result = _requantize(acc, LINEAR, op.requant, seed)
    if op.offset == 0:
        plain = np.ix_(op.rows.selects, op.columns.selects)
        result[0][plain] = _requantize(acc[0][plain], PLAIN, op.requant, seed)
    return result


def _times(weights: NDArray[np.float64], values: Elements) -> Elements:
    """The products of weights up to 2^24 and elements, (weights, values), reduced; ``values`` may have a row each."""
    high = np.floor(values / 65536.0)
    product = weights[:, None] * high
    reduce_elements(product.reshape(-1))
    product = product * 65536.0 + weights[:, None] * (values - high * 65536.0)
    reduce_elements(product.reshape(-1))
    return product


def _svdf(op: Svdf, seed: int, x: Elements, *states: Elements) -> tuple[Elements, ...]:
    """Of int8; the bytes of int16 are beyond the algebra. Biases are in accumulators, as the program has them."""
    if op.state_bits != 8:
        raise Unfollowed(f"{op.name} ({op.kind}): the algebra has no form of a state of int16")
    units, zero = len(op.bias), np.zeros(1, np.int32)

    def scaled(sums: Elements, bias: NDArray[np.int64], multiplier: int, shift: int, zero_point: int) -> Elements:
        numbers = np.array([multiplier], np.int32), np.array([shift], np.int32)
        requant = g.Requant(zero, *numbers, zero, Rounding.DOUBLE, zero_point, -128, 127)
        reduce_elements(sums.reshape(-1))
        return _requantize(sums + wrap_int32(bias), LINEAR, requant, seed)

    part = op.feature
    sums = _products(x.reshape(-1, x.shape[-1]), part.weight.T.astype(np.float64))
    fresh = scaled(sums, part.bias, part.multiplier, part.shift, op.state_zero_point)
    # rank by rank, as states are
    past = states[0].reshape(len(fresh), -1, op.rank, units) if states else np.zeros((len(fresh), 0, op.rank, units))
    window = np.concatenate([past, fresh.reshape(-1, 1, units, op.rank).swapaxes(2, 3)], axis=1)
    time = op.time.reshape(units, op.rank, op.memory).T
    total = np.zeros((len(fresh), units))
    for k, rank in np.ndindex(op.memory, op.rank):
        total += window[:, k, rank] * time[k, rank].astype(np.float64)
        reduce_elements(total.reshape(-1))
    moved = op.bias - op.state_zero_point * op.time.reshape(units, -1).sum(axis=1, dtype=np.int64)
    result = scaled(total, moved, op.multiplier, op.shift, op.zero_point)
    return result.reshape(*x.shape[:-1], units), *(window[:, 1:].reshape(state.shape) for state in states)


def _concat(op: g.Concat, seed: int, *inputs: Elements) -> Elements:
    parts = zip(inputs, op.parts, strict=True)
    return np.concatenate([x if part is None else _rescaled(x, *part, seed) for x, part in parts], axis=-1)


_RULES: dict[type[g.Op], Callable[..., Elements | tuple[Elements, ...]]] = {
    g.Conv2D: _conv2d,
    g.PartialSums: _partial_sums,
    g.Total: _total,
    g.DepthwiseConv2D: _depthwise,
    g.Add: _add,
    g.Multiply: _multiply,
    g.Maximum: _extreme,
    g.Minimum: _extreme,
    g.MatMul: _matmul,
    g.AvgPool2D: _average_pool,
    g.MaxPool2D: _max_pool,
    g.Requantize: lambda op, seed, x: _rescaled(x, op.scale, op.requant, seed),
    g.Pad: lambda op, seed, x: pad(x, op.padding, op.pad_value),
    g.Slice: lambda op, seed, x: sliced(op, x),
    g.Concat: _concat,
    g.Resample: _resample,
    g.Reshape: lambda op, seed, x: x.reshape(op.shape),
    Svdf: _svdf,
}
