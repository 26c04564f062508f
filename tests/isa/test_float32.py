"""The rounding mode FLOAT32 against NumPy's float32: all sums of 16 bits, sums beside ties, and where it stops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tilewright.isa.arithmetic import requantize, scale_round
from tilewright.isa.functions import FLOAT_LIMIT, Rounding

DECIMALS = np.array([0.01, 0.02, 0.03, 0.05, 0.1], np.float32)
FINE_DECIMALS = np.array([0.001, 0.002, 0.004, 0.005, 0.01], np.float32)


def entry_of(scales: np.ndarray | np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers and shifts of float32 scales below 128."""
    mantissa, exponent = np.frexp(scales)
    return (mantissa * (1 << 24)).astype(np.int64) << np.maximum(exponent, 0), np.maximum(-exponent, 0)


def in_float32(value: np.ndarray, scales: np.ndarray | np.float32) -> np.ndarray:
    """What ONNX Runtime computes."""
    rounded: np.ndarray = np.rint(value.astype(np.float32) * scales)
    return np.clip(rounded, -FLOAT_LIMIT, FLOAT_LIMIT).astype(np.int64)


def of_few_digits() -> np.ndarray:
    """Scales of a layer whose own have few decimals: input times weight by output, in float32."""
    x, w, y = np.meshgrid(DECIMALS, FINE_DECIMALS, DECIMALS)
    scales: np.ndarray = np.unique((x * w / y).ravel())
    return scales


def of_any_size(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.exp(rng.uniform(np.log(2.0**-16), np.log(128), count)).astype(np.float32)


def powers() -> np.ndarray:
    """Powers of two and their neighbours: mantissas of one bit, of all bits, and of two far apart."""
    power = np.float32(2.0) ** np.arange(-15, 7, dtype=np.float32)
    return np.concatenate([power, np.nextafter(power, np.float32(0)), np.nextafter(power, np.float32(np.inf))])


def beside_ties(scales: np.ndarray) -> Iterator[np.ndarray]:
    """For each scale the seven sums nearest to every result and a half."""
    for n in range(-FLOAT_LIMIT - 1, FLOAT_LIMIT + 1):
        middle = np.rint((n + 0.5) / scales.astype(np.float64)).astype(np.int64)
        for step in range(-3, 4):
            yield np.clip(middle + step, -(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize("scales", [of_few_digits(), of_any_size(np.random.default_rng(1), 40), powers()])
def test_all_sums_of_16_bits(scales: np.ndarray) -> None:
    value = np.arange(-(1 << 15), (1 << 15) + 1)
    for scale in scales:
        found = scale_round(value, *entry_of(scale), 0, Rounding.FLOAT32)
        np.testing.assert_array_equal(found, in_float32(value, scale))


def test_sums_beside_ties() -> None:
    """Decimal scales put many sums within float32's rounding errors of a tie: one rounding alone decides otherwise."""
    scales = np.concatenate([of_few_digits(), of_any_size(np.random.default_rng(2), 4000), powers()])
    multiplier, shift = entry_of(scales)
    once = 0
    for value in beside_ties(scales):
        expected = in_float32(value, scales)
        np.testing.assert_array_equal(scale_round(value, multiplier, shift, 0, Rounding.FLOAT32), expected)
        rounded_once = np.rint(value * scales.astype(np.float64))
        once += int((np.clip(rounded_once, -FLOAT_LIMIT, FLOAT_LIMIT) != expected).sum())
    assert once > 100


def test_every_int32_of_scales_from_2_to_the_minus_16_on_and_up_to_2_to_the_minus_32() -> None:
    rng = np.random.default_rng(3)
    edges = np.array([-(1 << 31), (1 << 31) - 1, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, -(1 << 24) - 1])
    value = np.concatenate([edges, rng.integers(-(1 << 31), 1 << 31, 20000), rng.integers(1 << 24, 1 << 26, 20000)])
    tiny = np.array([2.0**-32, 2.0**-33, 2.0**-60], np.float32)
    for scale in np.concatenate([powers(), of_any_size(rng, 100), tiny]):
        if scale >= 2.0**-16 or scale <= 2.0**-32:
            found = scale_round(value, *entry_of(scale), 0, Rounding.FLOAT32)
            np.testing.assert_array_equal(found, in_float32(value, scale))


def test_sums_beyond_24_bits_are_not_rounded_before_the_product() -> None:
    """The limit that the page states, at a smaller scale: of this sum float32 has not the last bit."""
    value, scale = np.array([18006627]), np.float32(9.0799895e-06)
    assert in_float32(value, scale) == 164
    assert scale_round(value, *entry_of(scale), 0, Rounding.FLOAT32) == 163


def test_requantize_ends_at_the_clamp() -> None:
    """Zero points of either end: no result that a clamp keeps lies beyond the limit."""
    value = np.arange(-600, 601)
    for zero_point in (-128, 0, 127):
        found = requantize(value, 0, 1 << 23, 0, 0, Rounding.FLOAT32, zero_point)
        expected = np.clip(np.rint(value * np.float32(0.5)) + zero_point, -128, 127)
        np.testing.assert_array_equal(found, expected)
