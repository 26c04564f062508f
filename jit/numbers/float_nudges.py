"""Ratios of a scaled sum moved by less than its roundings, to where every step lies on the side that is wanted.

ONNX Runtime's float32 sum comes as near to some ties as its own rounding errors (1e-5 of a step) and decides them by
these. Of 65,536 pairs only a few are so near: a plane through the ratios' neighbourhood that leaves each on its side
mostly exists, and is what a perceptron finds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NEAR = 1e-2  #: steps from a tie within which a sum can be moved across it
_MARGIN = 2e-6  #: steps that a tie is kept away, beyond the accelerator's own roundings
_MOST = 3000  #: corrections


def nudges(
    goal: NDArray[np.int64], terms: Sequence[NDArray[np.float64]], ratios: Sequence[float], lo: int, hi: int
) -> list[float]:
    """What to add to each ratio so that ``sum(ratio * term)``, with a constant, rounds to ``goal`` as far as possible.

    ``terms``: integers that broadcast to the shape of ``goal``, which is clamped to [lo, hi] and has no zero point.
    """
    spread = np.broadcast_arrays(*terms)
    real = sum(ratio * term for ratio, term in zip(ratios, spread, strict=True))
    above, below = real - (goal - 0.5), (goal + 0.5) - real
    sides = []
    for slack, sign, free in ((above, 1.0, goal == lo), (below, -1.0, goal == hi)):
        near = (slack < _NEAR) & ~free
        normals = [sign * term[near] for term in spread]
        sides.append(np.stack([*normals, np.full(near.sum(), sign), slack[near]]))
    *normals, slack = np.concatenate(sides, axis=1)
    if not slack.size:
        return [0.0] * len(terms)
    size = np.array([*(max(float(np.abs(n).max()), 1.0) for n in normals[:-1]), 1.0])
    planes = np.stack(normals, axis=1) / size
    moved, best, least = np.zeros(len(size)), np.zeros(len(size)), -np.inf
    for _ in range(_MOST):
        left = planes @ moved + slack
        worst = int(left.argmin())
        if left[worst] > least:
            best, least = moved, left[worst]
        if least >= _MARGIN:
            break
        plane = planes[worst]
        moved = moved + plane * (1.2 * _MARGIN - left[worst]) / (plane @ plane)
    return [float(step) for step in (best / size)[:-1]]
