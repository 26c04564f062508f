"""Weights in the form in which the array multiplies them: parts side by side, and what is written out as dense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.weight_bits import weight_parts

#: weights of groups, diagonals and selections written out as a dense convolution's, which takes memory and time
MOST_WRITTEN_OUT = 1 << 26


def in_parts(weights: NDArray[np.integer], bits: int, channels: int, name: str) -> tuple[NDArray[np.int8], int]:
    """Weights (OC, KH, KW, IC) of ``bits`` bits over inputs of ``channels`` in all, and how many times these are read:
    once for each part of the sums that the weights are. Raises PlaceError, naming the layer, for too many parts."""
    parts = weight_parts(weights, bits, name)
    return (parts[0], 1) if len(parts) == 1 else (side_by_side(parts, channels), len(parts))


def side_by_side(parts: list[np.ndarray], channels: int) -> np.ndarray:
    """Weights (OC, KH, KW, IC) over one input each as weights over all inputs together, ``channels`` each."""
    together = np.zeros((*parts[0].shape[:3], len(parts), channels), np.int8)
    for k, part in enumerate(parts):
        together[..., k, : part.shape[3]] = part
    return together.reshape(*parts[0].shape[:3], len(parts) * channels)


def mostly_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Zeros for weights that are written out as a dense convolution's. Raises PlaceError where they are too many."""
    if math.prod(shape) > MOST_WRITTEN_OUT:
        raise PlaceError(f"{'x'.join(map(str, shape))} weights once written out, at most {MOST_WRITTEN_OUT:,} are")
    return np.zeros(shape, dtype)
