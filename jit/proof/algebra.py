"""The algebra of the proof: int8 elements are random numbers of GF(P), non-linear functions are random functions.

A field element is a float64 that holds an integer of magnitude below 2^53; *reduced* ones lie within about
+-P/2. A product with an int8 weight is then below 2^40, and 2^13 of them add up exactly, so that GEMM in this
algebra is ordinary floating point with a reduction now and then. Known constants stand for themselves.

A linear form with integer coefficients is zero for random elements with probability 1/P, unless its coefficients
are all multiples of P: none is, for they are sums of few products of 8-bit numbers, or those times one power of two.
Forms that are equal over the integers are equal in int32 arithmetic, which wraps, too.

A function is known by its *key*, 64 bits that are hashed from its parameters and the seed. What two functions have
in common shows only where they are brought to one form here:

* requantisation that leaves every int8 value as it is: the element itself, or for a narrower clamp a function of the
  clamp alone; also where the value is a sum with a single weight, 1, which selects it;
* rescaling: by its table over all int8 values, so equal tables are one function; ``a x + b`` is computed;
* the maximum of int8 values: the sum of a random function over the values, 0 for -128; their minimum: of another, 0
  for 127.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import FLOAT_LIMIT
from tilewright.jit.proof.native import compiled, interpretable
from tilewright.sim.functions import nudge, precision, to_even

P = (1 << 33) - 9  #: prime
SUM_TERMS = 1 << 13  #: products of a reduced element and an int8 weight that may be added before a reduction
REQUANTIZE, CLAMP, MAXIMUM, MEMBER, TABLE, MINIMUM = range(1, 7)  #: what a key is for
#: what an accumulator holds: a sum or product, one int8 value, a maximum or minimum of int8 values, a sum of which all
#: weights are zero
LINEAR, PLAIN, MAXSET, MINSET, NOTHING = range(5)

_INVERSE, _POWER = 1.0 / P, float(1 << 33)
_HALF = 1 << 32
_GOLDEN, _MIX1, _MIX2 = -7046029254386353131, -4658895280553007687, -7723592293110705685


@compiled
def reduce(value: float) -> float:
    """A congruent number within about +-P/2.

    P by parts, so that no product is rounded, not even for a ``value`` beyond 2^53 that a float64 holds.
    """
    count = np.rint(value * _INVERSE)
    return (value - _POWER * count) + (_POWER - P) * count


@compiled
def residue(value: float) -> int:
    """The congruent integer in 0 .. P-1."""
    r = int(reduce(value))
    if r < 0:
        r += P
    return r - P if r >= P else r


@compiled
def multiply(factor: int, value: float) -> float:
    """``factor * value`` reduced, for a reduced value and a factor below 2^33."""
    high = factor >> 16
    return reduce(reduce(high * value) * 65536.0 + (factor - (high << 16)) * value)


@compiled
def mix(x: int) -> int:
    """A bijection of 64-bit numbers in which every bit depends on every bit (the finaliser of SplitMix64)."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _MIX1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _MIX2
    return x ^ ((x >> 31) & ((1 << 33) - 1))


@compiled
def chain(key: int, value: int) -> int:
    """A key that depends on ``key`` and a parameter more."""
    number: Any = np.int64(value)  # wraps
    return mix((key ^ (number * _GOLDEN)) + _MIX2)


@compiled
def hashed(key: int) -> float:
    """An element that depends on every bit of a key."""
    return np.float64((mix(key) >> 31) & (2 * _HALF - 1)) - _HALF


@compiled
def symbol(value: float, key: int) -> float:
    """The function ``key`` of an element: any function at all, but always the same."""
    return hashed(residue(value) + key)


@compiled
def member(value: float, kind: int, seed: int) -> float:
    """What an int8 value adds to a maximum (MAXSET), nothing if it is -128, or to a minimum, nothing if it is 127."""
    least = P - 128 if kind == MAXSET else 127
    return 0.0 if residue(value) == least else symbol(value, chain(chain(seed, MEMBER), kind))


