"""Host steps in pure NumPy: what a board computes beside the accelerator, without TVM.

Sources: TFLite ``reference_ops::Softmax`` (int8) and gemmlowp's ``fixedpoint.h``, whose int32 fixed point is held in
int64 so that the products of the gemmlowp primitives cannot overflow; ONNX Runtime's ``qlinear_softmax.cc``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_DIFF_INTEGER_BITS = 5  # the exponent's argument has 5 integer bits
_SUM_INTEGER_BITS = 12  # the sum of exponentials has 12
#: exp(-2^k) for k = -2..4 as Q0.31: gemmlowp's barrel shifter
_EXP_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def _saturate(value: Int64) -> Int64:
    return np.clip(value, _INT32_MIN, _INT32_MAX)


def doubling_high_mul(a: Int64, b: Int64 | int) -> Int64:
    """gemmlowp ``SaturatingRoundingDoublingHighMul``: ``round(a * b / 2^31)``, ties toward plus infinity."""
    return _saturate((a * b + (1 << 30)) >> 31)


def rounding_divide_by_pot(value: Int64, exponent: Int64 | int) -> Int64:
    """gemmlowp ``RoundingDivideByPOT``: ``round(value / 2^exponent)``, ties away from zero."""
    mask = (np.int64(1) << np.asarray(exponent, np.int64)) - 1
    threshold = (mask >> 1) + (value < 0)
    return (value >> exponent) + ((value & mask) > threshold)


def _exp_of_negative(value: Int64) -> Int64:
    """exp of a Q5.26 number <= 0, as Q0.31 (gemmlowp ``exp_on_negative_values``)."""
    quarter = 1 << 24
    fraction = (value & (quarter - 1)) - quarter
    # Taylor expansion about -1/8 of exp on [-1/4, 0), the argument rescaled to Q0.31
    x = (fraction << _DIFF_INTEGER_BITS) + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4_over_4 = rounding_divide_by_pot(doubling_high_mul(x2, x2), 2)
    tail = rounding_divide_by_pot(doubling_high_mul(x4_over_4 + x3, 715827883) + x2, 1)
    result = 1895147668 + doubling_high_mul(x + tail, 1895147668)
    remainder = fraction - value
    for step, factor in enumerate(_EXP_FACTORS):
        bit = np.int64(1) << (24 + step)
        result = np.where(remainder & bit != 0, doubling_high_mul(result, factor), result)
    return np.where(value == 0, _INT32_MAX, result)


def _reciprocal_of_one_plus(value: Int64) -> Int64:
    """1 / (1 + x) for x in [0, 1), Q0.31 (gemmlowp: three Newton-Raphson steps in Q2.29)."""
    half_denominator = (value + _INT32_MAX + 1) >> 1  # both are >= 0: the rounding half sum
    x = 1515870810 + doubling_high_mul(half_denominator, -1010580540)
    for _ in range(3):
        error = (1 << 29) - doubling_high_mul(half_denominator, x)
        x = x + _saturate(doubling_high_mul(x, error) << 2)
    return _saturate(x << 1)


def softmax_int8(x: NDArray[np.int8], multiplier: int, left_shift: int, diff_min: int) -> NDArray[np.int8]:
    """TFLite's int8 softmax over the last axis, bit for bit.

    x: int8, any shape. ``multiplier`` and ``left_shift`` scale the difference to the row's maximum into Q5.26;
    differences below ``diff_min`` contribute nothing. Returns int8 of the same shape: scale 1/256, zero point -128.
    """
    rows = np.asarray(x, np.int64)
    difference = rows - rows.max(axis=-1, keepdims=True)
    used = difference >= diff_min
    every = -np.arange(min(256, 1 - diff_min), dtype=np.int64)  # what differences come to
    exponential = _exp_of_negative(doubling_high_mul(every << left_shift, multiplier))[-np.where(used, difference, 0)]
    total = np.where(used, rounding_divide_by_pot(exponential, _SUM_INTEGER_BITS), 0).sum(axis=-1, keepdims=True)
    if total.size and total.max() > -_INT32_MIN:
        raise OverflowError(f"softmax: the sum over {x.shape[-1]} elements exceeds int32")
    # total > 0 holds: the maximum itself contributes exp(0). frexp gives the position of its leading bit.
    leading_zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    reciprocal = _reciprocal_of_one_plus((total << leading_zeros) - (1 << 31))
    shift = _SUM_INTEGER_BITS - leading_zeros + 31 - 8
    result = rounding_divide_by_pot(doubling_high_mul(exponential, reciprocal), shift) - 128
    return np.where(used, np.clip(result, -128, 127), -128).astype(np.int8)


def softmax_by_table(
    x: NDArray[np.int8], table: NDArray[np.float32], factor: float, zero_point: int
) -> NDArray[np.int8]:
    """ONNX Runtime's QLinearSoftmax of uint8 over the last axis, bit for bit; x and the result are 128 less.

    x: any shape. ``table``: an exponential, (256,), that grows to its last entry, which the row's maximum is looked up
    as. Sums are float32, element after element; shares of them, times ``factor``, are rounded with ties to even.
    """
    places = 255 + np.asarray(x, np.int64) - x.max(axis=-1, keepdims=True)
    exponential = np.asarray(table, np.float32)[places]
    total = np.add.accumulate(exponential, axis=-1)[..., -1:]
    with np.errstate(over="ignore", invalid="ignore"):
        share = np.rint(exponential * np.float32(factor) / total)
    # what is beyond float32 becomes a byte of 0 where ONNX Runtime converts it on x86-64; other processors may differ
    share = np.where(np.isfinite(share), share, 0).astype(np.int64)
    return (np.minimum(share + zero_point, 255) - 128).astype(np.int8)


def cast(x: NDArray[np.generic], offset: int, dtype: str) -> NDArray[np.generic]:
    """``x + offset`` as ``dtype``; raises OverflowError where the result does not fit (it never should)."""
    value = np.asarray(x, np.int64) + offset
    info = np.iinfo(dtype)
    if value.size and (value.min() < info.min or value.max() > info.max):
        raise OverflowError(f"host cast: values {value.min()}..{value.max()} do not fit {dtype}")
    return value.astype(dtype)


def quantize(
    x: NDArray[np.float32], scale: float, zero_point: int, dtype: str = "int8", rounding: str = "even"
) -> NDArray[np.generic]:
    """Float to integer: ``saturate(round(x / scale) + zp)``, ties to ``even`` (ONNX) or ``away`` from zero (TFLite).

    TFLite's kernel goes through int32: NaN and quotients of 2^31 and more become what this CPU makes of them (the least
    int32 on x86, where ARM saturates), here as there. Raises ValueError for NaN with ``even``.
    """
    if rounding == "even" and np.isnan(x).any():
        raise ValueError("quantize: a value is NaN")
    info = np.iinfo(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = np.asarray(x, np.float32) / np.float32(scale)
        if rounding == "even":
            value = np.rint(quotient).astype(np.float64) + zero_point
        else:  # without the error of adding 0.5 in float32
            magnitude = np.abs(quotient)
            whole = np.floor(magnitude)
            rounded = np.copysign(whole + (magnitude - whole >= 0.5), quotient)
            value = rounded.astype(np.int32) + np.int32(zero_point)
    return np.clip(value, info.min, info.max).astype(dtype)


def dequantize(x: NDArray[np.generic], scale: float, zero_point: int) -> NDArray[np.float32]:
    """``(x - zero_point) * scale`` in float32."""
    with np.errstate(over="ignore"):  # an infinity, as there
        return (np.asarray(x, np.int32) - zero_point).astype(np.float32) * np.float32(scale)


def reshape(x: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """The same elements in row-major order with another shape."""
    return np.ascontiguousarray(x).reshape(shape)
