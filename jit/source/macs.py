"""Multiply-accumulates of one inference by kind of operator, wherever it runs: what shares are counted in.

Each function takes the shapes of an operator's activation ``x``, of its weights ``w`` and of its result ``y``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Shape = tuple[int, ...]
Weights = Sequence[Shape]


def convolution(_x: Shape, w: Weights, y: Shape) -> int:
    """Weights [out][h][w][in] or [out][in][h][w]."""
    return prod(y) * prod(w[0][1:])


def volume(_x: Shape, w: Weights, y: Shape) -> int:
    """Weights [d][h][w][in][out]."""
    return prod(y) * prod(w[0][:-1])


def depthwise(_x: Shape, w: Weights, y: Shape) -> int:
    """Weights [1][h][w][out]."""
    return prod(y) * prod(w[0][1:3])


def rows(_x: Shape, w: Weights, y: Shape) -> int:
    """Weights [out][in]."""
    return prod(y) * prod(w[0][-1:])


def transposed(x: Shape, w: Weights, _y: Shape) -> int:
    """Weights [out][h][w][in], each multiplied with each pixel."""
    return prod(x) * prod(w[0][:-1])


def transposed_in_first(x: Shape, w: Weights, _y: Shape) -> int:
    """Weights [in][out][h][w]."""
    return prod(x) * prod(w[0][1:])


def matrices(x: Shape, w: Weights, y: Shape) -> int:
    """Products of matrices. Either operand may be transposed, a stack of matrices or a vector."""
    if len(x) < 2:
        return prod(y) * prod(x)
    return prod(y) * prod(x[-2:]) // max(1, y[-2] if len(w[0]) > 1 else y[-1])


def recurrent(x: Shape, w: Weights, _y: Shape) -> int:
    """Every step and batch element meets every weight of the matrices once."""
    return prod(x[:-1]) * sum(prod(shape) for shape in w if len(shape) > 1)
