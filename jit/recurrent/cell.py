"""sigmoid and tanh on accumulators, equal to :mod:`~tilewright.jit.recurrent.fixed_point` for all int16.

In as few vectors as found: what a product and its rounding take three instructions for is done by tables where a value
of few bits decides:

* the bits above a quarter choose the factors of exp by RESCALE, 1 where a bit is not set;
* the cubic and quartic terms of exp are a step function of its argument: two tables, whose steps (:data:`STEPS`) fall
  where none of the 1,024 arguments comes out another;
* the third step of the division adds -4, 0 or 4, as a difference of -2 to 2 says, and the second a number of 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from tilewright.isa.functions import AluOp, Combine
from tilewright.jit.recurrent.fixed_point import EXP_EIGHTH, ONE, POWERS, SEED, SLOPE, THIRD, product, rounded_shift
from tilewright.jit.recurrent.vectors import Run, VectorWriter

STEPS = ((2022, -13482), (1989, -62434))  #: (m, a): x is looked up at floor((x m + a) / 2^16)
HALF = 1 << 14  #: of a product's last place

ADD, MAX, MIN, MUL, SHR, MOV = AluOp.ADD, AluOp.MAX, AluOp.MIN, AluOp.MUL, AluOp.SHR, AluOp.MOV


@dataclass(frozen=True)
class Scratch:
    """What a function overwrites: ``base``, which may be its argument, and ``result`` in the argument's half of acc,
    ``x`` in the other; ``sign``, ``quarters``, ``top`` and ``index`` in act."""

    base: Run
    result: Run
    x: Run
    sign: Run
    quarters: Run
    top: Run
    index: Run

    def part(self, begin: int, end: int) -> Scratch:
        """Vectors [begin, end)."""
        return Scratch(**{name: run.part(begin, end) for name, run in vars(self).items()})


def activate(w: VectorWriter, argument: Run, s: Scratch, sigmoids: int, integer_bits: int = 3) -> None:
    """sigmoid of the first vectors, ``sigmoids`` of them, to ``s.result``, tanh of the others.

    ``argument``: int16 with 15 - ``integer_bits`` bits of fraction, 3 of integer or, for tanh alone, 4.
    """
    count = argument.count
    first, rest = s.part(0, sigmoids), s.part(sigmoids, count)
    w.narrow(s.sign, argument, lo=-1, hi=1)
    if sigmoids:
        w.widen(first.x, first.sign, -8, combine=Combine.WRITE)
    if sigmoids < count:
        w.widen(rest.x, rest.sign, -(1 << integer_bits + 1), combine=Combine.WRITE)
    w.alu(MUL, s.x, argument)
    if integer_bits == 4:
        w.alu(MAX, s.x, 1 - (1 << 19))  # exp is 0 from 16 on
    w.narrow(s.quarters, s.x, 13, offset=-(1 << 12))
    if sigmoids < count:
        w.narrow(rest.top, rest.x, 19)
    w.widen(s.x, s.quarters, -8192, -4096)
    _exp(w, s)
    for k in range(4):
        _power(w, s, k)
    if sigmoids < count:
        _power(w, rest, 4)
        _last_power(w, rest, 5)
    if sigmoids:
        _last_power(w, first, 4)
    _divide(w, s)
    if sigmoids:
        w.widen(first.result, first.sign, 2, combine=Combine.WRITE)
        w.alu(MUL, first.result, first.x)
        w.widen(first.result, first.sign, Fraction(-32767, 2), Fraction(65535, 4))
    if sigmoids < count:
        w.alu(ADD, rest.x, -(1 << 13))
        w.alu(SHR, rest.x, -2)
        w.alu(MIN, rest.x, ONE - 1)
        w.widen(rest.result, rest.sign, 1, combine=Combine.WRITE)
        w.alu(MUL, rest.result, rest.x)


def _exp(w: VectorWriter, s: Scratch) -> None:
    """``base`` = exp of x / 2^15 - 1/8."""
    w.alu(MOV, s.base, s.x)
    w.alu(MUL, s.base, s.x)
    for (multiplier, start), table, constant in zip(STEPS, step_tables(), (3 << 14, 0), strict=True):
        w.narrow(s.index, s.x, 16, multiplier=multiplier, offset=start - (1 << 15))
        w.widen(s.base, s.index, 1 << 15, constant, table=table)
    w.alu(SHR, s.base, 16)
    w.alu(ADD, s.base, s.x)
    w.alu(MUL, s.base, EXP_EIGHTH)
    w.alu(ADD, s.base, HALF + (EXP_EIGHTH << 15))
    w.alu(SHR, s.base, 15)


def _factor(w: VectorWriter, s: Scratch, k: int, sign: int) -> None:
    """``x`` = the factor of bit k of the quarters, or 1, times ``sign``."""
    slope = sign * (POWERS[k] - ONE)
    if k < 5:
        w.widen(s.x, s.quarters, slope, sign * ONE, combine=Combine.WRITE, table=bit_table(k))
    else:
        w.widen(s.x, s.top, -slope, sign * ONE, combine=Combine.WRITE)


def _power(w: VectorWriter, s: Scratch, k: int) -> None:
    _factor(w, s, k, 1)
    w.alu(MUL, s.base, s.x)
    w.alu(ADD, s.base, HALF)
    w.alu(SHR, s.base, 15)


def _last_power(w: VectorWriter, s: Scratch, k: int) -> None:
    """The last factor, and with it ``base`` = -(1 + exp) / 2, rounded up in magnitude."""
    _factor(w, s, k, -1)
    w.alu(MUL, s.base, s.x)
    w.alu(ADD, s.base, -HALF - (1 << 30) + (1 << 16) - 1)
    w.alu(SHR, s.base, 16)


def _divide(w: VectorWriter, s: Scratch) -> None:
    """``x`` = -1 / (2 base) with 13 bits of fraction."""
    one_less = HALF - 1 + (1 << 28)  # 1 - product, as the product is of -base
    w.alu(MOV, s.x, s.base)
    w.alu(MUL, s.x, SLOPE)
    w.alu(ADD, s.x, HALF + (SEED << 15))
    w.alu(SHR, s.x, 15)
    for step in range(2):
        w.alu(MOV, s.result, s.base)
        w.alu(MUL, s.result, s.x)
        w.alu(ADD, s.result, one_less)
        w.alu(SHR, s.result, 15)
        w.alu(MUL, s.result, s.x)
        if step == 0:
            w.alu(ADD, s.result, HALF)
            w.alu(SHR, s.result, 15)
            w.alu(SHR, s.result, -2)
            w.alu(ADD, s.x, s.result)
        else:
            w.narrow(s.index, s.result, 15)
            w.widen(s.x, s.index, 4)
    w.alu(MOV, s.result, s.base)
    w.alu(MUL, s.result, s.x)
    w.narrow(s.index, s.result, 15, offset=one_less - HALF)
    w.widen(s.x, s.index, 4, table=np.trunc(np.arange(-128, 128) / 2).astype(np.int8)[_ORDER].tobytes())


_ORDER = (np.arange(256) + 128) % 256  #: of a table: 0 to 127, -128 to -1


@cache
def bit_table(k: int) -> bytes:
    """Bit k of the quarters above the last, of quarters below zero; 0 for others."""
    quarters = np.arange(-128, 128)
    return np.where(quarters < 0, (-quarters - 1 >> k) & 1, 0).astype(np.int8)[_ORDER].tobytes()


@cache
def step_tables() -> tuple[bytes, bytes]:
    """Whose sum, times 2^15, is what exp's terms above the second add to x^2 + 3 * 2^14, down to 2^16."""
    x = np.arange(-4096, 4096, 8)
    square = product(x, x)
    series = product(rounded_shift(product(square, square), 2) + product(square, x), THIRD)
    wanted = rounded_shift(series + square, 1)
    tried = np.arange(-64, 64)
    fits = (x[:, None] ** 2 + (3 << 14) + (tried << 15) >> 16) == wanted[:, None]
    places = [np.clip(x * m + a >> 16, -128, 127) for m, a in STEPS]
    tables = [np.zeros(256, np.int64) for _ in STEPS]
    edges = np.flatnonzero(np.diff(places[0], prepend=-999) | np.diff(places[1], prepend=-999))
    for begin, end in zip(edges, [*edges[1:], len(x)], strict=True):
        value = tried[np.flatnonzero(fits[begin:end].all(axis=0))[0]]
        one, other = (int(p[begin]) for p in places)
        if begin and other == places[1][begin - 1]:
            tables[0][one] = value - tables[1][other]
        else:
            tables[1][other] = value - tables[0][one]
    if any(np.abs(table).max() >= 128 for table in tables):
        raise AssertionError("a table of a recurrent cell does not fit int8")
    return tables[0].astype(np.int8).tobytes(), tables[1].astype(np.int8).tobytes()
