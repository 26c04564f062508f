"""Rows that windows read, and images: what operators need to say which region of an input they read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.jit.errors import PlaceError

Array = NDArray[Any]
Range = tuple[int, int]  #: from the first to before the second
Sides = tuple[int, int, int, int]  #: top, left, bottom, right


class Uncut(Exception):
    """An operator cannot make a piece of its result from pieces of its inputs; says which and why."""


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """A tensor's shape as (1, H, W, C); vectors become 1x1 images. Raises PlaceError on other ranks or batches."""
    if len(shape) not in (1, 2, 3, 4) or (len(shape) > 1 and shape[0] != 1):
        raise PlaceError(f"shape {shape}: must be (1, H, W, C) or (1, C); export the model with batch 1")
    if len(shape) == 1:
        return 1, 1, 1, shape[0]
    middle = shape[1:-1]
    return 1, middle[0] if len(middle) == 2 else 1, middle[-1] if middle else 1, shape[-1]


def pad(x: Array, padding: Sides, value: int) -> Array:
    """An NHWC image with ``padding`` = (top, left, bottom, right) pixels of ``value`` around it, or so many less."""
    top, left, bottom, right = (max(0, p) for p in padding)
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)
    top, left, bottom, right = (max(0, -p) for p in padding)
    return wide[:, top : wide.shape[1] - bottom, left : wide.shape[2] - right]


def windows(x: Array, kernel: tuple[int, int], strides: tuple[int, int], dilation: tuple[int, int] = (1, 1)) -> Array:
    """View of shape (N, OH, OW, C, KH, KW)."""
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    view = sliding_window_view(x, extent, axis=(1, 2))
    return view[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]


def rows_of_windows(
    what: str, rows: Range, height: int, extent: int, stride: int, padding: Sides, spread: int = 1
) -> tuple[Sides, Range]:
    """For some rows of a result, the padding that remains and the rows that windows of ``extent`` rows read, of which
    those of the input are ``spread`` apart: padding is at true edges alone. Raises :class:`Uncut`, naming ``what``."""
    top, left, _, right = padding
    first, last = rows[0] * stride - top, (rows[1] - 1) * stride - top + extent
    taken = max(-(-first // spread), 0), min((last - 1) // spread + 1, height)
    if taken[0] >= taken[1]:
        raise Uncut(f"{what}: rows {rows[0]}:{rows[1]} are made of padding alone")
    return (taken[0] * spread - first, left, last - (taken[1] - 1) * spread - 1, right), taken
