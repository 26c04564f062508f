"""ONNX Runtime's float32 output stage in integers, exact where that can be proven.

ONNX Runtime computes ``clamp(rint(float32(acc) * scale) + zero_point)`` in float32. That function of the accumulator
is a staircase: it is fixed by its thresholds, the smallest accumulator of each output level. A fixed-point pair (m, t)
with the constant R added before the shift has the same thresholds within the reachable range exactly when, for each
level k with threshold T (levels relative to the zero point),

    T * m + R >= k * 2^t   and   (T - 1) * m + R < k * 2^t.

So R has an interval for given m, and m one for which R's is not empty; both are computed, not searched for. Whatever
is chosen is then checked against the thresholds with the reference arithmetic: that check is the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.isa.arithmetic import Rounding, scale_round
from tilewright.jit.graph import Rounding as RoundingName
from tilewright.jit.numbers import quantize_multiplier

Int64 = NDArray[np.int64]
_MAX_SHIFT = 58  # keeps level * 2^t inside int64; float32 scales lose nothing by it


@dataclass(frozen=True)
class Tuned:
    """Constants per channel, and how far they are proven: ``wrong`` counts reachable accumulators that differ."""

    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    offset: NDArray[np.int32]
    rounding: RoundingName
    exact: NDArray[np.bool_]
    bound: int  #: largest difference in LSB
    worst: float  #: largest fraction of a channel's reachable accumulators that differ


def float_output(acc: ArrayLike, scale: ArrayLike, zero_point: int, lo: int, hi: int) -> Int64:
    """ONNX Runtime's output stage: ``clamp(rint(float32(acc) * scale) + zero_point, lo, hi)``."""
    product = np.asarray(acc, np.int64).astype(np.float32) * np.asarray(scale, np.float32)
    # clamped as float first, as there, so that huge products convert safely
    return np.rint(np.clip(product, lo - zero_point, hi - zero_point)).astype(np.int64) + zero_point


def thresholds(scale: NDArray[np.float32], low: Int64, high: Int64, zero_point: int, lo: int, hi: int) -> Int64:
    """(C, hi - lo): the smallest accumulator in [low, high + 1] whose output is at least lo + 1, ..., hi.

    high + 1 where no reachable accumulator gets there. ``scale``, ``low``, ``high``: (C,), scales positive.
    """
    level = np.arange(lo + 1, hi + 1, dtype=np.int64)[None, :]
    below, above = low[:, None], high[:, None] + 1
    guess = (level - zero_point - 0.5) / scale.astype(np.float64)[:, None]
    slack = np.abs(guess) * 2.0**-20 + 4
    left = np.clip(np.floor(guess - slack), below, above).astype(np.int64)
    right = np.clip(np.ceil(guess + slack), below, above).astype(np.int64)
    while (left < right).any():
        middle = (left + right) >> 1
        reached = float_output(middle, scale[:, None], zero_point, lo, hi) >= level
        active = left < right
        right = np.where(active & reached, middle, right)
        left = np.where(active & ~reached, middle + 1, left)
    return left


def tune(
    scales: ArrayLike,
    low: Int64,
    high: Int64,
    zero_point: int,
    lo: int = -128,
    hi: int = 127,
    table: Int64 | None = None,
) -> Tuned:
    """Constants that equal ONNX Runtime's output stage over [low, high] (biased accumulators) per channel.

    ``scales``: float32 (C,). ``table``: the thresholds to meet where they are not those of :func:`thresholds`. Tries
    half-up rounding with a tuned constant, then with a nudged multiplier, and ties-to-even for the layer if that
    proves more channels exact.
    """
    scale = np.asarray(scales, np.float32)
    if table is None:
        table = thresholds(scale, low, high, zero_point, lo, hi)
    level = np.arange(lo + 1, hi + 1, dtype=np.int64) - zero_point
    pairs = [_pair(float(s)) for s in scale]
    multiplier = np.array([m for m, _ in pairs], np.int64)
    shift = np.array([t for _, t in pairs], np.int64)
    half = np.left_shift(np.int64(1), np.maximum(shift - 1, 0)) * (shift > 0)
    zeros = np.zeros_like(multiplier)

    even_exact = _proof(table, level, multiplier, shift, zeros, Rounding.EVEN, low, high)
    offset = zeros.copy()
    exact = _proof(table, level, multiplier, shift, offset, Rounding.SINGLE, low, high)
    for c in np.flatnonzero(~exact):
        reach = (table[c] > low[c]) | (table[c] <= high[c])
        chosen, constant = _solve(table[c][reach], level[reach], int(multiplier[c]), int(shift[c]), low[c], high[c])
        multiplier[c] = chosen
        offset[c] = np.clip(constant - half[c], -(1 << 31), (1 << 31) - 1)
    exact = _proof(table, level, multiplier, shift, offset, Rounding.SINGLE, low, high)
    rounding: RoundingName = "single"
    if even_exact.sum() > exact.sum():
        rounding, exact, offset = "even", even_exact, zeros
        multiplier = np.array([m for m, _ in pairs], np.int64)
    bound, worst = _damage(table, level, multiplier, shift, offset, rounding, low, high, ~exact, (lo, hi, zero_point))
    return Tuned(
        multiplier.astype(np.int32), shift.astype(np.int32), offset.astype(np.int32), rounding, exact, bound, worst
    )


