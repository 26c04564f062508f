"""The ALU's functions and rounding modes as C++, written from their entries in ``isa.functions``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from tilewright.config import Config
from tilewright.isa.expression import INFIX, Expression
from tilewright.isa.functions import SCALING, AluOp, Combine, Rounding
from tilewright.isa.spec import roundings

SHIFT_RIGHT = """\
template <typename Value> int64_t shift_right(Value value, int count) {
#pragma HLS INLINE
    return count >= 0 ? int64_t(value >> count) : int64_t(uint64_t(int64_t(value)) << -count);
}
"""


def cpp(expression: Expression) -> str:
    """The expression in C++, exact, of int32_t and int64_t variables; of 64 bits only where 32 are too few."""

    def build(node: Expression, operands: list[str]) -> str:
        if node.operator == "constant":
            return f"int64_t({node.value}LL)" if node.bits > 32 else f"({node.value})"
        if node.operator == "variable":
            return str(node.value)
        if node.operator == "select":
            return f"({operands[0]} ? {operands[1]} : {operands[2]})"
        if node.operator == "signed":
            bits = node.operands[1].value
            return f"int{32 if node.bits <= 32 else 64}_t(ap_int<{bits}>({operands[0]}))"
        if node.operator not in INFIX:
            return f"{node.operator}({', '.join(operands)})"
        name, (a, b) = node.operator, operands
        if name == "<<":  # what is negative is not shifted to the left in C++
            name, b = "*", f"int64_t({1 << node.operands[1].high}LL)"
        return f"(int64_t({a}) {name} {b})" if node.bits > 32 else f"({a} {name} {b})"

    return expression.fold(build)


def functions(config: Config) -> Iterator[str]:
    """The lines of the functions that the ALU's kernel calls, for the rounding modes that a Config has."""
    yield SHIFT_RIGHT
    operands = "int32_t x, int32_t y"
    meanings = {f: "product" if f.multiplies else cpp(f.meaning) for f in AluOp}
    yield from _function("int32_t", "operated", AluOp, f"{operands}, int64_t product", meanings)
    yield from _function("int32_t", "joined", Combine, operands, {c: cpp(c.meaning) for c in Combine})
    nudges = {r: cpp(r.nudge) for r in SCALING if r.nudge is not None}
    yield from _function("int64_t", "rounding_nudge", Rounding, "bool negative, int shift, int64_t half", nudges)
    precisions = {r: str(r.precision) for r in reversed(roundings(config))}  # the first mode's is 0
    yield from _function("int", "rounding_precision", Rounding, "", precisions)
    yield from _predicate("function_reads_dst", AluOp, [f for f in AluOp if not f.reads_dst])
    yield from _predicate("function_reads_operand", AluOp, [f for f in AluOp if not f.reads_operand])
    yield from _predicate("combine_reads_dst", Combine, [c for c in Combine if not c.reads_dst])
    yield from _predicate("rounding_to_even", Rounding, [r for r in Rounding if not r.to_even])


def _code(enum: type[IntEnum]) -> str:
    return f"ap_uint<{(len(enum) - 1).bit_length()}> code"


def _name(member: IntEnum) -> str:
    return f"{type(member).__name__.upper()}_{member.name}"


def _predicate(name: str, enum: type[IntEnum], but: Sequence[IntEnum]) -> Iterator[str]:
    """A function of a member's code: true but for some members."""
    holds = " && ".join(f"code != {_name(member)}" for member in but)
    yield from (f"inline bool {name}({_code(enum)}) {{", "#pragma HLS INLINE", "    (void)code;")
    yield from (f"    return {holds or 'true'};", "}", "")


def _function(result: str, name: str, enum: type[IntEnum], parameters: str, cases: Mapping[Any, str]) -> Iterator[str]:
    """A function of a member's code and of parameters; the last case is that of the codes that have none."""
    yield f"inline {result} {name}({', '.join(filter(None, (_code(enum), parameters)))}) {{"
    yield "#pragma HLS INLINE"
    for parameter in filter(None, parameters.split(", ")):
        yield f"    (void){parameter.split()[1]};"
    yield "    switch (int(code)) {"
    *first, last = cases.items()
    yield from (f"    case {_name(member)}: return {result}({value});" for member, value in first)
    yield from (f"    default: return {result}({last[1]});", "    }", "}", "")
