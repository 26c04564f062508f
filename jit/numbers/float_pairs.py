"""Sums and products of two 8-bit tensors as ONNX Runtime computes them in float32, exact for all 65,536 pairs.

A sum of ONNX Runtime's is two fused multiply-adds, ``fma(a, Ra, fma(b, Rb, C))``: the inner one is a function of ``b``
alone, the outer one rounds the sum to float32 before it becomes an integer. REQUANTIZE in the mode FLOAT32 rounds
accumulators in the same way, so the sum is exact if the accumulator is near enough to ``a * Ra + inner(b)``. For each
``b`` the wanted results leave an interval of accumulators; RESCALE gives a straight line through all of them, or else
the nearest straight line and a table of what is missing, which one more RESCALE looks up and adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding, requantize, rescale, scale_round
from tilewright.jit.ir.requant import Requant, Scale
from tilewright.jit.numbers.float_scaling import float32_constants, step_offset, thresholds
from tilewright.jit.numbers.lines import line
from tilewright.jit.numbers.scales import NotRepresentable, exact_shift, linear_scale, quantize_multiplier

Int64 = NDArray[np.int64]
_VALUES = np.arange(-128, 128, dtype=np.int64)
_LIMIT = 1 << 31
_POWERS = 3  #: units of the accumulator that are tried first: powers of two, the finest first
_UNITS, _COARSER = 60, 0.003  #: then how many others, each by how much coarser than the one before
_MORE = 8  #: units that are tried for a sum without corrections once there is one with some
_CONFLICTS = 8  #: values of one operand for which nothing fits, beyond which a table seldom helps
_ROUNDS = 100  #: corrections of one term by what the other leaves
_FREE = 1 << 40  #: an accumulator beyond all others: no bound
_LARGEST_TABLE_STEP = 8  #: power of two by which a table of corrections is multiplied at most


@dataclass(frozen=True)
class Term:
    """One int8 operand: its zero point and its scale relative to the output's."""

    ratio: float
    zero_point: int


@dataclass(frozen=True)
class Sum:
    """``requant(scales[0](a) + scales[1](b) + corrections)``; ``corrections``: (0 for a or 1 for b, its scale)."""

    scales: tuple[Scale, Scale]
    requant: Requant
    corrections: tuple[tuple[int, Scale], ...] = ()


def fit_sum(wanted: Int64, terms: tuple[Term, Term], origin: int, lo: int, hi: int, channels: int) -> Sum | None:
    """The sum of two terms whose result is ``clip(wanted, lo, hi)`` for every pair; None where none was found.

    ``wanted``: (256, 256), a on the first axis. ``origin``: the result that stands for 0 where ONNX Runtime rounds: the
    zero point if it is added behind the rounding; else 0, or -128 of a kernel that computes on uint8. Raises
    NotRepresentable for ratios beyond the datapath.
    """
    goal = np.clip(wanted, lo, hi) - origin
    a, b = ((_VALUES - term.zero_point) * term.ratio for term in terms)
    total = a[:, None] + b[None, :]
    inside = (goal > lo - origin) & (goal < hi - origin)
    reach = np.abs(total + np.median((goal - total)[inside]) if inside.any() else total).max() + 1
    if not (reach < 1 << 24 and all(abs(term.ratio) > 2.0**-20 for term in terms)):
        raise NotRepresentable(f"a scale ratio of {reach / 256:.3g}")
    finest = (_LIMIT - 2) / reach
    powers = [2.0 ** (int(np.log2(finest)) - k) for k in range(_POWERS)]
    units = [*powers, *(finest * (1 - _COARSER * k) for k in range(_UNITS))]
    best, left = None, len(units)
    for number, unit in enumerate(units):
        steps = _Steps.of(unit, goal, lo - origin, hi - origin)
        for first in (0, 1):
            found = _through(steps, terms, first, 256 if unit in powers else _CONFLICTS)
            made = None if found is None else found.sum(origin, lo, hi, channels)
            if made is None or not _equal(made, wanted, lo, hi):
                continue
            if not made.corrections:
                return made
            if best is None or len(made.corrections) < len(best.corrections):
                best, left = made, min(left, number + _MORE)
        if number >= left:
            break
    return best


def _constants(unit: float) -> tuple[int, int]:
    """(multiplier, shift) of FLOAT32 for accumulators in units of ``1 / unit``, to 30 bits.

    A unit that is no power of two fills int32 with what the sum can come to; the product is still rounded once.
    """
    fraction, exponent = np.frexp(1.0 / unit)
    return int(np.rint(fraction * (1 << 30))), 30 - int(exponent) - Rounding.FLOAT32.precision


