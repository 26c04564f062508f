"""sigmoid and tanh of int16, and its bytes, as LiteRT's integer LSTM computes them, in NumPy.

Source: gemmlowp ``fixedpoint.h``: exp of negative numbers by its Taylor series on a quarter and a product for each bit
above, then 1 / (1 + x) by three steps of Newton and Raphson, all in rounded 16-bit products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[Any]

ONE = 1 << 15  #: 1 with 15 bits of fraction
EXP_EIGHTH = 28918  #: exp(-1/8)
THIRD = 10923  #: 1/3
#: exp(-2^k) for k from -2 on, which multiplies where that bit of the argument is set
POWERS = (25520, 19875, 12055, 4435, 600, 11, 0)
SEED, SLOPE = 23130, 15420  #: 48/17 and 32/17 with 13 bits of fraction


def product(a: ArrayLike, b: ArrayLike) -> Integers:
    """The rounded product of two numbers with 15 bits of fraction (SaturatingRoundingDoublingHighMul)."""
    return (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 14)) >> 15


def rounded_shift(x: ArrayLike, bits: int) -> Integers:
    """``x / 2^bits``, rounded half away from zero (RoundingDivideByPOT)."""
    value = np.asarray(x, np.int64)
    if bits == 0:
        return value
    return (value + (1 << bits - 1) - (value < 0)) >> bits


def exp_negative(n: ArrayLike, fraction: int) -> Integers:
    """exp(n) with 15 bits of fraction, for n < 0 with ``fraction`` bits."""
    value = np.asarray(n, np.int64)
    quarter = 1 << fraction - 2
    low = (value & quarter - 1) - quarter
    x = (low << 15 - fraction) + (1 << 12)
    square = product(x, x)
    cube = product(square, x)
    series = product(rounded_shift(product(square, square), 2) + cube, THIRD) + square
    result = EXP_EIGHTH + product(EXP_EIGHTH, x + rounded_shift(series, 1))
    rest = low - value
    for k in range(17 - fraction):
        result = np.where(rest & (quarter << k), product(result, POWERS[k]), result)
    return result


def reciprocal(x: ArrayLike) -> Integers:
    """1 / (1 + x) with 14 bits of fraction, for x in [0, 1) with 15 bits."""
    half = (np.asarray(x, np.int64) + ONE) >> 1
    result = SEED + product(half, -SLOPE)
    for _ in range(3):
        result = result + (product(result, (1 << 13) - product(half, result)) << 2)
    return result


def sigmoid(a: ArrayLike) -> Integers:
    """1 / (1 + exp(-a)) with 15 bits of fraction, for int16 ``a`` with 12."""
    value = np.asarray(a, np.int64)
    positive = np.minimum(reciprocal(exp_negative(-np.abs(value), 12)) << 1, ONE - 1)
    return np.where(value == 0, ONE >> 1, np.where(value > 0, positive, ONE - 1 - positive))


def tanh(a: ArrayLike, integer_bits: int = 3) -> Integers:
    """tanh(a) with 15 bits of fraction, for int16 ``a`` with 15 - ``integer_bits`` (at most 4 integer bits)."""
    value = np.asarray(a, np.int64)
    e = exp_negative(-np.abs(value), 14 - integer_bits)
    return np.sign(value) * np.minimum((reciprocal(e) - (1 << 13)) << 2, ONE - 1)


def joined(high: NDArray[np.int8], low: NDArray[np.int8]) -> NDArray[np.int64]:
    """int16 from its bytes."""
    return high.astype(np.int64) * 256 + low + 128


def parted(values: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """The bytes of int16."""
    return (values >> 8).astype(np.int8), ((values & 255) - 128).astype(np.int8)
