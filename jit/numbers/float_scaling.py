"""Output stages that scale in floating point, in integers.

ONNX Runtime computes ``clamp(rint(float32(acc) * scale) + zero_point)`` in float32: the rounding mode FLOAT32 is that
for every accumulator and every scale. Other stages (LiteRT's fully connected layers, which scale in float64 and round
halves away from zero; several float32 operations in a row; functions of one tensor that a table gives) are staircases:
each is fixed by its thresholds, the smallest accumulator of each output level. A fixed-point pair (m, t) with the
constant R added before the shift has the same thresholds within the reachable range exactly when, for each level k with
threshold T (levels relative to the zero point),

    T * m + R >= k * 2^t   and   (T - 1) * m + R < k * 2^t.

So R has an interval for given m, and m one for which R's is not empty; both are computed, not searched for. Whatever
is chosen is then checked against the thresholds with the reference arithmetic: that check is the proof.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.isa.arithmetic import Rounding, scale_round
from tilewright.jit.numbers.scales import NotRepresentable, quantize_multiplier

Int64 = NDArray[np.int64]
_REMEMBERED = 512  #: layers
_SOLVED: dict[bytes, Tuned] = {}
_MAX_SHIFT = 58  # keeps level * 2^t inside int64; float32 scales lose nothing by it
_LARGEST = 128.0  #: scale that FLOAT32 has not
_MOST_SHIFT = 63  #: of the field


@dataclass(frozen=True)
class Tuned:
    """Constants per channel, (C,), and for which channels they have the thresholds."""

    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    offset: NDArray[np.int32]
    rounding: Rounding
    exact: NDArray[np.bool_]


def float32_constants(scales: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(multiplier, shift), each (C,), of float32 scales for the rounding mode FLOAT32.

    Raises NotRepresentable for a scale that is negative, no number, or 128 or more.
    """
    scale = np.asarray(scales, np.float32)
    if not ((scale >= 0) & (scale < _LARGEST)).all():
        raise NotRepresentable(f"a scale that is not within 0 and {_LARGEST:g}")
    fraction, exponent = np.frexp(scale)
    multiplier = np.ldexp(fraction, Rounding.FLOAT32.precision).astype(np.int64) << np.maximum(exponent, 0)
    nothing = -exponent > _MOST_SHIFT  # every int32 is scaled to less than a half
    multiplier, shift = np.where(nothing, 0, multiplier), np.where(nothing, 0, np.maximum(-exponent, 0))
    return multiplier.astype(np.int32), shift.astype(np.int32)


def require_float32(scales: ArrayLike, low: Int64, high: Int64) -> None:
    """Raises NotRepresentable where accumulators in [low, high] are beyond what FLOAT32 scales as float32 does, (C,).

    It rounds the product alone, ONNX Runtime the accumulator ahead of it: of 2^24 and more, that may differ. Where the
    scale is 2^-16 or more, or 2^-32 or less, all results of such accumulators are the same: clamped, or 0.
    """
    scale, far = np.asarray(scales, np.float64), np.maximum(np.abs(low), np.abs(high)) > 1 << 24
    if (far & (scale < 2.0**-16) & (scale > 2.0**-32)).any():
        raise NotRepresentable("sums beyond 2^24 that a scale below 2^-16 leaves within the range of the result")


def float_output(acc: ArrayLike, scale: ArrayLike, zero_point: int, lo: int, hi: int) -> Int64:
    """ONNX Runtime's output stage: ``clamp(rint(float32(acc) * scale) + zero_point, lo, hi)``."""
    with np.errstate(over="ignore", invalid="ignore"):  # a scale beyond float32 gives what it gives there
        product = np.asarray(acc, np.int64).astype(np.float32) * np.asarray(scale, np.float32)
        # clamped as float first, as there, so that huge products convert safely
        return np.rint(np.clip(product, lo - zero_point, hi - zero_point)).astype(np.int64) + zero_point


def double_output(acc: ArrayLike, scale: ArrayLike, zero_point: int, lo: int, hi: int) -> Int64:
    """LiteRT's fully connected output stage: ``acc * scale`` in float64, halves away from zero, then the zero point."""
    product = np.clip(np.asarray(acc, np.float64) * np.asarray(scale, np.float64), lo - zero_point, hi - zero_point)
    size = np.abs(product)
    whole = np.floor(size)
    return (np.sign(product) * (whole + (size - whole >= 0.5))).astype(np.int64) + zero_point