def _pair(scale: float) -> tuple[int, int]:
    """(m, t) of a float32 scale, exactly: its 24 significant bits leave room for a smaller shift."""
    multiplier, shift = quantize_multiplier(scale)
    spare = max(0, shift - _MAX_SHIFT)
    return multiplier >> spare, shift - spare


def _apply(acc: Int64, multiplier: Int64, shift: Int64, offset: Int64, rounding: Rounding) -> Int64:
    return scale_round(acc, multiplier[:, None], shift[:, None], offset[:, None], rounding)


def _proof(
    table: Int64,
    level: Int64,
    multiplier: Int64,
    shift: Int64,
    offset: Int64,
    rounding: Rounding,
    low: Int64,
    high: Int64,
) -> NDArray[np.bool_]:
    """Channels whose staircase has these thresholds: both are monotone, so the two sides of each step decide."""
    reached = _apply(np.minimum(table, high[:, None]), multiplier, shift, offset, rounding) >= level
    before = _apply(np.maximum(table - 1, low[:, None]), multiplier, shift, offset, rounding) < level
    return np.asarray(((reached | (table > high[:, None])) & (before | (table <= low[:, None]))).all(axis=1))


def _interval(table: Int64, level: Int64, multiplier: int, shift: int, low: int, high: int) -> tuple[int, int]:
    """Smallest and largest R for which this multiplier has these thresholds."""
    target = np.left_shift(level, shift)
    at, before = table <= high, table > low
    least = (target - table * multiplier)[at]
    most = (target - (table - 1) * multiplier - 1)[before]
    return int(least.max(initial=-(1 << 62))), int(most.min(initial=1 << 62))


def _solve(table: Int64, level: Int64, multiplier: int, shift: int, low: int, high: int) -> tuple[int, int]:
    """(m, R) that meet all thresholds if any do near ``multiplier``; else the R that misses them by least."""
    least, most = _interval(table, level, multiplier, shift, low, high)
    if least <= most:
        return multiplier, _nearest(1 << max(shift - 1, 0), least, most)
    inner = (table > low) & (table <= high)
    t, k = table[inner], level[inner]
    if t.size > 1:
        rise = np.left_shift(k[:, None] - k[None, :], shift)
        run = t[:, None] - t[None, :]
        up, down = rise > 0, (rise < 0) & (run < -1)
        floor = -(-(rise[up] + 1) // (run[up] + 1))  # m >= (rise + 1) / (run + 1)
        ceiling = (-rise[down] - 1) // (-run[down] - 1)  # m <= (-rise - 1) / (-run - 1)
        smallest, largest = int(floor.max(initial=1)), int(ceiling.min(initial=(1 << 31) - 1))
        middle = (smallest + largest) // 2
        for candidate in dict.fromkeys((_nearest(multiplier, smallest, largest), smallest, middle, largest)):
            if smallest <= candidate <= largest:
                low_r, high_r = _interval(table, level, candidate, shift, low, high)
                if low_r <= high_r:
                    return candidate, _nearest(1 << max(shift - 1, 0), low_r, high_r)
    return multiplier, (least + most) // 2


def _nearest(wanted: int, low: int, high: int) -> int:
    return min(max(wanted, low), high)


def _damage(
    table: Int64,
    level: Int64,
    multiplier: Int64,
    shift: Int64,
    offset: Int64,
    rounding: RoundingName,
    low: Int64,
    high: Int64,
    where: NDArray[np.bool_],
    clamp: tuple[int, int, int],
) -> tuple[int, float]:
    """(largest difference, largest fraction of accumulators) over the channels not proven exact."""
    mode = Rounding.EVEN if rounding == "even" else Rounding.SINGLE
    lo, hi, zero_point = clamp
    bound, worst = 0, 0.0
    for c in np.flatnonzero(where):
        one = slice(c, c + 1)
        # the fixed-point staircase's own thresholds lie within a few accumulators of the wanted ones
        left, right = np.full_like(table[c], low[c]), np.full_like(table[c], high[c] + 1)
        while (left < right).any():
            middle = (left + right) >> 1
            reached = _apply(middle[None], multiplier[one], shift[one], offset[one], mode)[0] >= level
            active = left < right
            right = np.where(active & reached, middle, right)
            left = np.where(active & ~reached, middle + 1, left)
        differ = np.abs(left - table[c])
        worst = max(worst, float(differ.sum()) / float(high[c] - low[c] + 1))
        points = np.unique(np.clip(np.concatenate([left - 1, left, table[c] - 1, table[c]]), low[c], high[c]))
        ours = np.clip(_apply(points[None], multiplier[one], shift[one], offset[one], mode)[0] + zero_point, lo, hi)
        bound = max(bound, int(np.abs(ours - np.clip(_steps(table[c], points) + lo, lo, hi)).max()))
    return bound, worst


def _steps(table: Int64, points: Int64) -> Int64:
    """The wanted output, less lo, at ``points``: the number of thresholds passed."""
    return np.searchsorted(table, points, side="right").astype(np.int64)
