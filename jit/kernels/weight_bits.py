"""Which weights integers of few bits hold, by themselves or as sums of several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.of_weights import of_weights

WIDTHS = (2, 4, 8)  #: that a Config may have
MOST_PARTS = 3  #: 8-bit weights less a zero point take two or three of 8 bits, and 4-bit ones as many of 4


def weight_range(bits: int) -> tuple[int, int]:
    """Least and greatest integer of ``bits`` bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def fits(weights: NDArray[np.integer], bits: int, parts: int = MOST_PARTS) -> bool:
    """Whether sums of so many integers of ``bits`` bits give all weights."""
    low, high = weight_range(bits)
    least, most = of_weights(weights, "range", lambda: _range_of(weights))
    return least >= parts * low and most <= parts * high


def _range_of(weights: NDArray[np.integer]) -> tuple[int, int]:
    return (int(weights.min()), int(weights.max())) if weights.size else (0, 0)


def weight_parts(weights: NDArray[np.integer], bits: int, name: str) -> list[NDArray[np.int8]]:
    """The fewest arrays of ``bits`` bits whose sum the weights are: themselves, or what fits, and what fits of the
    rest. Raises PlaceError, naming the layer, for more than ``MOST_PARTS``."""
    require_fit(weights, bits, name, MOST_PARTS)
    if fits(weights, bits, 1):
        return [np.asarray(weights, np.int8)]
    low, high = weight_range(bits)
    parts: list[NDArray[np.int8]] = []
    rest = np.asarray(weights, np.int64)
    while rest.any():
        parts.append(rest.clip(low, high).astype(np.int8))
        rest = rest - parts[-1]
    return parts


def require_fit(weights: NDArray[np.integer], bits: int, name: str, parts: int) -> None:
    """Raises PlaceError, naming the layer, for weights that take more parts of ``bits`` bits."""
    if not fits(weights, bits, parts):
        raise PlaceError(
            f"{name}: weights from {weights.min()} to {weights.max()} do not fit weight_bits = {bits}; "
            f"use a config with weight_bits = 8"
        )
