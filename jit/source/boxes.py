"""Parts of images whose elements somebody reads in another order, or under a shape that no image has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Layer, Operand
from tilewright.jit.layers.moves import choose, coordinates
from tilewright.jit.source.values import Values


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
