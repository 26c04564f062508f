"""The algebra: exact arithmetic modulo P, the instruction set's own scaling, and functions that are told apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.isa.arithmetic import requantize, rescale, scale_round
from tilewright.isa.functions import Rounding
from tilewright.jit.proof.algebra import (
    CLAMP,
    LINEAR,
    MAXIMUM,
    MAXSET,
    MINSET,
    PLAIN,
    P,
    apply_form,
    clamp_key,
    keeps_int8,
    member,
    mix,
    multiply,
    reduce,
    requantize_key,
    requantized,
    residue,
    scale_entry,
    symbol,
    table_form,
    times,
)

SEED = 0x1234_5678_9ABC
INT8 = np.arange(-128, 128)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
EXACT = st.integers(-(1 << 53) + 1, (1 << 53) - 1)
ROUNDINGS = st.sampled_from([Rounding.DOUBLE, Rounding.SINGLE, Rounding.EVEN])


def test_p_is_prime_and_holds_every_int32_apart() -> None:
    assert P > 1 << 32
    assert all(P % divisor for divisor in range(2, int(P**0.5) + 1))


@settings(deadline=None)
@given(EXACT)
def test_reduction_is_exact(value: int) -> None:
    assert residue(float(value)) == value % P
    assert abs(reduce(float(value))) <= P // 2 + 2
    assert (int(reduce(float(value))) - value) % P == 0


@settings(deadline=None)
@given(st.integers(-(1 << 32), 1 << 32), st.integers(-(P // 2), P // 2))
def test_multiplication_is_exact(factor: int, value: int) -> None:
    assert residue(multiply(factor, float(value))) == factor * value % P


@settings(deadline=None)
@given(INT32, st.integers(0, (1 << 31) - 1), st.integers(0, 63), INT32, ROUNDINGS)
def test_rescaling_is_that_of_the_instruction_set(bias: int, m: int, shift: int, offset: int, rounding: int) -> None:
    expected = rescale(INT8, bias, m, shift, offset, Rounding(rounding))
    assert [scale_entry(int(x), bias, m, shift, offset, int(rounding)) for x in INT8] == expected.tolist()


@pytest.mark.parametrize("rounding", [Rounding.DOUBLE, Rounding.SINGLE, Rounding.EVEN])
def test_what_keeps_int8_does(rounding: Rounding) -> None:
    """Around what keeps every value, so that both answers come often: by the definition, without its clamp."""
    rng, answers = np.random.default_rng(int(rounding)), []
    for _ in range(2000):
        shift, zero = int(rng.integers(0, 31)), int(rng.integers(-128, 128))
        m = (1 << shift) + int(rng.integers(-2, 3)) * (1 << max(0, shift - 9)) * int(rng.random() < 0.5)
        bias = -zero + int(rng.integers(-1, 2)) * int(rng.random() < 0.3)
        offset = int(rng.integers(-(1 << shift), (1 << shift) + 1) * rng.choice([0, 0.25, 0.5, 1]))
        expected = bool((scale_round(INT8 + bias, m, shift, offset, rounding) + zero == INT8).all())
        assert keeps_int8(bias, m, shift, offset, int(rounding), zero) == expected, (bias, m, shift, offset, zero)
        if expected:
            assert np.array_equal(requantize(INT8, bias, m, shift, offset, rounding, zero), INT8)
        answers.append(expected)
    assert 300 < sum(answers) < 1700


@pytest.mark.parametrize("rounding", [0, 1, 2])
@pytest.mark.parametrize("shift", [0, 1, 8, 30])
def test_identities_are_known(rounding: int, shift: int) -> None:
    assert keeps_int8(0, 1 << shift, shift, 0, rounding, 0)
    assert keeps_int8(-7, 1 << shift, shift, 0, rounding, 7)
    assert not keeps_int8(0, 1 << shift, shift, 0, rounding, 1)
    assert not keeps_int8(0, (1 << shift) + (1 << max(0, shift - 6)), shift, 0, rounding, 0)


def test_every_parameter_of_a_requantisation_matters() -> None:
    base = [1 << 30, 31, 5, 1, -3, -128, 127]
    keys = {requantize_key(SEED, *base), requantize_key(SEED + 1, *base)}
    for k in range(len(base)):
        for change in (1, -1, 2):
            changed = list(base)
            changed[k] += change
            keys.add(requantize_key(SEED, *changed))
    keys |= {clamp_key(SEED, what, lo, hi) for what, lo, hi in product((CLAMP, MAXIMUM), (-128, 0), (6, 127))}
    assert len(keys) == 2 + 3 * len(base) + 8


def test_functions_of_distinct_elements_are_distinct() -> None:
    values = [float(v) for v in range(-500, 500)]
    assert len({residue(symbol(v, mix(SEED))) for v in values}) == 1000
    assert symbol(5.0, SEED) == symbol(5.0 - P, SEED), "congruent numbers are one element"


def test_symbols_spread_over_the_field() -> None:
    values = np.array([symbol(float(v), SEED) for v in range(20000)])
    assert abs(values.mean()) < P / 100
    assert abs(values.std() / (P / 12**0.5) - 1) < 0.02


def test_copies_are_copies() -> None:
    key = requantize_key(SEED, 1 << 30, 30, 0, 1, 0, -128, 127)
    assert requantized(77.0, PLAIN, 0, key, True, -128, 127, SEED) == 77.0
    assert requantized(77.0, LINEAR, 0, key, True, -128, 127, SEED) == symbol(77.0, key)
    clamped = requantized(77.0, PLAIN, 0, key, True, 0, 6, SEED)
    assert clamped == symbol(77.0, clamp_key(SEED, CLAMP, 0, 6))
    assert requantized(77.0, PLAIN, 3, key, False, 0, 6, SEED) == symbol(80.0, key)


@pytest.mark.parametrize("kind,least", [(MAXSET, -128.0), (MINSET, 127.0)])
def test_an_extreme_is_a_set(kind: int, least: float) -> None:
    a, b, nothing = (member(v, kind, SEED) for v in (11.0, 1e9, least))
    assert nothing == 0
    key = requantize_key(SEED, 1 << 30, 30, 0, 1, 0, -128, 127)
    both = requantized(a + b + nothing, kind, 0, key, True, -128, 127, SEED)
    assert both != requantized(a + b, MAXSET + MINSET - kind, 0, key, True, -128, 127, SEED)
    assert both == requantized(b + a, kind, 0, key, True, -128, 127, SEED)
    assert both != requantized(a, kind, 0, key, True, -128, 127, SEED)
    assert both != requantized(a + b, kind, 0, key, True, 0, 127, SEED)
    assert both != requantized(a + b, LINEAR, 0, key, True, -128, 127, SEED)
    scaled = requantized(a + b, kind, 4, key, False, -128, 127, SEED)
    assert scaled != both
    assert scaled != requantized(a + b, LINEAR, 4, key, False, -128, 127, SEED)


def test_products_are_those_of_the_field() -> None:
    for a, b in ((3.0, -7.0), (1e9, -2e9), (-4294967291.0, 4294967290.0)):
        assert residue(times(a, b)) == int(a) * int(b) % P == residue(times(b, a))


def test_functions_are_known_by_their_tables() -> None:
    line = tuple(table_form(SEED, (3 * INT8 - 7).astype(np.int64)))
    assert line == (3, -7, 0)
    assert residue(apply_form(1e9, *line)) == (3 * 10**9 - 7) % P
    assert tuple(table_form(SEED, INT8.astype(np.int64))) == (1, 0, 0)
    assert tuple(table_form(SEED, np.full(256, 9))) == (0, 9, 0)
    square = INT8.astype(np.int64) ** 2
    bent = square.copy()
    bent[255] += 1
    first, second = (tuple(table_form(SEED, t)) for t in (square, bent))
    assert first[:2] == (0, 0)
    assert first[2] not in (0, second[2])
    assert apply_form(5.0, *first) == symbol(5.0, first[2])
