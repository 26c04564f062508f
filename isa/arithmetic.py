"""The reference integer arithmetic of requantisation, stated once; everything else is tested against it.

Sources: TFLite 8-bit quantization specification; gemmlowp ``SaturatingRoundingDoublingHighMul`` and
``RoundingDivideByPOT`` (LiteRT's ``MultiplyByQuantizedMultiplier``, double rounding) written as one shift
with a sign-dependent constant. Those two round to 31 bits, half away from zero, then once more in dividing by a power
of two; for scales below 1 both together are one shift with the constant of DOUBLE.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.isa.expression import evaluate
from tilewright.isa.functions import Rounding, wrap_int32

__all__ = ["RESCALE_LEFT_SHIFT", "Rounding", "requantize", "rescale", "scale_round", "wrap_int32"]

RESCALE_LEFT_SHIFT = 20  #: TFLite ADD's ``left_shift`` for int8


def scale_round(
    value: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, offset: ArrayLike, rounding: Rounding
) -> NDArray[np.int64]:
    """``round(value * multiplier / 2^shift)`` in 64-bit wrapping arithmetic.

    value, multiplier, offset: int32 range; shift: 0..63; all broadcast. Added ahead of the shift are half, which is
    ``2^(shift-1)`` (0 for shift 0), offset, and the nudge of the rounding mode; a mode that goes to even steps an exact
    tie back to the even neighbour. Raises :class:`ValueError` for a mode that does not scale.
    """
    if rounding.nudge is None:
        raise ValueError(f"{rounding.name} does not scale")
    a = np.asarray(value, dtype=np.int64)
    m = np.asarray(multiplier, dtype=np.int64)
    t = np.asarray(shift, dtype=np.int64)
    half = np.where(t > 0, np.left_shift(np.int64(1), np.maximum(t - 1, 0)), np.int64(0))
    total = a * m + half + np.asarray(offset, dtype=np.int64)
    if rounding.nudge.value != 0:  # most often it is 0, and arrays are long
        total = total + evaluate(rounding.nudge, negative=a < 0, shift=t, half=half)
    result = np.right_shift(total, t)
    if rounding.to_even:
        fraction = total & ~np.left_shift(np.int64(-1), t)
        result = np.where((t > 0) & (fraction == 0), result & ~np.int64(1), result)
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
    if rounding.nudge is None:
        return np.full(np.shape(acc), np.clip(zero_point, lo, hi), np.int8)
    biased = wrap_int32(np.asarray(acc, np.int64) + np.asarray(bias, np.int64))
    return np.clip(scale_round(biased, multiplier, shift, offset, rounding) + zero_point, lo, hi).astype(np.int8)


def rescale(
    x: ArrayLike, bias: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, offset: ArrayLike, rounding: Rounding
) -> NDArray[np.int32]:
    """RESCALE: ``scale_round((x << 20) + bias)``, wrapped to int32 (TFLite ADD's input stage)."""
    shifted = wrap_int32((np.asarray(x, np.int64) << RESCALE_LEFT_SHIFT) + np.asarray(bias, np.int64))
    return wrap_int32(scale_round(shifted, multiplier, shift, offset, rounding)).astype(np.int32)
