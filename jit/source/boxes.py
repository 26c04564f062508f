"""Where the elements of a result come from, and parts of images whose elements are read in another order or shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Layer, Operand
from tilewright.jit.layers.moves import choose, coordinates
from tilewright.jit.source.values import Values


def asked(moved: Callable[[NDArray[np.uint8]], list[NDArray[Any]]], count: int) -> list[NDArray[np.int64]]:
    """For each element of an operator's results its place among the ``count`` elements that the operator reads; -1 for
    those that are none of these (padding).

    ``moved`` runs the operator on numbers from 0 to 255. It gets the bytes of the places, and their complements, which
    tell what it makes itself. Raises Unsupported unless random numbers go to the same places.
    """
    given, found = np.arange(count), list[NDArray[np.int64]]()
    for bits in range(0, max(1, (count - 1).bit_length()), 8):
        digits = moved((given >> bits & 255).astype(np.uint8))
        if not found:
            inverse = moved((~given & 255).astype(np.uint8))
            pairs = zip(digits, inverse, strict=True)
            found = [np.where(np.add(a, b, dtype=np.float64) == 255, 0, -1) for a, b in pairs]
        for places, digit in zip(found, digits, strict=True):
            places += np.where(places < 0, 0, digit).astype(np.int64) << bits
    values = np.random.default_rng(0).integers(0, 256, count).astype(np.uint8)
    for places, result in zip(found, moved(values), strict=True):
        there = places >= 0
        if places.shape != result.shape or (values[np.where(there, places, 0)] != result)[there].any():
            raise Unsupported("results that are more than elements at other places")
    return found


def hold_box(layer: Layer, values: Values, result: object, x: Operand, positions: NDArray[np.int64]) -> None:
    """The tensor ``result``, of whatever shape, holds all of some rows, columns and channels of ``x``: ``positions``,
    in its shape.

    These are cut out; what becomes of their order is left to those who read the result. Raises Unsupported for others.
    """
    order = np.unique(positions)
    rows, columns, channels = (np.unique(places) for places in coordinates(order, x.shape[1:]))
    if not 0 < len(order) == positions.size == len(rows) * len(columns) * len(channels):
        raise Unsupported(f"a result of shape {positions.shape} whose elements are no box of an image of {x.shape}")
    box = choose(layer, x, rows, columns, channels)
    values.gather(result, box.name, np.searchsorted(order, positions))
