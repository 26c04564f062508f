"""The reference integer arithmetic of requantisation, stated once; everything else is tested against it.

Sources: TFLite 8-bit quantization specification; gemmlowp ``SaturatingRoundingDoublingHighMul`` and
``RoundingDivideByPOT`` (LiteRT's ``MultiplyByQuantizedMultiplier``, double rounding) written as one shift
with a sign-dependent constant. Those two round to 31 bits, half away from zero, then once more in dividing by a power
of two; for scales below 1 both together are one shift with the constant of DOUBLE. ONNX Runtime's QLinearConv and
QLinearMatMul (MLAS ``MlasRequantizeOutput``): ``rint(float32(acc) * scale)`` of float32 numbers, IEEE 754's ties to
even both times, is FLOAT32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.isa.expression import evaluate
from tilewright.isa.functions import FLOAT_LIMIT, Rounding, wrap_int32

__all__ = ["RESCALE_LEFT_SHIFT", "Rounding", "requantize", "rescale", "scale_round", "wrap_int32"]

RESCALE_LEFT_SHIFT = 20  #: TFLite ADD's ``left_shift`` for int8


def scale_round(
    value: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, offset: ArrayLike, rounding: Rounding
) -> NDArray[np.int64]:
    """``round(value * multiplier / 2^shift)`` in 64-bit wrapping arithmetic.

    value, multiplier, offset: int32 range; shift: 0..63; all broadcast. Added ahead of the shift are half, which is
    ``2^(shift-1)`` (0 for shift 0), offset, and the nudge of the rounding mode; a mode that goes to even steps an exact
    tie back to the even neighbour. A mode with a precision p rounds ``value * multiplier + offset`` to p significant
    bits, then the quotient by ``2^(shift + p)``, both to nearest, ties to even, and ends at +-FLOAT_LIMIT.

    So FLOAT32 is ``rint(float32(value) * scale)``, for a float32 scale = ``multiplier * 2^-(shift + 24)``, whose
    multiplier has at most 24 significant bits, and offset 0, where float32 holds the value: up to 2^24 in size, and
    beyond where the scale is at least 2^-16, for then both end at FLOAT_LIMIT.

    Raises :class:`ValueError` for a mode that does not scale.
    """
    if rounding.nudge is None:
        raise ValueError(f"{rounding.name} does not scale")
    a = np.asarray(value, dtype=np.int64)
    m = np.asarray(multiplier, dtype=np.int64)
    t = np.asarray(shift, dtype=np.int64)
    if rounding.precision:
        return _float_round(a * m + np.asarray(offset, dtype=np.int64), t + rounding.precision, rounding.precision)
    half = np.where(t > 0, np.left_shift(np.int64(1), np.maximum(t - 1, 0)), np.int64(0))
    total = a * m + half + np.asarray(offset, dtype=np.int64)
    if rounding.nudge.value != 0:  # most often it is 0, and arrays are long
        total = total + evaluate(rounding.nudge, negative=a < 0, shift=t, half=half)
    result = np.right_shift(total, t)
    if rounding.to_even:
        fraction = total & ~np.left_shift(np.int64(-1), t)
        result = np.where((t > 0) & (fraction == 0), result & ~np.int64(1), result)
    return result


def _to_even(value: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """``value / 2^shift`` to nearest, ties to even; shift: 0..63."""
    below = ~np.left_shift(np.int64(-1), shift)
    half = np.maximum(below ^ (below >> 1), 1)
    result = np.right_shift(value, shift)
    return result + ((value & below) > half - (result & 1))


def _float_round(total: NDArray[np.int64], shift: NDArray[np.int64], precision: int) -> NDArray[np.int64]:
    """``total``, below 2^63 in size, to ``precision`` significant bits, then ``/ 2^shift`` to an integer."""
    bits = np.frexp(np.abs(total).astype(np.float64))[1].astype(np.int64)  # one more near the power of two above it,
    extra = np.maximum(bits - precision, 0)  # to which it is rounded with either
    rounded = np.left_shift(_to_even(total, extra), extra)
    result = np.where(shift > 63, 0, _to_even(rounded, np.minimum(shift, 63)))  # of less than a half
    return np.clip(result, -FLOAT_LIMIT, FLOAT_LIMIT)


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
