"""Expressions: exact, within their bounds, and refused where 64 bits or a lane are too few."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.isa.expressions import EXPRESSIONS, PAIRS, A, B, stated
from tilewright.isa.expression import (
    INFIX,
    Expression,
    ExpressionError,
    Operand,
    constant,
    evaluate,
    shift_right,
    text,
    variable,
)
from tilewright.isa.schema import bits_for


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_are_exact_and_within_the_bounds(name: str) -> None:
    expression = EXPRESSIONS[name]
    values = evaluate(expression, a=PAIRS[0], b=PAIRS[1])
    assert values.tolist() == stated(expression)
    assert expression.low <= values.min()
    assert values.max() <= expression.high
    assert -(1 << (expression.bits - 1)) <= expression.low <= expression.high < 1 << (expression.bits - 1)


def test_bounds_of_bits_are_tight() -> None:
    low, other = A & 255, B & 15
    assert [(e.low, e.high) for e in (low | other, low ^ other, ~low | other)] == [(0, 255), (0, 255), (-256, 255)]
    both = A & 9 & (B & 5)  # each from 0 on: the lesser of the two limits
    assert (both.low, both.high) == (0, 5)


def test_bits_for_counts() -> None:
    assert [bits_for(count) for count in (1, 2, 3, 4, 5, 256, 257)] == [1, 1, 2, 2, 3, 8, 9]


def test_every_operator_is_among_them() -> None:
    used = {node.operator for expression in EXPRESSIONS.values() for node in expression.nodes()}
    assert used == {*INFIX, "constant", "variable", "select", "signed", "shift_right"}


def test_text_has_the_brackets_that_it_needs() -> None:
    assert text(A - (B - 1)) == "a - (b - 1)"
    assert text(EXPRESSIONS["shifted"]) == "shift_right(a, b)"
    assert text(abs(A)) == "(0 - a) if (a < 0) else a"


def test_python_cannot_choose_by_an_expression() -> None:
    for wrong in (lambda: max(A, B), lambda: A and B, lambda: A < B < A, lambda: A != B):
        with pytest.raises(TypeError, match="no truth value: write select"):
            wrong()


@pytest.mark.parametrize("wrong", [lambda: A << 61, lambda: (A << 30) * (B << 30), lambda: A + (1 << 63)])
def test_more_than_64_bits_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ExpressionError, match="more than 64 bits"):
        wrong()


def test_64_bits_are_taken_to_the_last_value() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    widest = variable("w", low, high)
    assert (widest.low, widest.high, widest.bits) == (low, high, 64)
    assert (constant(low).bits, constant(high).bits) == (64, 64)
    for beyond in (low - 1, high + 1):
        with pytest.raises(ExpressionError, match=f"constant has values from {beyond} to {beyond}, which need more"):
            constant(beyond)
    for wrong in (lambda: widest - 1, lambda: widest + 1, lambda: -widest):
        with pytest.raises(ExpressionError, match="more than 64 bits"):
            wrong()


@pytest.mark.parametrize("shifted", [lambda by: A << by, lambda by: A >> by, lambda by: constant(5) << by])
def test_shifts_that_vary_or_are_negative_are_named_so(shifted: Callable[[Operand], Expression]) -> None:
    for by in (B, abs(B), constant(-1), -1, constant(-1 << 40)):
        with pytest.raises(ExpressionError, match="(<<|>>) is for shifts by a constant; others are shift_right"):
            shifted(by)
    assert shifted(0).operator == shifted(constant(0)).operator


def test_shifts_that_vary_go_63_places_either_way() -> None:
    one = constant(1)
    for low, high in ((-62, 63), (0, 0), (-1, 63)):
        assert shift_right(one, variable("n", low, high)).operator == "shift_right"
    for low, high in ((-64, 0), (0, 64), (-64, 64)):
        with pytest.raises(ExpressionError, match=f"shift_right by {low} to {high}: at most 63 either way"):
            shift_right(0, variable("n", low, high))
    assert shift_right(0, variable("n", -63, 63)).high == 0


def test_variables_are_found() -> None:
    assert EXPRESSIONS["mask"].variables() == {"a"}
    assert isinstance(EXPRESSIONS["sum"], Expression)
    assert EXPRESSIONS["sum"].variables() == {"a", "b"}
