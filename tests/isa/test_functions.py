"""ALU functions and rounding modes: what each is, stated here a second time, and that none can be without a meaning."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from tilewright.isa.arithmetic import scale_round
from tilewright.isa.expression import Expression, ExpressionError, maximum, shift_right, signed
from tilewright.isa.functions import SCALING, AluOp, Combine, Function, Rounding, shift, x, y

EDGES = [
    0, 1, -1, 2, -2, 3, 31, 32, 33, 63, 64, -31, -32, -33, 127, -128, 123456789, 0x55555555, (1 << 30) - 1, 1 << 30,
    -(1 << 30), (1 << 31) - 1, -(1 << 31),
]  # fmt: skip

#: every function of exact integers, before the result wraps; a new one is stated here as well
FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda a, b: a + b,
    "MAX": max,
    "MIN": min,
    "MUL": lambda a, b: a * b,
    "SHR": lambda a, b: a >> (b & 31) if b & 32 == 0 else a << (32 - (b & 31)),
    "MOV": lambda a, b: b,
}
COMBINES = {"WRITE": "MOV", "ADD": "ADD", "MAX": "MAX", "MIN": "MIN"}


def half_up(q: Fraction) -> int:
    return floor(q + Fraction(1, 2))


def half_away(q: Fraction) -> int:
    return half_up(q) if q > 0 else -half_up(-q)


def double(product: int, shift: int) -> int:
    if shift <= 31:
        return half_up(Fraction(product, 1 << shift))
    return half_away(Fraction(half_up(Fraction(product, 1 << 31)), 1 << (shift - 31)))


def float32(product: int, shift: int) -> int:
    """To 24 significant bits, and then to an integer of at most 256 in size."""
    unit = 1 << max(0, abs(product).bit_length() - 24)
    return max(-256, min(256, round(Fraction(round(Fraction(product, unit)) * unit, 1 << (shift + 24)))))


#: every rounding mode that scales, of a product and a shift
ROUNDINGS: dict[str, Callable[[int, int], int]] = {
    "DOUBLE": double,
    "SINGLE": lambda product, shift: half_up(Fraction(product, 1 << shift)),
    "EVEN": lambda product, shift: round(Fraction(product, 1 << shift)),
    "FLOAT32": float32,
}


def int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("function", [*AluOp, *Combine], ids=repr)
def test_functions_are_what_they_are_said_to_be(function: AluOp | Combine) -> None:
    stated = FUNCTIONS[function.name if isinstance(function, AluOp) else COMBINES[function.name]]
    a, b = (grid.ravel() for grid in np.meshgrid(EDGES, EDGES))
    assert function.apply(a, b).tolist() == [int32(stated(*pair)) for pair in zip(a.tolist(), b.tolist())]
    assert function.reads_dst == any(stated(0, v) != stated(w, v) for v in EDGES for w in EDGES)
    assert function.reads_operand == any(stated(v, 0) != stated(v, w) for v in EDGES for w in EDGES)


@pytest.mark.parametrize("rounding", SCALING, ids=repr)
def test_rounding_modes_are_what_they_are_said_to_be(rounding: Rounding) -> None:
    values = np.array([*EDGES, *range(-20, 20)])
    for count in (0, 1, 2, 30, 31, 32, 33, 40, 61):
        for multiplier in (1 << 30, 3 << 29, (1 << 31) - 1):
            expected = [ROUNDINGS[rounding.name](v * multiplier, count) for v in values.tolist()]
            assert scale_round(values, multiplier, count, 0, rounding).tolist() == expected


def test_zero_is_rounded_as_what_lies_above_it() -> None:
    """Seen with an offset alone: half and nudge together do not reach the next integer."""
    assert scale_round(0, 1 << 30, 32, -(1 << 31), Rounding.DOUBLE) == 0
    assert scale_round(-1, 1, 32, -(1 << 31), Rounding.DOUBLE) == -1


def test_a_mode_that_does_not_scale_is_not_taken_for_one() -> None:
    with pytest.raises(ValueError, match="CONSTANT does not scale"):
        scale_round(1, 1, 0, 0, Rounding.CONSTANT)


def test_a_code_needs_a_meaning_and_is_the_next() -> None:
    with pytest.raises(TypeError, match="code 0 needs more than a name: meaning, doc"):

        class Bare(Function):
            NOTHING = 0

    with pytest.raises(TypeError, match="1 is not the next code, 0"):

        class Gap(Function):
            LATE = 1, x, ""

    with pytest.raises(TypeError, match="0 is not the next code, 1"):

        class Twice(Function):
            ONE = 0, x, ""
            TWO = 0, y, ""


@pytest.mark.parametrize(
    "meaning,message",
    [
        (x * x, r"no place for \*"),
        (x * y + 1, r"no place for \*"),
        (shift_right(x * y, y & 1), r"no place for \*"),
        (maximum(shift_right(x, signed(y, 6)), x), "no place for shift_right"),
        (shift_right(x + y, y & 1), "shifts 32 bits, by -32 to 31"),
        (shift_right(x, y & 63), "shifts 32 bits, by -32 to 31"),
        (x + shift, "of x and y, not of shift"),
    ],
)
def test_what_a_lane_cannot_do_is_refused(meaning: Expression, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):

        class Refused(Function):
            FUNCTION = 0, meaning, ""


def test_what_the_lanes_share_is_found_in_the_meaning() -> None:
    class Some(Function):
        HALVE = 0, shift_right(x, signed(y & 1, 2)), ""
        MEAN = 1, (x + y) >> 1, ""
        SWAPPED = 2, y * x, ""

    assert [f.multiplies for f in Some] == [False, False, True]
    assert [f.count is not None for f in Some] == [True, False, False]
    assert Some.MEAN.apply((1 << 31) - 1, (1 << 31) - 3).tolist() == (1 << 31) - 2


@pytest.mark.parametrize("enum", [AluOp, Combine, Rounding])
def test_codes_count_up(enum: Any) -> None:
    assert [int(member) for member in enum] == list(range(len(enum)))
    assert all(enum(int(member)) is member for member in enum)
