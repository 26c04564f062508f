"""The ALU's functions and rounding modes as logic, built from their entries in ``isa.functions``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import reduce
from operator import and_, or_

from amaranth.hdl import Const, Module, Mux, Signal, Value

from tilewright.isa.expression import INFIX, Expression, ExpressionError

#: a constant shift is wires
_SHIFTS = {"<<": Value.shift_left, ">>": Value.shift_right}


def logic(expression: Expression, values: Mapping[str, Value]) -> Value:
    """The expression of a value for every variable, exact.

    Raises :class:`ExpressionError` for ``shift_right``: that is the work of the lane's shifter.
    """

    def build(node: Expression, operands: list[Value]) -> Value:
        if node.operator == "constant":
            return Const(node.value)
        if node.operator == "variable":
            return values[str(node.value)]
        if node.operator == "select":
            return Mux(*operands)
        if node.operator == "signed":
            return operands[0][: node.operands[1].value].as_signed()
        if node.operator in _SHIFTS:
            return _SHIFTS[node.operator](operands[0], node.operands[1].value)
        if node.operator not in INFIX:
            raise ExpressionError(f"{node.operator} is no logic of one cycle")
        return INFIX[node.operator](*operands)

    return expression.fold(build)


def choose(m: Module, target: Signal, code: Value, cases: Mapping[IntEnum, Value]) -> None:
    """Drive ``target`` with the case of a code; with the last one where the code has none."""
    *first, last = cases.items()
    with m.Switch(code):
        for member, value in first:
            with m.Case(member):
                m.d.comb += target.eq(value)
        with m.Default():
            m.d.comb += target.eq(last[1])


def any_of(flags: Iterable[Value]) -> Value:
    """Whether one of the flags is set."""
    found = list(flags)
    return reduce(or_, found) if found else Const(0)


def one_of(code: Value, members: Iterable[IntEnum]) -> Value:
    """Whether a code is one of some members."""
    return any_of(code == member for member in members)


def none_of(code: Value, members: Iterable[IntEnum], *conditions: Value) -> Value:
    """Whether a code is none of some members, and other conditions hold."""
    found = [*conditions, *(code != member for member in members)]
    return reduce(and_, found) if found else Const(1)
