"""What is known of each channel of a tensor for all inputs of the network: its range, and which one it equals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit import graph as g
from tilewright.jit.reference import apply_requant, apply_scale

Ints = NDArray[np.int64]

_INT8 = np.arange(-128, 128).astype(np.int8)
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Facts:
    """Of a tensor with C channels, arrays of shape (C,).

    All values of channel c lie in ``lo[c] .. hi[c]``; channel c equals channel ``same[c] <= c``, pixel by pixel.
    """

    lo: Ints
    hi: Ints
    same: Ints

    @property
    def constant(self) -> NDArray[np.bool_]:
        """The channels that have one value whatever the input."""
        return self.lo == self.hi

    def padded(self, padding: tuple[int, int, int, int], value: int) -> Facts:
        """Of the tensor with pixels of ``value`` around it."""
        if not any(padding):
            return self
        return Facts(np.minimum(self.lo, value), np.maximum(self.hi, value), self.same)

    def read_by(self, op: g.Conv2D) -> Facts:
        """Of what a convolution's kernel runs over."""
        return self.padded((1, 1, 1, 1) if op.spread != (1, 1) else op.padding, op.pad_value)


def unknown(shape: tuple[int, ...]) -> Facts:
    """Of an int8 tensor that may hold anything."""
    channels = shape[-1] if shape else 1
    return Facts(np.full(channels, -128), np.full(channels, 127), np.arange(channels))


def output_facts(graph: g.Graph, op: g.Op, inputs: list[Facts]) -> dict[str, Facts]:
    """Of an operator's outputs by name, from those of its inputs."""
    rule = _RULES.get(type(op))
    if rule is None:
        return {name: unknown(graph.tensors[name].shape) for name in op.outputs}
    return {op.output: rule(op, *inputs)}


def _first_equal(*columns: NDArray[Any]) -> Ints:
    """For each row of the columns together, the first row that is equal."""
    rows = np.column_stack(columns)
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row.tobytes(), k) for k, row in enumerate(rows)], np.int64)


def _constants(requant: g.Requant) -> NDArray[np.int32]:
    return np.column_stack([requant.bias, requant.multiplier, requant.shift, requant.offset])