def thresholds(
    scale: NDArray[np.floating],
    low: Int64,
    high: Int64,
    zero_point: int,
    lo: int,
    hi: int,
    output: Callable[[Int64, NDArray[np.floating], int, int, int], Int64] = float_output,
) -> Int64:
    """(C, hi - lo): the smallest accumulator in [low, high + 1] whose output is at least lo + 1, ..., hi.

    high + 1 where no reachable accumulator gets there. ``scale``, ``low``, ``high``: (C,), scales positive.
    ``output``: the stage, a staircase.
    """
    level = np.arange(lo + 1, hi + 1, dtype=np.int64)[None, :]
    below, above = low[:, None], high[:, None] + 1
    with np.errstate(divide="ignore"):  # a scale of zero gets nowhere
        guess = (level - zero_point - 0.5) / scale.astype(np.float64)[:, None]
    guess = np.clip(guess, -(2.0**62), 2.0**62)
    slack = np.abs(guess) * 2.0**-20 + 4
    left = np.clip(np.floor(guess - slack), below, above).astype(np.int64)
    right = np.clip(np.ceil(guess + slack), below, above).astype(np.int64)
    return _first(left, right, lambda acc: output(acc, scale[:, None], zero_point, lo, hi) >= level)


def _first(left: Int64, right: Int64, reached: Callable[[Int64], NDArray[np.bool_]]) -> Int64:
    """The smallest accumulators in [left, right) that are ``reached``, or ``right``."""
    while (left < right).any():
        middle = (left + right) >> 1
        there, active = reached(middle), left < right
        right = np.where(active & there, middle, right)
        left = np.where(active & ~there, middle + 1, left)
    return left


@dataclass(frozen=True)
class _Stairs:
    """What an output stage does with the accumulators [low, high] of each channel, (C,): it reaches ``level`` (relative
    to the zero point) at ``table``, (C, levels), and not before."""

    table: Int64
    level: Int64
    low: Int64
    high: Int64


@dataclass(frozen=True)
class _Scaling:
    """Fixed-point constants by channel, (C,), that are to do the same."""

    multiplier: Int64
    shift: Int64
    offset: Int64
    rounding: Rounding

    def reaches(self, acc: Int64, level: Int64, rows: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.bool_]:
        """Whether accumulators (C, levels) of some channels get as high as ``level``."""
        m, t, r = (v[rows, None] for v in (self.multiplier, self.shift, self.offset))
        return np.asarray(scale_round(acc, m, t, r, self.rounding) >= level)


def tune(scales: ArrayLike, low: Int64, high: Int64, zero_point: int, lo: int, hi: int, table: Int64) -> Tuned:
    """Constants with the thresholds of an output stage over [low, high] (biased accumulators) per channel.

    ``scales``: (C,), about those of the stage. ``table``: its thresholds, (C, hi - lo). Remembered: a layer is lowered
    when it is matched and again when its region becomes a graph.
    """
    scale = np.asarray(scales, np.float64)
    parts = scale, low, high, table
    key = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).digest()
    key += repr((zero_point, lo, hi, [part.shape for part in parts])).encode()
    if key not in _SOLVED:
        level = np.arange(lo + 1, hi + 1, dtype=np.int64) - zero_point
        _SOLVED[key] = _solved(scale, _Stairs(table, level, low, high))
        while len(_SOLVED) > _REMEMBERED:
            del _SOLVED[next(iter(_SOLVED))]
    return _SOLVED[key]


def _solved(scale: NDArray[np.float64], stairs: _Stairs) -> Tuned:
    """Half-up rounding with the constant that the thresholds ask for, if need be with a multiplier near the given one;
    the other modes where they prove more channels exact."""
    pairs = [_pair(float(s)) for s in scale]
    given = np.array([m for m, _ in pairs], np.int64)
    shift = np.array([t for _, t in pairs], np.int64)
    half = np.left_shift(np.int64(1), np.maximum(shift - 1, 0)) * (shift > 0)
    zeros = np.zeros_like(given)

    others = [_Scaling(given, shift, zeros, Rounding.EVEN)]
    if (scale < _LARGEST).all():
        exactly = [v.astype(np.int64) for v in float32_constants(scale)]
        others.append(_Scaling(exactly[0], exactly[1], zeros, Rounding.FLOAT32))
    multiplier, offset = given.copy(), zeros.copy()
    wanting = np.flatnonzero(~_proof(stairs, _Scaling(given, shift, zeros, Rounding.SINGLE)))
    least, most = _interval(stairs, multiplier, shift, wanting)
    barred = wanting[least > most]
    multiplier[barred] = _nudged(stairs, multiplier, shift, barred)
    least, most = _interval(stairs, multiplier, shift, wanting)
    for i, c in enumerate(wanting):
        constant = (int(least[i]) + int(most[i])) // 2
        if least[i] <= most[i]:
            constant = min(max(int(half[c]), int(least[i])), int(most[i]))
        offset[c] = min(max(constant - int(half[c]), -(1 << 31)), (1 << 31) - 1)
    found = _Scaling(multiplier, shift, offset, Rounding.SINGLE)
    exact = _proof(stairs, found)
    for other in others:
        if not exact.all() and (proven := _proof(stairs, other)).sum() > exact.sum():
            found, exact = other, proven
    m, t, r = (v.astype(np.int32) for v in (found.multiplier, found.shift, found.offset))
    return Tuned(m, t, r, found.rounding, exact)


