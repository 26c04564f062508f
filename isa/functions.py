"""What the ALU computes: its functions, how RESCALE joins, and the rounding modes, each in one entry.

An entry is a name, a code, its meaning as an expression and a sentence for the reference page. The reference, the
simulator, the hardware's lanes (RTL and HLS), random programs, coverage and the page are made from it, and there is
no entry without a meaning. ``docs/tutorials/add_alu_function.md`` adds one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.isa.expression import (
    Expression,
    ExpressionError,
    constant,
    evaluate,
    maximum,
    minimum,
    select,
    shift_right,
    signed,
    variable,
)

__all__ = [
    "FLOAT_LIMIT", "RESCALING", "SCALING", "SHIFTS", "AluOp", "Combine", "Function", "Rounding", "wrap_int32",
]  # fmt: skip

Member = TypeVar("Member", bound=IntEnum)

x = variable("x", -(1 << 31), (1 << 31) - 1)  #: acc[d]
y = variable("y", -(1 << 31), (1 << 31) - 1)  #: the operand: acc[s] or the immediate; for RESCALE its result
FLOAT_LIMIT = 256  #: the greatest result of a mode with a precision; beyond what a clamp to 8 bits tells apart
SHIFTS = (-32, 31)  #: what the lane's shifter does with 32 bits: 32 to the left to 31 to the right

negative = variable("negative", 0, 1)  #: 1 if the value that is scaled is below 0
shift = variable("shift", 0, 63)
half = variable("half", 0, 1 << 62)  #: 2^(shift - 1), or 0 for shift 0


def wrap_int32(value: ArrayLike) -> NDArray[np.int64]:
    """``value`` modulo 2^32 as a signed number in int64."""
    v = np.asarray(value, dtype=np.int64)
    return ((v + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def _entry(cls: type[Member], code: int, entry: tuple[Any, ...], *names: str) -> Member:
    """A new member with what its entry says. Decoders take every code up to the greatest, so codes count up from 0."""
    if code != len(cls.__members__):
        raise TypeError(f"{cls.__name__}: {code} is not the next code, {len(cls.__members__)}")
    if len(entry) != len(names):
        raise TypeError(f"{cls.__name__}: code {code} needs more than a name: {', '.join(names)}")
    member = int.__new__(cls, code)
    member._value_ = code
    for name, value in zip(names, entry):
        setattr(member, name, value)
    return member


class Function(IntEnum):
    """``acc[d] = meaning``, modulo 2^32: a function of ``x``, which is acc[d], and of ``y``, the operand.

    All functions share a lane's adder, multiplier and shifter. So a meaning is the product ``x * y``, or a
    ``shift_right``, or neither, and what is shifted and by how much holds neither. Raises :class:`ExpressionError` for
    others.
    """

    meaning: Expression
    doc: str

    def __new__(cls, code: int, *entry: Any) -> Function:
        """The member of the next code, its meaning and what the reference page says of it."""
        member = _entry(cls, code, entry, "meaning", "doc")
        parts = [part for part in (member.unshifted, member.count) if part is not None and not member.multiplies]
        wrong = {node.operator for part in parts for node in part.nodes()} & {"*", "shift_right"}
        if wrong:
            raise ExpressionError(f"{cls.__name__} {code}: a lane has no place for {min(wrong)} inside a function")
        others = member.meaning.variables() - {"x", "y"}
        if others:
            raise ExpressionError(f"{cls.__name__} {code}: a function of x and y, not of {min(others)}")
        count = member.count
        if count is not None and (member.unshifted.bits > 32 or count.low < SHIFTS[0] or count.high > SHIFTS[1]):
            raise ExpressionError(f"{cls.__name__} {code}: a lane shifts 32 bits, by {SHIFTS[0]} to {SHIFTS[1]}")
        return member

    @property
    def multiplies(self) -> bool:
        """Whether it is the product."""
        return self.meaning.operator == "*" and {operand.value for operand in self.meaning.operands} == {"x", "y"}

    @property
    def count(self) -> Expression | None:
        """By how much it shifts right, None for a function that does not shift."""
        return self.meaning.operands[1] if self.meaning.operator == "shift_right" else None

    @property
    def unshifted(self) -> Expression:
        """What it shifts, or all of it."""
        return self.meaning if self.count is None else self.meaning.operands[0]

    @property
    def reads_dst(self) -> bool:
        """Whether it depends on acc[d]."""
        return "x" in self.meaning.variables()

    @property
    def reads_operand(self) -> bool:
        """Whether it depends on its operand."""
        return "y" in self.meaning.variables()

    def apply(self, dst: ArrayLike, operand: ArrayLike) -> NDArray[np.int64]:
        """Its value for int32 numbers, int32 in int64."""
        return wrap_int32(evaluate(self.meaning, x=dst, y=operand))


class AluOp(Function):
    """``acc[d] = acc[d] OP operand``, the operand an immediate or ``acc[s]``; int32, wrapping."""

    ADD = 0, x + y, "the sum"
    MAX = 1, maximum(x, y), "the greater"
    MIN = 2, minimum(x, y), "the less"
    MUL = 3, x * y, "the low half of the product"
    SHR = 4, shift_right(x, signed(y, 6)), "arithmetic right by the operand's low 6 bits, signed; left if negative"
    MOV = 5, y, "the operand as it is"


class Combine(Function):
    """How RESCALE joins its result r with what acc[d] holds."""

    WRITE = 0, y, "r"
    ADD = 1, x + y, "the sum"
    MAX = 2, maximum(x, y), "the greater"
    MIN = 3, minimum(x, y), "the less"


class Rounding(IntEnum):
    """``(value * multiplier + half + offset + nudge) >> shift``, in 64-bit wrapping arithmetic.

    ``nudge`` is a function of ``negative``, ``shift`` and ``half``; with ``to_even`` the lowest bit of a tie is then
    cleared. A mode without a nudge does not scale: the result is 0 whatever the value.

    A mode with a ``precision`` rounds as floating point of that many significant bits does: first the sum
    ``value * multiplier + offset`` to so many bits, then the quotient by ``2^(shift + precision)`` to an integer, both
    to nearest, ties to even. Its results end at :data:`FLOAT_LIMIT`; it is for REQUANTIZE only.
    """

    nudge: Expression | None
    to_even: bool
    doc: str
    precision: int

    def __new__(cls, code: int, *entry: Any) -> Rounding:
        """The member of the next code: its nudge, whether ties go to even, what the reference page says of it, and the
        significant bits of its product, which is exact without them."""
        return _entry(cls, code, entry if len(entry) > 3 else (*entry, 0), "nudge", "to_even", "doc", "precision")

    @property
    def plain(self) -> bool:
        """Whether it adds no nudge and leaves ties as they are: half up."""
        return self.nudge is not None and self.nudge.value == 0 and not self.to_even

    DOUBLE = (
        0, select(shift > 31, select(negative, -(1 << 30), 1 << 30), 0), False,
        "LiteRT reference convolution, depthwise, add: rounds twice, half away from zero",
    )  # fmt: skip
    SINGLE = 1, constant(0), False, "half up: LiteRT reference fully connected, pooling by reciprocal"
    EVEN = 2, constant(0), True, "ties to even"
    CONSTANT = 3, None, False, "REQUANTIZE only: writes the zero point, reads nothing"
    FLOAT32 = 4, constant(0), True, "REQUANTIZE only, ONNX Runtime: as float32 has it, then to an integer", 24


SCALING = tuple(rounding for rounding in Rounding if rounding.nudge is not None)  #: the modes that round
RESCALING = tuple(rounding for rounding in SCALING if not rounding.precision)  #: those that RESCALE has
