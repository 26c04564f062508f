"""ONNX Runtime's float32 element-wise operators in integers, decided over every input there is.

An int8 operator of one operand has 256 inputs, one of two has 65,536: the compiler evaluates ONNX Runtime's formula
for all of them and fits the constants to that table, so "exact" here means compared in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding, requantize, rescale, scale_round, wrap_int32
from tilewright.jit.graph import Requant, Scale
from tilewright.jit.numbers.float_nudges import nudges
from tilewright.jit.numbers.float_scaling import thresholds, tune
from tilewright.jit.numbers.scales import NotRepresentable, exact_shift, quantize_multiplier

_VALUES = np.arange(-128, 128, dtype=np.int64)
_FAR = np.float32(2**31)  #: where int32 ends, beyond all 8-bit results
_ROOM = 30  #: bits of an accumulator that the scaled sum may fill


@dataclass(frozen=True)
class Term:
    """One int8 operand: its zero point and its scale relative to the output's."""

    ratio: float
    zero_point: int


@dataclass(frozen=True)
class Fitted:
    """Constants, and in how many of the inputs (by how many LSB at most) they miss the wanted table."""

    scales: tuple[Scale, ...]
    requant: Requant
    wrong: int
    inputs: int
    bound: int


def add_table(
    scales: tuple[float, float, float], zero_points: tuple[int, int, int], *, unsigned: bool = False
) -> NDArray[np.int64]:
    """ONNX Runtime's QLinearAdd for all (a, b), unclamped: (256, 256), a on the first axis; as int8.

    Its x86-64 kernel, in float32 with fused multiply-adds, ties to even: ``fma(a, Ra, fma(b, Rb, C))`` with
    ``C = Zc - fma(Ra, Za, Rb * Zb)``, Ra = Sa/Sc. ``unsigned``: as it computes it on uint8, where all values and zero
    points are 128 more and other roundings happen. Raises NotRepresentable where the sum leaves int32.
    """
    f, d = np.float32, np.float64
    moved = 128 if unsigned else 0
    zero_a, zero_b, zero_c = (z + moved for z in zero_points)
    values = (_VALUES + moved).astype(d)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio_a, ratio_b = f(scales[0]) / f(scales[2]), f(scales[1]) / f(scales[2])
        # float64 holds each product and sum exactly enough for one rounding to float32: a fused multiply-add
        fixed = f(zero_c) - f(d(ratio_a) * zero_a + d(ratio_b * f(zero_b)))
        inner = (values * d(ratio_b) + d(fixed)).astype(f)
        total = (values[:, None] * d(ratio_a) + inner[None, :].astype(d)).astype(f)
    return _converted(total) - moved


def multiply_table(
    scales: tuple[float, float, float], zero_points: tuple[int, int, int], *, unsigned: bool = False
) -> NDArray[np.int64]:
    """ONNX Runtime's QLinearMul for all (a, b), unclamped: (256, 256), a on the first axis; as int8.

    The integer product in float32, times Sa * Sb / Sc, plus the zero point, ties to even. ``unsigned``: on uint8.
    Raises NotRepresentable where that leaves int32.
    """
    f, moved = np.float32, 128 if unsigned else 0
    a, b = (_VALUES - z for z in zero_points[:2])
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = f(scales[0]) * f(scales[1]) / f(scales[2])
        real = (a[:, None] * b[None, :]).astype(f) * ratio + f(zero_points[2] + moved)
    return _converted(real) - moved


def float_pair_table(
    join: Callable[[Any, Any], Any], scales: tuple[float, float, float], zero_points: tuple[int, int, int]
) -> NDArray[np.int64]:
    """DequantizeLinear of both, ``join`` and QuantizeLinear in float32 for all (a, b), within int32: (256, 256).

    Raises NotRepresentable where a result is NaN.
    """
    f = np.float32
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = ((_VALUES - z).astype(f) * f(s) for s, z in zip(scales[:2], zero_points[:2], strict=True))
        return _saturated(join(a[:, None], b[None, :]) / f(scales[2])) + zero_points[2]


def requantize_table(scale_in: float, zero_in: int, scale_out: float, zero_out: int) -> NDArray[np.int64]:
    """DequantizeLinear then QuantizeLinear in float32 for all x, within int32: (256,)."""
    with np.errstate(over="ignore"):
        real = (_VALUES - zero_in).astype(np.float32) * np.float32(scale_in)
        return _saturated(real / np.float32(scale_out)) + zero_out