def _pair(scale: float) -> tuple[int, int]:
    """(m, t) of a scale; of a float32 one exactly, whose 24 significant bits leave room for a smaller shift."""
    multiplier, shift = quantize_multiplier(scale)
    spare = max(0, shift - _MAX_SHIFT)
    return multiplier >> spare, shift - spare


def _proof(stairs: _Stairs, scaling: _Scaling) -> NDArray[np.bool_]:
    """Channels whose staircase has these thresholds: both are monotone, so the two sides of each step decide."""
    table, low, high = stairs.table, stairs.low[:, None], stairs.high[:, None]
    reached = scaling.reaches(np.minimum(table, high), stairs.level)
    before = ~scaling.reaches(np.maximum(table - 1, low), stairs.level)
    return np.asarray(((reached | (table > high)) & (before | (table <= low))).all(axis=1))


def _interval(stairs: _Stairs, multiplier: Int64, shift: Int64, rows: NDArray[np.intp]) -> tuple[Int64, Int64]:
    """Smallest and largest R, per channel in ``rows``, for which the multiplier has these thresholds."""
    if not stairs.level.size:  # a range of one value, that every R gives
        return np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
    return _bounds(_Steps.of(stairs, shift, rows), multiplier[rows])[:2]


@dataclass(frozen=True)
class _Steps:
    """Both sides of the thresholds of some channels: (C, levels); what is out of reach binds nothing."""

    at: NDArray[np.bool_]
    before: NDArray[np.bool_]
    threshold: Int64
    target: Int64  #: k * 2^t

    @classmethod
    def of(cls, stairs: _Stairs, shift: Int64, rows: NDArray[np.intp]) -> _Steps:
        t = stairs.table[rows]
        at, before = t <= stairs.high[rows, None], t > stairs.low[rows, None]
        # levels that are out of reach would overflow
        target = np.left_shift(np.where(at | before, stairs.level[None, :], 0), shift[rows, None])
        return cls(at, before, t, target)

    def take(self, rows: NDArray[np.bool_]) -> _Steps:
        return _Steps(self.at[rows], self.before[rows], self.threshold[rows], self.target[rows])


def _bounds(steps: _Steps, multiplier: Int64) -> tuple[Int64, Int64, Int64]:
    """(smallest R, largest R, how the first grows against the second with the multiplier), each (C,)."""
    height = steps.target - steps.threshold * multiplier[:, None]
    lower = np.where(steps.at, height, -(1 << 62))
    upper = np.where(steps.before, height + multiplier[:, None] - 1, 1 << 62)
    first, second = lower.argmax(axis=1), upper.argmin(axis=1)
    rows = np.arange(len(multiplier))
    slope = steps.threshold[rows, second] - 1 - steps.threshold[rows, first]
    return lower[rows, first], upper[rows, second], slope


def _nudged(stairs: _Stairs, multiplier: Int64, shift: Int64, rows: NDArray[np.intp]) -> Int64:
    """Multipliers near the given ones, for the channels in ``rows``, that meet all their thresholds with some R.

    The smallest R is a maximum of lines in m, the largest a minimum: their difference is convex, so that halving the
    range of m by its slope finds where it is least. Channels for which that is positive have no such m and keep theirs.
    """
    result = multiplier[rows].copy()
    if not rows.size:
        return result
    active = np.arange(rows.size)
    steps = _Steps.of(stairs, shift, rows)
    left, right = result // 2, np.minimum(result * 2, (1 << 31) - 1)
    middle = result.copy()
    while active.size:
        least, most, slope = _bounds(steps, middle)
        found = least <= most
        result[active[found]] = middle[found]
        right = np.where(slope > 0, middle - 1, right)
        left = np.where(slope < 0, middle + 1, left)
        going = ~found & (slope != 0) & (left <= right)
        active, steps, left, right = active[going], steps.take(going), left[going], right[going]
        middle = (left + right) >> 1
    return result


def step_offset(acc: Int64, goal: Int64, multiplier: int, shift: int, lo: int, hi: int) -> int:
    """The constant beside the half that puts every step of ``goal`` where the accumulators need it, if any does.

    ``acc``: accumulators of any shape, ``goal``: the result of each less the zero point, within [lo, hi].
    """
    order = np.argsort(acc, axis=None, kind="stable")
    sorted_acc, sorted_goal = acc.reshape(-1)[order], np.maximum.accumulate(goal.reshape(-1)[order])
    levels = np.arange(lo + 1, hi + 1, dtype=np.int64)
    first = np.searchsorted(sorted_goal, levels)
    levels, first = levels[(first > 0) & (first < acc.size)], first[(first > 0) & (first < acc.size)]
    least = np.max((levels << shift) - sorted_acc[first] * multiplier, initial=-(1 << 62))
    most = np.min((levels << shift) - sorted_acc[first - 1] * multiplier - 1, initial=1 << 62)
    half = 1 << (shift - 1) if shift else 0
    return int(min(max(min(max(half, least), most) - half, -(1 << 31)), (1 << 31) - 1))
