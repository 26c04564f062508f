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
BITS = 8  #: of r, beside its sign


def rounds_up(m: Module, word: Value, below: Value, sign: Value) -> Value:
    """Whether r is one more. ``word``: r and its fraction; ``below``: whether a bit under it is set."""
    r, odd = word[FRACTION:], word[FRACTION]
    # whether bit k is below the one that the first rounding looks at: r has a bit that is no sign 25 places above
    lower = [wire(m, f"lower_{k}", (r[k:] ^ sign.replicate(BITS - k)).any()) for k in range(BITS)] + [Const(0, 1)]
    fraction = wire(m, "fraction", word[:FRACTION] ^ odd.replicate(FRACTION))
    kept = any_of(fraction[k + 1] & ~lower[k] for k in range(BITS)) | fraction[BITS + 1 : FRACTION - 1].any()
    next_one = any_of(fraction[k] & ~lower[k] for k in range(BITS + 1))
    rest = odd | below | any_of(word[k] & lower[k] for k in range(BITS))
    return odd ^ (fraction[FRACTION - 1] & (kept | (next_one & rest)))
