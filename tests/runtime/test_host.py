"""Host operators: softmax against LiteRT and against exact integers, and the edges of casts and quantisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.tflite_models import TfliteBuilder
from tilewright.jit.numbers.scales import softmax_constants
from tilewright.runtime import host, interpreters


def rounded_half_up(value: int, shift: int) -> int:
    return (value + (1 << shift - 1)) >> shift


@pytest.mark.parametrize("a", [0, 1, 2, 3, -1, -2, -3, (1 << 31) - 1, -(1 << 31), 715827883, -1010580540])
def test_high_products_of_int32_saturate_and_round_ties_up(a: int) -> None:
    others = [0, 1, -1, 1 << 30, -(1 << 30), 1 << 29, 3 << 29, (1 << 31) - 1, -(1 << 31)]
    found = host.doubling_high_mul(np.array(others, np.int64), a)
    assert found.tolist() == [min((1 << 31) - 1, rounded_half_up(a * b, 31)) for b in others]


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 12, 31])
def test_shifts_to_the_right_round_ties_away_from_zero(exponent: int) -> None:
    half = 1 << exponent >> 1
    values = [0, *(sign * (k * (1 << exponent) + half + d) for sign in (1, -1) for k in (0, 1, 5) for d in (-1, 0, 1))]
    found = host.rounding_divide_by_pot(np.array(values, np.int64), exponent).tolist()
    sizes = [(abs(v) + half) >> exponent for v in values]
    assert found == [size if v >= 0 else -size for size, v in zip(sizes, values, strict=True)]


@pytest.mark.parametrize("scale", [1 / 256, 0.05, 0.25, 1.0, 3.7, 31.0])
@pytest.mark.parametrize("width", [1, 2, 7, 511])
def test_softmax_is_that_of_litert(width: int, scale: float, tmp_path: Path) -> None:
    b = TfliteBuilder(1)
    x, y = b.tensor([4, width], scale, 3), b.tensor([4, width], 1 / 256, -128)
    b.op("SOFTMAX", [x], y, "SoftmaxOptions", Beta=1.0)
    path = b.save(tmp_path / "m.tflite", [x], [y])
    rng = np.random.default_rng(width)
    rows = [
        rng.integers(-128, 128, width),
        np.full(width, 5),
        np.where(np.arange(width) == 0, 127, -128),
        np.clip(np.arange(width) - 128, -128, 127),
    ]
    values = np.stack(rows).astype(np.int8)
    (wanted,) = interpreters.load("litert", path.read_bytes(), "softmax")([values])
    np.testing.assert_array_equal(host.softmax_int8(values, *softmax_constants(scale)), wanted)


def test_a_sum_beyond_int32_is_refused() -> None:
    """Each of as many equal elements adds 2^19; 2^12 of them are 2^31."""
    multiplier, shift, least = softmax_constants(0.25)
    fits = host.softmax_int8(np.zeros((1, 4096), np.int8), multiplier, shift, least)
    assert fits.tolist() == [[-128] * 4096]
    with pytest.raises(OverflowError, match="the sum over 4098 elements exceeds int32"):
        host.softmax_int8(np.zeros((1, 4098), np.int8), multiplier, shift, least)


def test_differences_at_the_least_that_counts() -> None:
    """Of differences from 0 to -20, those of -10 and more add to the sum."""
    row = np.arange(0, -21, -1).astype(np.int8)[None]
    multiplier, shift, _ = softmax_constants(0.1)
    for least in (-10, 0, -20, -255, -1000):
        found = host.softmax_int8(row, multiplier, shift, least)[0].astype(int) + 128
        share = np.exp(0.1 * row[0]) * (row[0] >= least)
        assert np.abs(found - 256 * share / share.sum()).max() <= 1
        assert not found[row[0] < least].any()


def test_shares_by_table_are_summed_one_after_another() -> None:
    """In float32 small terms behind a large one are lost, and before it are not."""
    table = np.zeros(256, np.float32)
    table[-1], table[-2] = 2.0**24, 1.0
    first, last = np.full((2, 1, 9), -1, np.int8)
    first[0, 0], last[0, -1] = 0, 0
    # 2^24 and eight ones are 2^24 one after another, and 2^24 + 8 the other way round
    for row, total in ((first, 2.0**24), (last, 2.0**24 + 8)):
        found = host.softmax_by_table(row, table, 2.0**30 / 2.0**22, 0)
        large = np.rint(np.float32(2.0**24 * 256) / np.float32(total))
        assert found[row == 0].tolist() == [min(large, 255) - 128]
    factor = np.float32(2.0**24 + 8) / np.float32(2)
    halves = [int(host.softmax_by_table(row, table, float(factor), 7)[0, 3]) + 128 - 7 for row in (first, last)]
    assert halves == [1, 0], "0.50000024 and a tie, to even"


def test_shares_beyond_float32_are_bytes_of_zero() -> None:
    table = np.full(256, 1e30, np.float32)
    assert host.softmax_by_table(np.zeros((1, 2), np.int8), table, 1e10, 3).tolist() == [[3 - 128] * 2]
    one = np.full(256, 1.0, np.float32)
    assert host.softmax_by_table(np.zeros((1, 1), np.int8), one, 256.0, 9).tolist() == [[127]]
    assert host.softmax_by_table(np.zeros((1, 2), np.int8), one, 256.0, 9).tolist() == [[128 + 9 - 128] * 2]


@pytest.mark.parametrize(("dtype", "low", "high"), [("int8", -128, 127), ("uint8", 0, 255), ("int16", -32768, 32767)])
def test_casts_take_all_that_fits(dtype: str, low: int, high: int) -> None:
    for offset in (0, 100):
        found = host.cast(np.array([low - offset, high - offset]), offset, dtype)
        assert found.dtype == dtype
        assert found.tolist() == [low, high]
        for beyond in (low - 1, high + 1):
            with pytest.raises(OverflowError, match=f"values {beyond}..{beyond} do not fit {dtype}"):
                host.cast(np.array([beyond - offset]), offset, dtype)
    assert host.cast(np.zeros((0, 3), np.int8), 500, dtype).shape == (0, 3)


def test_ties_go_to_even_or_away_from_zero() -> None:
    x = np.array([-2.5, -1.5, -0.5, -0.49999997, 0.0, 0.49999997, 0.5, 1.5, 2.5, 8388609.0, 1e9, -1e9], np.float32)
    even = [-2, -2, 0, 0, 0, 0, 0, 2, 2, 32767, 32767, -32768]
    away = [-3, -2, -1, 0, 0, 0, 1, 2, 3, 32767, 32767, -32768]
    assert host.quantize(x, 1.0, 0, "int16", "even").tolist() == even
    assert host.quantize(x, 1.0, 0, "int16", "away").tolist() == away
    assert host.quantize(x[:9], 1.0, 7, "int8", "away").tolist() == [v + 7 for v in away[:9]]
    assert host.quantize(np.array([300.0, -300.0], np.float32), 1.0, 0, "uint8").tolist() == [255, 0]


def test_what_is_no_number_is_an_error_where_ties_go_to_even() -> None:
    x = np.array([0.0, np.nan], np.float32)
    with pytest.raises(ValueError, match="quantize: a value is NaN"):
        host.quantize(x, 1.0, 0)
    assert host.quantize(np.array([np.inf, -np.inf], np.float32), 1.0, 0).tolist() == [127, -128]


def test_dequantised_differences_are_taken_before_the_product() -> None:
    x = np.array([-128, 127], np.int8)
    assert host.dequantize(x, 0.1, -128).tolist() == [0.0, float(np.float32(255) * np.float32(0.1))]
    assert host.dequantize(np.array([65535], np.uint16), 2.0, 65535).tolist() == [0.0]