@dataclass(frozen=True)
class _Steps:
    """``low``, ``high``: (256, 256), the accumulators that round to the wanted result of each pair."""

    unit: float
    low: Int64
    high: Int64

    @classmethod
    def of(cls, unit: float, goal: Int64, lo: int, hi: int) -> _Steps:
        constants = _constants(unit)

        def stage(acc: Int64, _scale: object, _zero_point: int, low: int, high: int) -> Int64:
            return np.clip(scale_round(acc, *constants, 0, Rounding.FLOAT32), low, high)

        ends = np.array([-_LIMIT]), np.array([_LIMIT - 1])
        first = thresholds(np.array([1 / unit]), *ends, 0, lo, hi, stage)[0]
        bounds = np.concatenate([[-_FREE], first, [_FREE]])
        return cls(unit, bounds[goal - lo], bounds[goal - lo + 1] - 1)

    @property
    def turned(self) -> _Steps:
        """With the operands' axes swapped."""
        return _Steps(self.unit, self.low.T, self.high.T)


@dataclass(frozen=True)
class _Found:
    """Scales of the operands in their order, their corrections, and what is added to every sum."""

    unit: float
    scales: tuple[Scale, Scale]
    corrections: tuple[tuple[int, Scale], ...]
    bias: int

    def sum(self, origin: int, lo: int, hi: int, channels: int) -> Sum:
        multiplier, shift = _constants(self.unit)
        requant = Requant.alike(channels, self.bias, multiplier, shift, 0, Rounding.FLOAT32, origin, lo, hi)
        return Sum(self.scales, requant, self.corrections)