def _requantized(requant: g.Requant, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """The range of requantised sums: its ends' images, since requantisation never falls where nothing wraps."""
    bias = requant.bias.astype(np.int64)
    exact = (lo == hi) | ((lo + bias >= _INT32.min) & (hi + bias <= _INT32.max))
    first, last = (apply_requant(wrap_int32(end), requant).astype(np.int64) for end in (lo, hi))
    return np.where(exact, first, requant.lo), np.where(exact, last, requant.hi)


def _conv2d(op: g.Conv2D, x: Facts) -> Facts:
    x = x.read_by(op)
    outputs, kh, kw, per_group = op.weight.shape
    taps = op.weight.reshape(op.groups, -1, kh * kw, per_group)
    middle, spread = ((end.reshape(op.groups, -1, 1)).astype(np.float64) for end in (x.hi + x.lo, x.hi - x.lo))
    # twice the sums' middle and spread, integers far below 2^53
    twice = (taps.sum(2, np.int32) @ middle).ravel()
    around = (np.abs(taps, dtype=np.int16).sum(2, np.int32) @ spread).ravel()
    lo, hi = ((twice + sign * around).astype(np.int64) // 2 for sign in (-1, 1))
    same = _first_equal(np.arange(outputs) // taps.shape[1], lo, hi, _constants(op.requant))
    repeated = np.flatnonzero(np.isin(same, same[same != np.arange(outputs)]))
    seen: dict[tuple[int, bytes], int] = {}
    same[repeated] = [seen.setdefault((int(same[k]), op.weight[k].tobytes()), k) for k in repeated.tolist()]
    return Facts(*_requantized(op.requant, lo, hi), same)


def _depthwise(op: g.DepthwiseConv2D, x: Facts) -> Facts:
    x = x.padded(op.padding, op.pad_value)
    taps = op.weight.reshape(-1, op.weight.shape[2]).astype(np.int64)
    above, below = np.maximum(taps, 0).sum(0), np.minimum(taps, 0).sum(0)
    lo, hi = above * x.lo + below * x.hi, above * x.hi + below * x.lo
    return Facts(*_requantized(op.requant, lo, hi), _first_equal(x.same, taps.T, _constants(op.requant)))


def _scaled(scale: g.Scale, x: Facts) -> tuple[Ints, Ints]:
    """The range of a rescaled tensor."""
    table = apply_scale(_INT8, scale).astype(np.int64)
    ranges = list(zip(x.lo.tolist(), x.hi.tolist(), strict=True))
    ends = {(lo, hi): (table[lo + 128 : hi + 129].min(), table[lo + 128 : hi + 129].max()) for lo, hi in set(ranges)}
    return np.array([ends[r][0] for r in ranges]), np.array([ends[r][1] for r in ranges])


def _rescaled(scale: g.Scale, requant: g.Requant, x: Facts) -> Facts:
    return Facts(*_requantized(requant, *_scaled(scale, x)), _first_equal(x.same, _constants(requant)))


def _pairwise(join: np.ufunc) -> Callable[[g.Pairwise, Facts, Facts], Facts]:
    """``join`` takes its extremes where its operands take theirs."""

    def rule(op: g.Pairwise, a: Facts, b: Facts) -> Facts:
        first, second, *corrections = (_scaled(scale, (a, b)[k]) for k, scale in op.terms)
        corners = [join(x, y) for x in first for y in second]
        ends = np.min(corners, axis=0), np.max(corners, axis=0)
        low, high = (end + sum(each[k] for each in corrections) for k, end in enumerate(ends))
        return Facts(*_requantized(op.requant, low, high), _first_equal(a.same, b.same, _constants(op.requant)))

    return rule


def _average_pool(op: g.AvgPool2D, x: Facts) -> Facts:
    ends = [_requantized(requant, n * x.lo, n * x.hi) for n, requant in op.requants.items()]
    same = _first_equal(x.same, *(_constants(requant) for requant in op.requants.values()))
    return Facts(np.min([lo for lo, _ in ends], axis=0), np.max([hi for _, hi in ends], axis=0), same)


def _max_pool(op: g.MaxPool2D, x: Facts) -> Facts:
    top, left, bottom, right = op.padding
    if max(top, bottom) >= op.kernel[0] or max(left, right) >= op.kernel[1]:
        x = x.padded(op.padding, -128)  # there are windows of padding alone
    return Facts(x.lo.clip(op.lo, op.hi), x.hi.clip(op.lo, op.hi), x.same)


def _concat(op: g.Concat, *inputs: Facts) -> Facts:
    parts = [x if part is None else _rescaled(*part, x) for x, part in zip(inputs, op.parts, strict=True)]
    firsts = np.cumsum([0, *(len(part.same) for part in parts[:-1])])
    same = [part.same + first for part, first in zip(parts, firsts, strict=True)]
    return _joined(parts, same)


def _joined(parts: Iterable[Facts], same: list[Ints]) -> Facts:
    parts = list(parts)
    return Facts(np.concatenate([p.lo for p in parts]), np.concatenate([p.hi for p in parts]), np.concatenate(same))


def _reshape(op: g.Reshape, x: Facts) -> Facts:
    before, after = len(x.same), op.shape[-1]
    if after % before:
        return unknown(op.shape)
    times = after // before  # pixels of the input in one of the output
    return _joined([x] * times, [x.same + k * before for k in range(times)])


_RULES: dict[type[g.Op], Callable[..., Facts]] = {
    g.Conv2D: _conv2d,
    g.DepthwiseConv2D: _depthwise,
    g.Add: _pairwise(np.add),
    g.Multiply: _pairwise(np.multiply),
    g.Maximum: _pairwise(np.maximum),
    g.Minimum: _pairwise(np.minimum),
    g.AvgPool2D: _average_pool,
    g.MaxPool2D: _max_pool,
    g.Requantize: lambda op, x: _rescaled(op.scale, op.requant, x),
    g.Pad: lambda op, x: x.padded(op.padding, op.pad_value),
    g.Slice: lambda op, x: x,
    g.Concat: _concat,
    g.Reshape: _reshape,
}
