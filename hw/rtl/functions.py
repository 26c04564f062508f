"""The ALU's functions and rounding modes as logic, built from their entries in ``isa.functions``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import reduce
from operator import and_, or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tilewright.isa.expression import INFIX, Expression, ExpressionError, text

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


def wire(m: Module, name: str, value: Value) -> Signal:
    """A name for a value: it is built once, however often it is used."""
    signal = Signal(value.shape(), name=name)
    m.d.comb += signal.eq(value)
    return signal


def add(a: Value, b: Value) -> Value:
    """a + b modulo 2^n, of n bits and of at most as many; only ``b`` may be more than a register: a LUT per bit
    holds it then.

    Yosys swaps the operands of a sum, but not those of a difference: 2 a - (2 ~b + 1) is 2 (a + b) + 1.
    """
    wide = Cat(b, Const(0, len(a) - len(b)))
    return (Cat(Const(0, 1), a) - Cat(Const(1, 1), ~wide))[1 : len(a) + 1]


def merge(
    m: Module, name: str, cases: Iterable[tuple[Value, Expression]], values: Mapping[str, Value], bits: int
) -> Signal:
    """The low bits of the expression whose case holds; anything if none does. No two hold at a time.

    A branch of a ``select`` is a case of its own, and cases of equal expressions are one. So functions that differ in
    when they take which of their variables, as the greater and the less do, share comparison and choice.
    """
    built: dict[str, Value] = {}
    conditions: dict[str, Value] = {}
    masks: dict[str, list[Value]] = {}

    def visit(holds: Value, expression: Expression) -> None:
        if expression.operator != "select":
            built.setdefault(text(expression), logic(expression, values))
            masks.setdefault(text(expression), []).append(holds)
            return
        condition = expression.operands[0]
        key = text(condition)
        if key not in conditions:
            conditions[key] = wire(m, f"{name}_if_{len(conditions)}", logic(condition, values).any())
        visit(holds & conditions[key], expression.operands[1])
        visit(holds & ~conditions[key], expression.operands[2])

    for holds, expression in cases:
        visit(holds, expression)
    if len(masks) == 1:
        return wire(m, name, _low(built[next(iter(masks))], bits))
    takes = [wire(m, f"{name}_takes_{k}", any_of(found)) for k, found in enumerate(masks.values())]
    return wire(m, name, any_of(_low(built[key], bits) & take.replicate(bits) for key, take in zip(masks, takes)))


def _low(value: Value, bits: int) -> Value:
    above = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, above.replicate(bits))[:bits]


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