def _through(steps: _Steps, terms: tuple[Term, Term], first: int, conflicts: int) -> _Found | None:
    """The operand ``first`` as it is, the other one on a line through what that leaves, or beside one.

    ``conflicts``: for how many values of the other one nothing may be left, before the first is corrected.
    """
    if first:
        steps = steps.turned
    own, other = terms[first], terms[1 - first]
    try:
        scale = linear_scale(own.zero_point, own.ratio * steps.unit)
        a = _rescaled(scale)
        low, high = _interval(steps, a)
        moved = a
        if (low > high).any():
            if np.count_nonzero(low > high) > conflicts:
                return None
            moved = _moved(steps, a)
            low, high = _interval(steps, moved)
            if (low > high).any():
                return None
        at, slope = (_VALUES - other.zero_point)[:, None], other.ratio * steps.unit
        ends = sorted((slope * (1 - 1e-4), slope * (1 + 1e-4)))
        bounds = [np.where(np.abs(v) < _FREE // 2, v + s, s * np.inf)[:, None] for v, s in ((low, -0.5), (high, 0.5))]
        slopes, height = line(bounds[0], bounds[1], at, (ends[0], ends[1]))
        second = linear_scale(other.zero_point, float(slopes[0]))
        b = _rescaled(second)
    except NotRepresentable:
        return None
    bias = int(np.floor(height[0] + 0.5))
    corrections = []
    for number, (bottom, top) in ((first, (moved - a, moved - a)), (1 - first, (low - b - bias, high - b - bias))):
        if (bottom > 0).any() or (top < 0).any():
            table = _table(bottom, top)
            if table is None:
                return None
            corrections.append((number, table))
    scales = (scale, second) if first == 0 else (second, scale)
    return _Found(steps.unit, scales, tuple(corrections), bias)


def _interval(steps: _Steps, a: Int64) -> tuple[Int64, Int64]:
    """(smallest, largest) that the other operand's part may be, for each of its values."""
    return (steps.low - a[:, None]).max(axis=0), (steps.high - a[:, None]).min(axis=0)


def _moved(steps: _Steps, a: Int64) -> Int64:
    """``a`` raised as little as is needed for the other operand's intervals not to be empty, if that can be had."""
    for _ in range(_ROUNDS):
        b = (steps.high - a[:, None]).min(axis=0)
        needed = (steps.low - b[None, :]).max(axis=1)
        if (needed <= a).all():
            break
        a = np.maximum(a, needed)
    return a


def _table(low: Int64, high: Int64) -> Scale | None:
    """A RESCALE that looks up a number in [low, high] for each of the 256 values; None where int8 holds no such."""
    for bits in range(_LARGEST_TABLE_STEP):
        nearest = np.where(low > 0, -(-low >> bits), np.where(high < 0, high >> bits, 0))
        fits = (nearest << bits >= low) & (nearest << bits <= high) & (np.abs(nearest) <= 127)
        if fits.all():
            content = np.roll(nearest, 128).astype(np.int8).tobytes()  # at the values modulo 256
            return replace(exact_shift(0), multiplier=exact_shift(0).multiplier << bits, table=content)
    return None


def _rescaled(scale: Scale) -> Int64:
    """For all int8 values; raises NotRepresentable where RESCALE wraps."""
    values = _VALUES if scale.table is None else np.roll(np.frombuffer(scale.table, np.int8), -128).astype(np.int64)
    wide = (values << RESCALE_LEFT_SHIFT) + scale.bias
    made = scale_round(wide, scale.multiplier, scale.shift, scale.offset, scale.rounding)
    if np.abs(made).max() >= _LIMIT:
        raise NotRepresentable("a term that leaves int32")
    return rescale(values, scale.bias, scale.multiplier, scale.shift, scale.offset, scale.rounding).astype(np.int64)


def _equal(made: Sum, wanted: Int64, lo: int, hi: int) -> bool:
    """Whether the reference arithmetic gives the wanted result for every pair: this is the proof."""
    parts = [_rescaled(scale) for scale in made.scales]
    for number, scale in made.corrections:
        parts[number] = parts[number] + _rescaled(scale)
    return _same(made.requant, parts[0][:, None] + parts[1][None, :], np.clip(wanted, lo, hi))


def _same(requant: Requant, acc: Int64, goal: Int64) -> bool:
    """Whether the reference arithmetic makes ``goal`` of accumulators, all with the constants of one channel."""
    got = requantize(
        acc, requant.bias[0], requant.multiplier[0], requant.shift[0], requant.offset[0], requant.rounding,
        requant.zero_point, requant.lo, requant.hi,
    )  # fmt: skip
    return bool((got == goal).all())


# -- products --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """``requant(scales[0](a) * scales[1](b))``."""

    scales: tuple[Scale, Scale]
    requant: Requant


def fit_product(
    wanted: Int64, terms: tuple[Term, Term], zero_point: int, origin: int, lo: int, hi: int, channels: int
) -> Product | None:
    """The integer product whose result is ``clip(wanted, lo, hi)`` for every pair; None where none was found.

    ``wanted``: (256, 256); the ratios of ``terms`` multiply to the scale of the product relative to the result's.
    ``origin``: as of :func:`fit_sum`. Raises NotRepresentable for ratios beyond the datapath.
    """
    ratio = terms[0].ratio * terms[1].ratio
    if not 2.0**-30 < ratio < 2.0**14:
        raise NotRepresentable(f"a scale ratio of {ratio:.3g}")
    goal = np.clip(wanted, lo, hi)
    product = (_VALUES - terms[0].zero_point)[:, None] * (_VALUES - terms[1].zero_point)[None, :]
    for bits, constants, rounding, after in _product_stages(product, goal, ratio, zero_point, origin, lo, hi):
        requant = Requant.alike(channels, *constants, rounding, after, lo, hi)
        if _same(requant, product << bits, goal):
            plain = exact_shift(terms[0].zero_point)
            return Product(
                (replace(plain, multiplier=plain.multiplier << bits), exact_shift(terms[1].zero_point)), requant
            )
    return None


def _product_stages(
    product: Int64, goal: Int64, ratio: float, zero_point: int, origin: int, lo: int, hi: int
) -> Iterator[tuple[int, tuple[int, int, int, int], Rounding, int]]:
    """(bits that the product is shifted left, (bias, multiplier, shift, offset), rounding mode, zero point behind it).

    The zero point is added behind the rounding, or ahead of it as a bias, which is the more precise the farther the
    product is shifted.
    """
    step = (zero_point - origin) / ratio
    room = 31 - int(np.ceil(np.log2(np.abs(product).max() + abs(step) + 1)))
    forms = [(0, 0, zero_point)]
    if zero_point != origin:
        forms += [(bits, round(step * 2.0**bits), origin) for bits in range(room, max(room - 4, -1), -1)]
    for bits, bias, after in forms:
        scale = ratio * 2.0**-bits
        multiplier, shift = (int(v[0]) for v in float32_constants(np.array([scale])))
        yield bits, (bias, multiplier, shift, 0), Rounding.FLOAT32, after
        multiplier, shift = quantize_multiplier(scale)
        if shift > 58:  # results times 2^shift are to fit 64 bits
            multiplier, shift = multiplier >> (shift - 58), 58
        yield bits, (bias, multiplier, shift, 0), Rounding.EVEN, after
        offset = step_offset((product << bits) + bias, goal - after, multiplier, shift, lo - after, hi - after)
        yield bits, (bias, multiplier, shift, offset), Rounding.SINGLE, after
