"""Requantise and rescale of one image's lanes, written as vector IR for each number of lanes.

A prm entry lies as rows of BO int64: see :data:`ROWS`. What the rounding modes add is worked out when the entry is
loaded, so that all modes are one straight line of vector operations, but for those with a precision: they are the
operations of floating point that they stand for.

With plain Numba loops for it, ResNet-8 took 1.30 ms instead of 0.90.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import FLOAT_LIMIT, RESCALING, SCALING, Combine
from tilewright.sim.blocks import load_vector, splat
from tilewright.sim.native import emitted
from tilewright.sim.raw import by_lanes

MODES = tuple(int(rounding) for rounding in RESCALING)  #: codes of the modes that shift a sum
#: rows of a prm entry: its four fields; TIE_MASK is 2^shift - 1, TIE_BIT is 1 where shift > 0 and else 0; from ADDED on
#: two rows for each code, what the mode adds ahead of the shift to a value from 0 on, and to one below
BIAS, MULTIPLIER, OFFSET, SHIFT, TIE_MASK, TIE_BIT, ADDED = range(7)
ROWS = ADDED + 2 * (1 + max(MODES))
FLOAT = -1  #: the row of a mode with a precision, to which nothing is added

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_FRACTION_BITS, _EXPONENT_BIAS = 23, 127  # float32 is (1 + fraction / 2^23) * 2^(exponent - 127)
if {rounding.precision for rounding in SCALING} - {0} != {1 + _FRACTION_BITS}:
    raise NotImplementedError("the modes with a precision are computed in float32")


class _Lanes:
    """IR building blocks for one number of lanes."""

    def __init__(self, builder: Any, lanes: int, prm: Any, stride: Any) -> None:
        self.b, self.lanes, self.prm, self.stride = builder, lanes, prm, stride
        self.wide, self.word = ir.VectorType(_I64, lanes), ir.VectorType(_I32, lanes)

    def row(self, index: Any) -> Any:
        """A row of the prm entry, int64."""
        if isinstance(index, int):
            index = ir.Constant(_I64, index)
        at = self.b.add(self.prm, self.b.mul(self.stride, index))
        return load_vector(self.b, at, _I64, self.lanes)

    def biased(self, x: Any) -> Any:
        """x + bias, int32 wrapping, widened."""
        return self.b.sext(self.b.add(x, self.b.trunc(self.row(BIAS), self.word)), self.wide)

    def _product(self, x: Any) -> Any:
        """x times the multiplier, int64; both are of 32 bits, which LLVM is to see."""
        return self.b.mul(x, self.b.sext(self.b.trunc(self.row(MULTIPLIER), self.word), self.wide))

    def scale_round(self, x: Any, added: Any, even: Any) -> Any:
        """``isa.arithmetic.scale_round``; ``added``: the mode's first row; ``even``: all ones if it goes to even."""
        b = self.b
        with b.if_else(b.icmp_signed("==", added, ir.Constant(_I64, FLOAT))) as (then, otherwise):
            with then:
                in_float, float_block = self._in_float(x), b.block
            with otherwise:
                shifted, shift_block = self.shifted(x, added, even), b.block
        result = b.phi(self.wide)
        result.add_incoming(in_float, float_block)
        result.add_incoming(shifted, shift_block)
        return result

    def _in_float(self, x: Any) -> Any:
        """Of a mode with a precision. Conversion, product with a power of two and rounding are float32's own."""
        b = self.b
        real = ir.VectorType(ir.FloatType(), self.lanes)

        def numbers(kind: Any, value: float) -> Any:
            return ir.Constant(kind, [value] * self.lanes)

        total = b.add(self._product(x), self.row(OFFSET))
        exponent = b.sub(
            numbers(self.word, _EXPONENT_BIAS - 1 - _FRACTION_BITS), b.trunc(self.row(SHIFT), self.word)
        )  # fmt: skip
        power = b.bitcast(b.shl(exponent, numbers(self.word, _FRACTION_BITS)), real)
        r = b.fmul(b.sitofp(total, real), power)
        low, high = numbers(real, -FLOAT_LIMIT), numbers(real, FLOAT_LIMIT)
        r = b.select(b.fcmp_ordered("<", r, low), low, r)
        r = b.select(b.fcmp_ordered("<", high, r), high, r)
        nearest = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(real, [real]), f"llvm.rint.v{self.lanes}f32"
        )  # fmt: skip
        return b.sext(b.fptosi(b.call(nearest, [r]), self.word), self.wide)

    def shifted(self, x: Any, added: Any, even: Any) -> Any:
        """The same of a mode that shifts a sum; all are that RESCALE has."""
        b = self.b
        zero = ir.Constant(self.wide, [0] * self.lanes)
        below = self.row(b.add(added, ir.Constant(_I64, 1)))
        added = b.select(b.icmp_signed("<", x, zero), below, self.row(added))
        total = b.add(self._product(x), added)
        result = b.ashr(total, self.row(SHIFT))
        tie = b.icmp_signed("==", b.and_(total, self.row(TIE_MASK)), zero)
        odd = b.and_(b.and_(result, self.row(TIE_BIT)), splat(b, even, self.lanes))
        return b.sub(result, b.select(tie, odd, zero))

    def clamp(self, x: Any, low: Any, high: Any) -> Any:
        """min(max(x, low), high) with scalar limits."""
        b = self.b
        low, high = splat(b, low, self.lanes), splat(b, high, self.lanes)
        x = b.select(b.icmp_signed("<", x, low), low, x)
        return b.select(b.icmp_signed("<", high, x), high, x)

    def store(self, value: Any, address: Any, align: int) -> None:
        """Write a vector."""
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer()), align=align)