def _saturated(real: NDArray[np.float32]) -> NDArray[np.int64]:
    """QuantizeLinear's rounding, which clamps ahead of the conversion. Raises NotRepresentable for NaN."""
    if np.isnan(real).any():
        raise NotRepresentable("scales so far apart that float32 results are no numbers")
    return np.rint(np.clip(real, -_FAR, _FAR)).astype(np.int64)


def _converted(real: NDArray[np.float32]) -> NDArray[np.int64]:
    """The rounding of QLinearAdd and QLinearMul, which convert first.

    Raises NotRepresentable for numbers beyond int32, of which the CPU makes what it will.
    """
    if not (np.abs(real) < _FAR).all():
        raise NotRepresentable("scales so far apart that results leave int32")
    return np.rint(real).astype(np.int64)


def fit(wanted: NDArray[np.int64], terms: tuple[Term, ...], zero_point: int, lo: int, hi: int, channels: int) -> Fitted:
    """Scales and requant whose sum of terms gives ``clip(wanted, lo, hi)``, exactly if anything tried does: precisions,
    and ratios beside those of two terms.

    ``wanted``: (256,) for one term or (256, 256) for two. Raises NotRepresentable for ratios beyond the datapath.
    """
    goal = np.clip(wanted, lo, hi)
    plain = _fit(goal, terms, zero_point, lo, hi, channels)
    if plain.wrong == 0 or len(terms) == 1:
        return plain
    values = [(_VALUES - term.zero_point).astype(np.float64) for term in terms]
    apart = values[0][:, None], values[1][None, :]
    steps = nudges(goal - zero_point, apart, [t.ratio for t in terms], lo - zero_point, hi - zero_point)
    moved = tuple(replace(term, ratio=term.ratio + step) for term, step in zip(terms, steps, strict=True))
    if not all(term.ratio for term in moved):
        return plain
    return min(plain, _fit(goal, moved, zero_point, lo, hi, channels), key=lambda fitted: fitted.wrong)


def _fit(goal: NDArray[np.int64], terms: tuple[Term, ...], zero_point: int, lo: int, hi: int, channels: int) -> Fitted:
    """With the terms' own ratios, or those that miss least."""
    largest = sum(255 * abs(term.ratio) for term in terms)
    if not 0 < largest < 1 << 24:
        raise NotRepresentable(f"a scale ratio of {largest / 255:.3g}")
    best: Fitted | None = None
    # ties are decided ahead of the zero point or, where it is folded into the sum, behind it
    for folded in (0, zero_point) if zero_point else (0,):
        most = min(_ROOM, _ROOM - 1 - int(np.ceil(np.log2(largest + abs(folded)))))
        for fraction in range(most, max(most - 6, 1), -1):
            scales = tuple(_scale(term, fraction) for term in terms)
            bias = folded << fraction
            acc = _accumulate(scales) + bias
            tuned = _offset(acc, goal, zero_point - folded, lo, hi, fraction)
            for rounding, offset in ((Rounding.SINGLE, tuned), (Rounding.SINGLE, 0), (Rounding.EVEN, 0)):
                requant = _requant(fraction, bias, offset, rounding, zero_point - folded, lo, hi, channels)
                got = np.clip(scale_round(acc, 1, fraction, offset, rounding) + zero_point - folded, lo, hi)
                wrong = int((got != goal).sum())
                if best is None or wrong < best.wrong:
                    best = Fitted(scales, requant, wrong, goal.size, int(np.abs(got - goal).max()))
                if wrong == 0:
                    return best
    assert best is not None
    return best


def _scale(term: Term, fraction: int) -> Scale:
    """``(x - zero_point) * ratio`` with ``fraction`` bits after the point."""
    size, shift = quantize_multiplier(abs(term.ratio) * 2.0 ** (fraction - RESCALE_LEFT_SHIFT))
    multiplier = -size if term.ratio < 0 else size
    return Scale(
        bias=-(term.zero_point << RESCALE_LEFT_SHIFT), multiplier=multiplier, shift=shift, rounding=Rounding.SINGLE
    )


