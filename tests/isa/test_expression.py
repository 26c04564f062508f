"""Expressions: exact, within their bounds, and refused where 64 bits or a lane are too few."""

from __future__ import annotations

import pytest

from tests.isa.expressions import EXPRESSIONS, PAIRS, A, B, stated
from tilewright.isa.expression import INFIX, Expression, ExpressionError, evaluate, shift_right, text
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


def test_shifts_that_vary_are_named_so() -> None:
    with pytest.raises(ExpressionError, match="<< is for shifts by a constant"):
        A << B
    with pytest.raises(ExpressionError, match="at most 63 either way"):
        shift_right(A, B * 10)


def test_variables_are_found() -> None:
    assert EXPRESSIONS["mask"].variables() == {"a"}
    assert isinstance(EXPRESSIONS["sum"], Expression)
    assert EXPRESSIONS["sum"].variables() == {"a", "b"}
