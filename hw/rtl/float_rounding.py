"""How the lanes round in floating point: to 24 significant bits and then to an integer, decided at once.

A lane shifts so that r, of 8 bits and a sign, stands above a fraction of 25 bits, of which as many count as the first
rounding keeps: 24 less those of r. A greater r is beyond every clamp.

A fraction of an even r rounds up if the first rounding leaves more than a half of it; one of an odd r if not less. That
is so where the complement of its bits is not more than a half: so both are one comparison, and r's own lowest bit. What
the first rounding leaves is more than a half if a bit below the half is set that it keeps, or the next one, by which it
rounds, and not back to even: ties go away from the half where r is odd, and else where something is below.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Value

from tilewright.hw.rtl.functions import any_of, wire

FRACTION = 25  #: bits below r, of the word that is shifted
BITS, HALF = 8, 4  #: of r, beside its sign


def decision(m: Module, word: Value, below: Value, sign: Value) -> tuple[Value, Value, Value, Value]:
    """What :func:`rounds_up` takes, in a stage before it.

    ``word``: r and its fraction; ``below``: whether a bit under it is set.
    """
    r, odd = word[FRACTION:], word[FRACTION]
    fraction = wire(m, "fraction", word[:FRACTION] ^ odd.replicate(FRACTION))
    differs = wire(m, "differs", r ^ sign.replicate(BITS))
    # Bit k is below the one that the first rounding looks at if a bit of r, 25 places above it or higher, is no sign.
    # Bits of the same half of r are looked at together: Yosys makes a long path of eight.
    lower = [wire(m, f"lower_{k}", differs[k : k // HALF * HALF + HALF].any()) for k in range(BITS)] + [Const(0, 1)]
    high, first, second = lower[HALF], range(HALF), range(HALF, BITS)
    kept = any_of(fraction[k + 1] & ~lower[k] for k in second) | fraction[BITS + 1 : FRACTION - 1].any()
    kept |= ~high & any_of(fraction[k + 1] & ~lower[k] for k in first)
    next_one = any_of(fraction[k] & ~lower[k] for k in (*second, BITS))
    next_one |= ~high & any_of(fraction[k] & ~lower[k] for k in first)
    rest = any_of(word[k] & lower[k] for k in second) | any_of(word[k] & lower[k] for k in first)
    rest |= odd | below | (high & word[:HALF].any())
    near = fraction[FRACTION - 1]
    return odd, near & kept, near & next_one, rest


def rounds_up(odd: Value, kept: Value, next_one: Value, rest: Value) -> Value:
    """Whether r is one more."""
    return odd ^ (kept | (next_one & rest))