@compiled
def extreme(kind: int) -> int:
    """What the key of the extreme of a set is for."""
    return MAXIMUM if kind == MAXSET else MINIMUM


@compiled
def times(a: float, b: float) -> float:
    """``a * b`` reduced, for reduced values."""
    return multiply(residue(a), b)


@compiled
def scale_round(value: int, multiplier: int, shift: int, offset: int, rounding: int) -> int:
    """:func:`tilewright.isa.arithmetic.scale_round` of one number."""
    digits = precision(rounding)
    if digits:  # those of float32, whose roundings are the same ones
        real = np.float32(value * multiplier + offset) * np.float32(2.0 ** -(shift + digits))
        return int(np.rint(min(max(real, np.float32(-FLOAT_LIMIT)), np.float32(FLOAT_LIMIT))))
    half = 1 << (shift - 1) if shift > 0 else 0
    total = value * multiplier + offset + half + nudge(rounding, 1 if value < 0 else 0, shift, half)
    result = total >> shift
    if to_even(rounding) and shift > 0 and total & ((1 << shift) - 1) == 0:
        result &= ~1
    return result


@compiled
def keeps_int8(bias: int, multiplier: int, shift: int, offset: int, rounding: int, zero_point: int) -> bool:
    """Whether requantisation, but for its clamp, gives every int8 value back."""
    for x in range(-128, 128):
        if scale_round(int(np.int32(x + bias)), multiplier, shift, offset, rounding) + zero_point != x:
            return False
    return True


@compiled
def requantize_key(
    seed: int, multiplier: int, shift: int, offset: int, rounding: int, zero_point: int, lo: int, hi: int
) -> int:
    """The key of a requantisation; its bias is added to the accumulator instead."""
    key = chain(chain(seed, REQUANTIZE), multiplier)
    key = chain(chain(key, shift), offset)
    return chain(chain(key, (rounding << 8) + zero_point), (lo << 16) + hi)


@compiled
def clamp_key(seed: int, what: int, lo: int, hi: int) -> int:
    """The key of a clamp of one int8 value (CLAMP), of a maximum (MAXIMUM) or of a minimum (MINIMUM)."""
    return chain(chain(seed, what), (lo << 16) + hi)


@compiled
def requantized(value: float, kind: int, bias: int, key: int, keeps: bool, lo: int, hi: int, seed: int) -> float:
    """What REQUANTIZE makes of an accumulator of one kind; ``keeps`` is :func:`keeps_int8` of its parameters."""
    if kind in (MAXSET, MINSET):
        if keeps:
            return symbol(value, clamp_key(seed, extreme(kind), lo, hi))
        value = symbol(value, clamp_key(seed, extreme(kind), -128, 127))
    elif kind in (PLAIN, NOTHING) and keeps:
        return value if lo <= -128 and hi >= 127 else symbol(value, clamp_key(seed, CLAMP, lo, hi))
    return symbol(value + bias, key)


@compiled
def scale_entry(x: int, bias: int, multiplier: int, shift: int, offset: int, rounding: int) -> int:
    """RESCALE of one int8 value."""
    shifted = int(np.int32((x << RESCALE_LEFT_SHIFT) + bias))
    return int(np.int32(scale_round(shifted, multiplier, shift, offset, rounding)))


@interpretable
def table_form(seed: int, table: np.ndarray) -> tuple[int, int, int]:
    """A function of int8 values by its 256 results: (a, b, 0) for ``a x + b``, else (0, 0, key)."""
    a = table[129] - table[128]
    b = table[128]
    key = chain(seed, TABLE)
    straight = True
    for k in range(256):
        key = chain(key, table[k])
        straight = straight and table[k] == a * (k - 128) + b
    return (a, b, 0) if straight else (0, 0, key if key else 1)


@compiled
def apply_form(value: float, a: int, b: int, key: int) -> float:
    """A function in the form of :func:`table_form` applied to an element."""
    if key:
        return symbol(value, key)
    return value if a == 1 and b == 0 else reduce(multiply(a, value) + b)