def fit_product(
    wanted: NDArray[np.int64], terms: tuple[Term, Term], zero_point: int, lo: int, hi: int, channels: int
) -> Fitted:
    """Requant that makes ``clip(wanted, lo, hi)`` of the integer product, exactly if the product says it all.

    ``wanted``: (256, 256); the ratios of ``terms`` multiply to the scale of the product relative to the result's.
    Raises NotRepresentable for ratios beyond the datapath.
    """
    ratio = terms[0].ratio * terms[1].ratio
    if not 2.0**-30 < ratio < 2.0**14:
        raise NotRepresentable(f"a scale ratio of {ratio:.3g}")
    goal = np.clip(wanted, lo, hi)
    acc = (_VALUES - terms[0].zero_point)[:, None] * (_VALUES - terms[1].zero_point)[None, :]
    order = np.argsort(acc, axis=None, kind="stable")
    products, results = acc.reshape(-1)[order], goal.reshape(-1)[order]
    levels = np.searchsorted(np.maximum.accumulate(results), np.arange(lo + 1, hi + 1))  # where each is reached first
    scales = tuple(exact_shift(term.zero_point) for term in terms)
    best: Fitted | None = None
    step = zero_point / ratio  # ties are decided ahead of the zero point or, where it is folded into the sum, behind it
    for folded in (0, round(step)) if step.is_integer() and zero_point and abs(step) < 1 << 24 else (0,):
        after = 0 if folded else zero_point
        low, high = products[:1] + folded, products[-1:] + folded
        free = thresholds(np.array([ratio]), low, high, after, lo, hi)[0]  # where no product is, any will do
        above, below = np.append(products, products[-1] + 1)[levels], np.append(products[0] - 1, products)[levels]
        table = np.clip(free, below + 1 + folded, above + folded)[None, :]
        tuned = tune([ratio], low, high, after, lo, hi, table)
        constants = folded, tuned.multiplier[0], tuned.shift[0], tuned.offset[0]
        got = requantize(acc, *constants, tuned.rounding, after, lo, hi).astype(np.int64)
        wrong = int((got != goal).sum())
        if best is None or wrong < best.wrong:
            bias, multiplier, shift, offset = (np.full(channels, v, np.int32) for v in constants)
            requant = Requant(bias, multiplier, shift, offset, tuned.rounding, after, lo, hi)
            best = Fitted(scales, requant, wrong, goal.size, int(np.abs(got - goal).max()))
    assert best is not None
    return best


def _accumulate(scales: tuple[Scale, ...]) -> NDArray[np.int64]:
    parts = [
        rescale(_VALUES, s.bias, s.multiplier, s.shift, s.offset, Rounding.SINGLE).astype(np.int64) for s in scales
    ]
    total = parts[0] if len(parts) == 1 else parts[0][:, None] + parts[1][None, :]
    return wrap_int32(total)


def _offset(acc: NDArray[np.int64], goal: NDArray[np.int64], zero_point: int, lo: int, hi: int, fraction: int) -> int:
    """The constant, beside the half, that puts every step of the goal where the accumulators need it.

    Where the steps contradict each other, the middle of what they ask for.
    """
    order = np.argsort(acc, axis=None, kind="stable")
    sorted_acc, sorted_goal = acc.reshape(-1)[order], goal.reshape(-1)[order]
    least, most = -(1 << 31), (1 << 31) - 1
    for level in range(lo + 1, hi + 1):
        reached = sorted_goal >= level
        if reached.all() or not reached.any():
            continue
        target = (level - zero_point) << fraction
        first = int(sorted_acc[np.argmax(reached)])
        last = int(sorted_acc[len(reached) - 1 - np.argmin(reached[::-1])])
        least, most = max(least, target - first), min(most, target - last - 1)
    half = 1 << (fraction - 1)
    constant = min(max(half, least), most) if least <= most else (least + most) // 2
    return min(max(constant - half, -(1 << 31)), (1 << 31) - 1)


def _requant(
    fraction: int, bias: int, offset: int, rounding: Rounding, zero_point: int, lo: int, hi: int, channels: int
) -> Requant:
    return Requant(
        bias=np.full(channels, bias, np.int32),
        multiplier=np.ones(channels, np.int32),
        shift=np.full(channels, fraction, np.int32),
        offset=np.full(channels, offset, np.int32),
        rounding=rounding,
        zero_point=zero_point,
        lo=lo,
        hi=hi,
    )
