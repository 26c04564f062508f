"""Expressions that between them use every operator, of two narrow variables: for tests over all their values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.expression import (
    Expression,
    constant,
    maximum,
    minimum,
    select,
    shift_right,
    signed,
    text,
    variable,
)

A, B = variable("a", -8, 7), variable("b", -8, 7)

#: all pairs of values
PAIRS: tuple[NDArray[np.int64], NDArray[np.int64]] = tuple(np.mgrid[-8:8, -8:8].reshape(2, -1).astype(np.int64))  # type: ignore[assignment]

EXPRESSIONS: dict[str, Expression] = {
    "sum": A + B + 5, "difference": 3 - (A - B), "product": A * B - 1, "and": A & B, "mask": A & 3, "or": A | B,
    "exclusive": (A ^ B) ^ 1, "not": ~A, "left": A << 3, "right": (A * B) >> 2, "less": A < B, "at most": A <= B,
    "greater": (A > B) + (B > A) + 1, "at least": A >= B, "equal": select(A == B, 100, A), "negated": -(A < 0) - B,
    "maximum": maximum(A, B), "minimum": minimum(A + 2, 4), "absolute": abs(A) - abs(B), "low": signed(A + B, 3),
    "shifted": shift_right(A, B), "shifted twice": shift_right(A + B, signed(A, 3)) + (constant(7) >> 1),
    "wide": (A << 40) + B, "wider still": select(A < 0, B << 58, -(1 << 31)) - A,
    "nested": select(A < B, select(B & 1, A, -B), maximum(A - B, 3) * 2),
}  # fmt: skip


def stated(expression: Expression) -> list[int]:
    """Its values for all pairs, by Python's own integers from the text that Python reads."""

    def shift_right(value: int, count: int) -> int:
        return value >> count if count >= 0 else value << -count

    def signed(value: int, bits: int) -> int:
        return (value + (1 << bits >> 1)) % (1 << bits) - (1 << bits >> 1)

    known = {"signed": signed, "shift_right": shift_right}
    source = compile(text(expression), "expression", "eval")
    return [int(eval(source, known, {"a": a, "b": b})) for a, b in zip(PAIRS[0].tolist(), PAIRS[1].tolist())]
