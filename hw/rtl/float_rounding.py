"""How the lanes round in floating point: to 24 significant bits and then to an integer, decided at once.

A lane shifts so that r, of 8 bits and a sign, stands above a fraction of 25 bits, of which as many count as the first
rounding keeps: 24 less those of r. A greater r is beyond every clamp.

A fraction of an even r rounds up if the first rounding leaves more than a half of it; one of an odd r if not less. That
is so where the complement of its bits is not more than a half: so both are one comparison, and r's own lowest bit. What
the first rounding leaves is more than a half if a bit below the half is set that it keeps, or the next one, by which it
rounds, and not back to even: ties go away from the half where r is odd, and else where something is below.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Const, Module, Value

from tilewright.hw.rtl.functions import any_of, wire

FRACTION = 25  #: bits below r, of the word that is shifted
BITS, HALF = 8, 4  #: of r, beside its sign


def decision(m: Module, word: Value, below: Value, sign: Value) -> dict[str, Value]:
    """What :func:`rounds_up` takes, in a stage before it.

    ``word``: r and its fraction; ``below``: whether a bit under it is set. Bits of the same half of r are looked at
    together, and halves are joined in the next stage: Yosys makes a long path of eight.
    """
    r, odd = word[FRACTION:], word[FRACTION]
    fraction = wire(m, "fraction", word[:FRACTION] ^ odd.replicate(FRACTION))
    differs = wire(m, "differs", r ^ sign.replicate(BITS))
    # bit k is below the one that the first rounding looks at if a bit of r, 25 places above it or higher, is no sign
    lower = [wire(m, f"lower_{k}", differs[k : k // HALF * HALF + HALF].any()) for k in range(BITS)] + [Const(0, 1)]
    first, second = range(HALF), range(HALF, BITS)
    return {
        "odd": odd,
        "near": fraction[FRACTION - 1],
        "high": lower[HALF],
        "kept_first": any_of(fraction[k + 1] & ~lower[k] for k in first),
        "kept_second": any_of(fraction[k + 1] & ~lower[k] for k in second),
        "kept_always": fraction[BITS + 1 : FRACTION - 1].any(),
        "next_first": any_of(fraction[k] & ~lower[k] for k in first),
        "next_second": any_of(fraction[k] & ~lower[k] for k in (*second, BITS)),
        "below": below,
        "below_first": any_of(word[k] & lower[k] for k in first),
        "below_second": any_of(word[k] & lower[k] for k in second),
        "below_high": word[:HALF].any(),
    }


def rounds_up(bits: Mapping[str, Value]) -> Value:
    """Whether r is one more."""
    kept = bits["kept_always"] | bits["kept_second"] | (bits["kept_first"] & ~bits["high"])
    next_one = bits["next_second"] | (bits["next_first"] & ~bits["high"])
    below = bits["below"] | bits["below_first"] | bits["below_second"] | (bits["below_high"] & bits["high"])
    return bits["odd"] ^ (bits["near"] & (kept | (next_one & (bits["odd"] | below))))
