"""Straight lines between bounds: what a multiplier and a bias have to be so that every result is the one wanted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
_HALVINGS = 64


def line(least: Float, most: Float, at: NDArray[np.integer], slopes: tuple[float, float]) -> tuple[Float, Float]:
    """(slope, height at 0), each (C,), of the line ``slope * at + height`` that stays farthest within its bounds.

    ``least``, ``most``: (n, C), infinite where there is none; ``at``: (n, 1) or (n, C); ``slopes``: the range that the
    slope is sought in. The distance is concave in the slope, so that halving its range by the two bounds that bind most
    finds where it is greatest; it is negative where no line fits.
    """
    rows = np.arange(least.shape[1])
    at = np.broadcast_to(at, least.shape)

    def bounds(slope: Float) -> tuple[Float, Float, NDArray[np.int64]]:
        lower, upper = least - slope * at, most - slope * at
        low, high = lower.argmax(axis=0), upper.argmin(axis=0)
        return lower[low, rows], upper[high, rows], at[low, rows] - at[high, rows]

    left, right = np.full(len(rows), slopes[0]), np.full(len(rows), slopes[1])
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        lower, upper, grows = bounds(middle)
        wide = ~np.isfinite(upper - lower)  # every height will do
        left, right = np.where((grows >= 0) & ~wide, middle, left), np.where((grows <= 0) | wide, middle, right)
    lower, upper, _ = bounds(left)
    none = np.where(np.isfinite(lower), lower + 1, np.where(np.isfinite(upper), upper - 1, 0.0))
    bound = np.isfinite(lower) & np.isfinite(upper)
    return left, np.where(bound, (np.where(bound, lower, 0) + np.where(bound, upper, 0)) / 2, none)
