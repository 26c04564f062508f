"""ONNX Runtime's float32 element-wise operators in integers, decided over every input there is.

An int8 operator of one operand has 256 inputs, one of two has 65,536: the compiler evaluates ONNX Runtime's formula
for all of them and fits the constants to that table, so "exact" here means compared in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import Rounding, rescale, scale_round
from tilewright.jit.ir.requant import Requant, Scale
from tilewright.jit.numbers.float_scaling import step_offset
from tilewright.jit.numbers.scales import NotRepresentable, linear_scale

_VALUES = np.arange(-128, 128, dtype=np.int64)
_FAR = np.float32(2**31)  #: where int32 ends, beyond all 8-bit results
_ROOM = 30  #: bits of an accumulator that the scaled sum may fill


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


def fit(
    wanted: NDArray[np.int64], ratio: float, zero_in: int, zero_point: int, lo: int, hi: int, channels: int
) -> tuple[Scale, Requant] | None:
    """The scale and the requant of ``(x - zero_in) * ratio + zero_point`` that give ``clip(wanted, lo, hi)`` for every
    int8 x; None where none of the precisions and roundings that are tried does.

    ``wanted``: (256,). Raises NotRepresentable for a ratio beyond the datapath.
    """
    goal = np.clip(wanted, lo, hi)
    largest = 255 * abs(ratio)
    if not 0 < largest < 1 << 24:
        raise NotRepresentable(f"a scale ratio of {ratio:.3g}")
    # ties are decided ahead of the zero point or, where it is folded into the sum, behind it
    for folded in (0, zero_point) if zero_point else (0,):
        most = min(_ROOM, _ROOM - 1 - int(np.ceil(np.log2(largest + abs(folded)))))
        for fraction in range(most, max(most - 6, 1), -1):
            scale, after = linear_scale(zero_in, ratio * 2.0**fraction), zero_point - folded
            scaled = rescale(_VALUES, scale.bias, scale.multiplier, scale.shift, 0, Rounding.SINGLE)
            acc = scaled + np.int64(folded << fraction)
            tuned = step_offset(acc, goal - after, 1, fraction, lo - after, hi - after)
            for rounding, offset in ((Rounding.SINGLE, tuned), (Rounding.SINGLE, 0), (Rounding.EVEN, 0)):
                got = scale_round(acc, 1, fraction, offset, rounding) + after
                if (np.clip(got, lo, hi) == goal).all():
                    constants = folded << fraction, 1, fraction, offset
                    return scale, Requant.alike(channels, *constants, rounding, after, lo, hi)
    return None
