"""The reference integer arithmetic of requantisation, stated once; everything else is tested against it.

Sources: TFLite 8-bit quantization specification; gemmlowp ``SaturatingRoundingDoublingHighMul`` and
``RoundingDivideByPOT`` (LiteRT's ``MultiplyByQuantizedMultiplier``, double rounding) written as one shift
with a sign-dependent constant; ``docs/numbers.md`` has the derivation.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESCALE_LEFT_SHIFT = 20  #: TFLite ADD's ``left_shift`` for int8


class Rounding(IntEnum):
    """The 2-bit rounding field of REQUANTIZE and RESCALE."""

    DOUBLE = 0  #: LiteRT reference convolution, depthwise, add
    SINGLE = 1  #: half up: LiteRT reference fully connected, pooling by reciprocal
    EVEN = 2  #: ties to even
    CONSTANT = 3  #: REQUANTIZE only: writes the zero point, reads nothing


def wrap_int32(value: ArrayLike) -> NDArray[np.int64]:
    """``value`` modulo 2^32 as a signed number in int64."""
    v = np.asarray(value, dtype=np.int64)
    return ((v + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def scale_round(
    value: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, offset: ArrayLike, rounding: Rounding
) -> NDArray[np.int64]:
    """``round(value * multiplier / 2^shift)`` in 64-bit wrapping arithmetic.

    value, multiplier, offset: int32 range; shift: 0..63; all broadcast. The constant added ahead of the
    shift is ``2^(shift-1)`` (0 for shift 0) + offset, and for DOUBLE with shift > 31 also ``-2^30`` for a
    negative value, ``+2^30`` otherwise. EVEN steps an exact tie back to the even neighbour.
    """
    a = np.asarray(value, dtype=np.int64)
    m = np.asarray(multiplier, dtype=np.int64)
    t = np.asarray(shift, dtype=np.int64)
    half = np.where(t > 0, np.left_shift(np.int64(1), np.maximum(t - 1, 0)), np.int64(0))
    total = a * m + half + np.asarray(offset, dtype=np.int64)
    if rounding == Rounding.DOUBLE:
        total = total + np.where(t > 31, np.where(a < 0, -(1 << 30), 1 << 30), 0)
    result = np.right_shift(total, t)
    if rounding == Rounding.EVEN:
        fraction = total & (np.left_shift(np.int64(1), t) - 1)
        result = np.where((t > 0) & (fraction == 0) & (result & 1 == 1), result - 1, result)
    return result


def requantize(
    acc: ArrayLike,
    bias: ArrayLike,
    multiplier: ArrayLike,
    shift: ArrayLike,
    offset: ArrayLike,
    rounding: Rounding,
    zero_point: int,
    lo: int = -128,
    hi: int = 127,
) -> NDArray[np.int8]:
    """REQUANTIZE: ``clamp(scale_round(acc + bias) + zero_point, lo, hi)``; channels on the last axis."""
    if rounding == Rounding.CONSTANT:
        return np.full(np.shape(acc), np.clip(zero_point, lo, hi), np.int8)
    biased = wrap_int32(np.asarray(acc, np.int64) + np.asarray(bias, np.int64))
    return np.clip(scale_round(biased, multiplier, shift, offset, rounding) + zero_point, lo, hi).astype(np.int8)


def rescale(
    x: ArrayLike, bias: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, offset: ArrayLike, rounding: Rounding
) -> NDArray[np.int32]:
    """RESCALE: ``scale_round((x << 20) + bias)``, wrapped to int32 (TFLite ADD's input stage)."""
    shifted = wrap_int32((np.asarray(x, np.int64) << RESCALE_LEFT_SHIFT) + np.asarray(bias, np.int64))
    return wrap_int32(scale_round(shifted, multiplier, shift, offset, rounding)).astype(np.int32)
