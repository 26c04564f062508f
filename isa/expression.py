"""Integer expressions: what the hardware computes, stated once; every implementation is built from the tree.

An expression means what its operators mean for integers, whatever their size: nothing wraps inside it. So it says
the same in NumPy, in machine code, in C++ and in hardware. Every node knows the least and the greatest value that it
can have; one that may need more than 64 bits is refused, for the first three have no more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, TypeVar, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "INFIX", "Expression", "ExpressionError", "constant", "evaluate", "maximum", "minimum", "select", "shift_right",
    "signed", "text", "variable",
]  # fmt: skip

T = TypeVar("T")
Operand = Union["Expression", int]

#: operators of two operands that Python, NumPy and Amaranth write alike; comparisons give 1 or 0
INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
}  # fmt: skip
_MONOTONE, _BITWISE = ("+", "-", "*", "<<", ">>"), ("&", "|", "^")


class ExpressionError(ValueError):
    """An expression needs more than 64 bits, or has a part that what is to be built of it has no place for."""


def _method(name: str, swapped: bool = False) -> Callable[[Expression, Operand], Expression]:
    def method(self: Expression, other: Operand) -> Expression:
        return _infix(name, constant(other), self) if swapped else _infix(name, self, constant(other))

    return method


class Expression:
    """A node: an operator and its operands; ``low`` and ``high``: the least and the greatest value.

    The operators are those of :data:`INFIX` and ``select``, ``signed`` and ``shift_right``, which the functions of
    these names make. Leaves are ``constant`` and ``variable``; their ``value`` is the number, the name.
    """

    def __init__(
        self, name: str, operands: tuple[Expression, ...], low: int, high: int, value: int | str | None = None
    ) -> None:
        if low < -(1 << 63) or high >= 1 << 63:
            raise ExpressionError(f"{name} has values from {low} to {high}, which need more than 64 bits")
        self.operator, self.operands, self.low, self.high, self.value = name, operands, low, high, value

    def fold(self, build: Callable[[Expression, list[T]], T]) -> T:
        """What ``build(node, what it made of the node's operands)`` makes of the whole, from the leaves up."""
        return build(self, [operand.fold(build) for operand in self.operands])

    def nodes(self) -> Iterator[Expression]:
        """The node and all below it."""
        yield self
        for operand in self.operands:
            yield from operand.nodes()

    def variables(self) -> set[str]:
        """The names of the variables in it."""
        return {str(node.value) for node in self.nodes() if node.operator == "variable"}

    @property
    def bits(self) -> int:
        """Bits of a signed number that holds every value."""
        return 1 + max(self.high, ~self.low, 0).bit_length()

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: write select, maximum, minimum, not if, max, min")

    __hash__ = object.__hash__  # == makes an expression
    __add__, __sub__, __mul__ = _method("+"), _method("-"), _method("*")
    __radd__, __rsub__, __rmul__ = _method("+", True), _method("-", True), _method("*", True)
    __lshift__, __rshift__ = _method("<<"), _method(">>")
    __and__, __or__, __xor__ = _method("&"), _method("|"), _method("^")
    __lt__, __le__, __gt__, __ge__ = _method("<"), _method("<="), _method(">"), _method(">=")
    __eq__ = _method("==")  # type: ignore[assignment]

    def __neg__(self) -> Expression:
        return 0 - self

    def __invert__(self) -> Expression:
        return -1 - self

    def __abs__(self) -> Expression:
        return select(self < 0, -self, self)


def constant(value: Operand) -> Expression:
    """A number as an expression."""
    return value if isinstance(value, Expression) else Expression("constant", (), value, value, value)


def variable(name: str, low: int, high: int) -> Expression:
    """A variable with values from ``low`` to ``high``."""
    return Expression("variable", (), low, high, name)


def select(condition: Expression, then: Operand, otherwise: Operand) -> Expression:
    """``then`` where the condition is not 0, else ``otherwise``."""
    a, b = constant(then), constant(otherwise)
    return Expression("select", (condition, a, b), min(a.low, b.low), max(a.high, b.high))


def maximum(a: Operand, b: Operand) -> Expression:
    """The greater of two."""
    return select(constant(a) > b, a, b)


def minimum(a: Operand, b: Operand) -> Expression:
    """The less of two; asks the same as :func:`maximum`, so that hardware for both compares once."""
    return select(constant(a) > b, b, a)


def signed(value: Expression, bits: int) -> Expression:
    """The low bits of a value as a signed number."""
    return Expression("signed", (value, constant(bits)), -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def shift_right(value: Operand, count: Expression) -> Expression:
    """``value`` shifted right by a count that varies, left where the count is negative."""
    value = constant(value)
    if count.low < -63 or count.high > 63:
        raise ExpressionError(f"shift_right by {count.low} to {count.high}: at most 63 either way")
    ends = [_shift_right(v, n) for v in (value.low, value.high) for n in (count.low, count.high)]
    return Expression("shift_right", (value, count), min(ends), max(ends))


def _infix(name: str, a: Expression, b: Expression) -> Expression:
    low, high = 0, 1
    if name in ("<<", ">>") and (b.operator != "constant" or b.low < 0):
        raise ExpressionError(f"{name} is for shifts by a constant; others are shift_right")
    if name in _MONOTONE:
        ends = [INFIX[name](u, v) for u, v in product((a.low, a.high), (b.low, b.high))]
        low, high = min(ends), max(ends)
    elif name == "&" and max(a.low, b.low) >= 0:
        high = min(e.high for e in (a, b) if e.low >= 0)
    elif name in _BITWISE:
        bits = max(max(e.high, -1 - e.low).bit_length() for e in (a, b))
        low, high = (-(1 << bits) if min(a.low, b.low) < 0 else 0), (1 << bits) - 1
    return Expression(name, (a, b), low, high)


def _shift_right(value: Any, count: Any) -> Any:
    return value >> count if count >= 0 else value << -count


def text(expression: Expression) -> str:
    """The expression as Python writes it; ``signed`` and ``shift_right`` are calls."""

    def build(node: Expression, operands: list[str]) -> str:
        if not operands:
            return str(node.value)
        if node.operator not in INFIX and node.operator != "select":
            return f"{node.operator}({', '.join(operands)})"
        inner = [
            f"({part})" if below.operator in INFIX or below.operator == "select" else part
            for below, part in zip(node.operands, operands)
        ]
        if node.operator == "select":
            return f"{inner[1]} if {inner[0]} else {inner[2]}"
        return f"{inner[0]} {node.operator} {inner[1]}"

    return expression.fold(build)


def evaluate(expression: Expression, **values: ArrayLike) -> NDArray[np.int64]:
    """The value for arrays of values of the variables, which broadcast; exact if these lie in their ranges."""

    def build(node: Expression, operands: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        if node.operator == "constant":
            return np.asarray(node.value, np.int64)
        if node.operator == "variable":
            return np.asarray(values[str(node.value)], np.int64)
        if node.operator == "select":
            return np.where(operands[0] != 0, operands[1], operands[2])
        if node.operator == "signed":
            high = np.int64(1) << (operands[1] - 1)
            return ((operands[0] & (2 * high - 1)) ^ high) - high
        if node.operator == "shift_right":
            value, count = operands
            return np.where(count >= 0, value >> np.maximum(count, 0), value << np.maximum(-count, 0))
        return np.asarray(INFIX[node.operator](*operands)).astype(np.int64)

    shape = np.broadcast_shapes(*(np.shape(value) for value in values.values()))
    return np.broadcast_to(expression.fold(build), shape)