@emitted
def requantize_lanes(
    lanes: int, act: int, acc: int, prm: int, stride: int, added: int, even: int, zero: int, low: int, high: int
) -> None:
    """act[0:V] = clamp(scale_round(acc[0:V] + bias) + zero, low, high).

    act, acc and prm are addresses, prm that of the first lane's BIAS; ``stride``: bytes between prm rows;
    ``added``: the rounding mode's row of a prm entry; ``even``: -1 if the mode goes to even, else 0.
    """
    _requantize(lanes, act, acc, prm, stride, added, even, zero, low, high)


@emitted
def rescale_lanes(lanes: int, acc: int, act: int, prm: int, stride: int, added: int, even: int, combine: int) -> None:
    """acc[0:V] (op)= scale_round((act[0:V] << 20) + bias); arguments as for :func:`requantize_lanes`."""
    _rescale(lanes, acc, act, prm, stride, added, even, combine)


@by_lanes
def _requantize(
    builder: Any, lanes: Any, act: Any, acc: Any, prm: Any, stride: Any, added: Any, even: Any, zero: Any, low: Any,
    high: Any,
) -> None:  # fmt: skip
    v = _Lanes(builder, lanes, prm, stride)
    x = v.biased(load_vector(builder, acc, _I32, lanes))
    y = builder.add(v.scale_round(x, added, even), splat(builder, zero, lanes))
    v.store(builder.trunc(v.clamp(y, low, high), ir.VectorType(_I8, lanes)), act, 1)


@by_lanes
def _rescale(
    builder: Any, lanes: Any, acc: Any, act: Any, prm: Any, stride: Any, added: Any, even: Any, combine: Any
) -> None:
    v = _Lanes(builder, lanes, prm, stride)
    left = ir.Constant(v.word, [RESCALE_LEFT_SHIFT] * lanes)
    x = builder.shl(builder.sext(load_vector(builder, act, _I8, lanes), v.word), left)
    r = builder.trunc(v.shifted(v.biased(x), added, even), v.word)
    old = load_vector(builder, acc, _I32, lanes)
    joined = {
        Combine.WRITE: r,
        Combine.ADD: builder.add(old, r),
        Combine.MAX: builder.select(builder.icmp_signed(">", old, r), old, r),
        Combine.MIN: builder.select(builder.icmp_signed("<", old, r), old, r),
    }
    result = joined[Combine.WRITE]
    for way in Combine:
        chosen = builder.icmp_signed("==", combine, ir.Constant(_I64, int(way)))
        result = builder.select(chosen, joined[way], result)
    v.store(result, acc, 4)
