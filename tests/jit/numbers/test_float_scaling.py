"""The constants that meet a staircase's thresholds, against all that there are."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.jit.numbers import float_scaling

LEVELS = np.arange(-2, 4)


def table(multiplier: int, shift: int, constant: int, acc: np.ndarray) -> list[int]:
    """The first accumulator of each level, one past the last where none gets there."""
    reached = (acc * multiplier + constant) >> shift
    return [int(acc[reached >= level][0]) if (reached >= level).any() else int(acc[-1]) + 1 for level in LEVELS]


@pytest.mark.parametrize("seed", range(30))
def test_the_interval_is_of_all_constants_and_no_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift, multiplier = int(rng.integers(2, 7)), int(rng.integers(1, 60))
    low = int(rng.integers(-40, -5))
    acc = np.arange(low, int(rng.integers(5, 40)) + 1)
    wanted = table(multiplier, shift, int(rng.integers(-(4 << shift), 4 << shift)), acc)
    same = [r for r in range(-(60 << shift), 60 << shift) if table(multiplier, shift, r, acc) == wanted]
    assert same == [*range(same[0], same[-1] + 1)]
    stairs = float_scaling._Stairs(np.array([wanted]), LEVELS, acc[:1], acc[-1:])
    least, most = float_scaling._interval(stairs, np.array([multiplier]), np.array([shift]), np.array([0]))
    if any(t > low for t in wanted):
        assert most == same[-1]
    if any(t <= acc[-1] for t in wanted):
        assert least == same[0]
    assert least <= most


def test_a_multiplier_that_meets_no_constant_is_moved_to_one_that_does() -> None:
    """Thresholds that lie as far apart as another multiplier has them: the nearest such is found by halving."""
    moved = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shift, multiplier, acc = 20, int(rng.integers(1 << 12, 1 << 14)), np.arange(-600, 601)
        wanted = table(multiplier, shift, int(rng.integers(1 << 20)), acc)
        given = np.array([multiplier + int(rng.integers(-40, 41))])
        stairs = float_scaling._Stairs(np.array([wanted]), LEVELS, acc[:1], acc[-1:])
        rows, shifts = np.array([0]), np.array([shift])
        least, most = float_scaling._interval(stairs, given, shifts, rows)
        if least <= most:
            continue
        moved += 1
        found = float_scaling._nudged(stairs, given, shifts, rows)
        least, most = float_scaling._interval(stairs, found, shifts, rows)
        assert least <= most
        assert table(int(found[0]), shift, int(least[0]), acc) == wanted
    assert moved > 5
