"""From scales to integers, as LiteRT's reference kernels do it: multipliers, shifts, folded biases.

Every constant follows the source of the kernel it stands for: ``QuantizeMultiplier``,
``CalculateActivationRangeQuantized`` and the ``Prepare`` functions of LiteRT 2.x. A TFLite exponent s becomes
the shift t = 31 - s of :func:`tilewright.isa.arithmetic.scale_round`. ONNX Runtime's rules are in
:mod:`tilewright.jit.numbers.float_scaling`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding, scale_round, wrap_int32
from tilewright.jit.ir.requant import Requant, Scale

Int32 = NDArray[np.int32]

FARTHEST_ZERO = 256  #: no zero point of 8 bits is as far from 0


class NotRepresentable(ValueError):
    """These scales cannot be computed exactly by the accelerator's arithmetic; the message says why."""


def quantize_multiplier(scale: float) -> tuple[int, int]:
    """(m, t) with ``scale ~ m / 2^t`` and m in [2^30, 2^31): TFLite's ``QuantizeMultiplier``.

    Scales below 2^-32 give m = 0, as there. Raises NotRepresentable where t would be negative.
    """
    if scale < 0 or not math.isfinite(scale):
        raise NotRepresentable(f"scale {scale} is not a non-negative number")
    if scale == 0.0:
        return 0, 31
    fraction, exponent = math.frexp(scale)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier //= 2
        exponent += 1
    if exponent < -31:
        return 0, 31
    if exponent > 31:
        raise NotRepresentable(f"scale {scale} is above 2^31")
    return multiplier, 31 - exponent


def round_half_away(value: float) -> int:
    """C's ``round``, which TFLite uses: halves go away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def quantize_value(value: float, scale: float, zero_point: int) -> int:
    """A real number as an integer of this quantisation, unclamped (TFLite: float32 division)."""
    return zero_point + round_half_away(float(np.float32(value) / np.float32(scale)))


def make_requant(
    scales: ArrayLike,
    *,
    bias: ArrayLike = 0,
    rounding: Rounding,
    zero_point: int,
    lo: int = -128,
    hi: int = 127,
    channels: int = 1,
    reach: ArrayLike | None = None,
) -> Requant:
    """Requant for one real scale per channel (or one for all).

    ``bias``: int32 per channel or one. ``reach``: the largest |accumulator + bias| per channel; where a scale of 1
    or more would make LiteRT's int32 left shift overflow within it, or what is scaled and the zero point leave int32,
    NotRepresentable is raised.
    """
    pairs = [quantize_multiplier(float(s)) for s in np.broadcast_to(np.asarray(scales, np.float64), (channels,))]
    multiplier = np.array([m for m, _ in pairs], np.int32)
    shift = np.array([t for _, t in pairs], np.int32)
    require_int32(multiplier, shift, 1 << 31 if reach is None else reach)
    return Requant(
        bias=np.broadcast_to(wrap_int32(bias), (channels,)).astype(np.int32),
        multiplier=multiplier,
        shift=shift,
        offset=np.zeros(channels, np.int32),
        rounding=rounding,
        zero_point=zero_point,
        lo=lo,
        hi=hi,
    )


def require_int32(multiplier: ArrayLike, shift: ArrayLike, reach: ArrayLike) -> None:
    """Raises NotRepresentable if LiteRT's scaling of accumulators up to ``reach`` may leave int32, per channel.

    It wraps there, where the accelerator does not: in the left shift of scales of 1 and more, and where the zero point
    is added. An accumulator that has wrapped itself is within int32.
    """
    m, t = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    most, left = np.minimum(np.asarray(reach, np.int64), 1 << 31), np.clip(31 - t, 0, 31)
    scaled = most * (m * 2.0**-t)
    if (((31 - t > 0) & (most << left >= 1 << 31)) | (scaled >= (1 << 31) - FARTHEST_ZERO)).any():
        raise NotRepresentable(f"scale {float((m * 2.0**-t).max()):.6g}: results may overflow int32")


def reachable(weight: NDArray[np.integer], bias: ArrayLike, lo: int = -128, hi: int = 127) -> tuple[Int32, Int32]:
    """Smallest and largest ``sum(x * w) + bias`` per channel for x in [lo, hi], as int64.

    ``weight``: (..., C), channels last, raw products (zero points folded into the bias).
    """
    flat, offset = weight.reshape(-1, weight.shape[-1]), np.asarray(bias, np.int64)
    above, below = (part(flat, 0).sum(axis=0, dtype=np.int64) for part in (np.maximum, np.minimum))
    return above * lo + below * hi + offset, above * hi + below * lo + offset


def input_scale(scale: float, zero_point: int) -> Scale:
    """ADD's input stage: ``(x - zero_point) << 20`` times ``scale`` (at most 1/2 or 1), double rounding."""
    multiplier, shift = quantize_multiplier(scale)
    if shift < 31 and ((255 << RESCALE_LEFT_SHIFT) << (31 - shift)) >= 1 << 31:
        raise NotRepresentable(f"input scale {scale:.6g} may overflow int32")
    return Scale(bias=-zero_point << RESCALE_LEFT_SHIFT, multiplier=multiplier, shift=shift, rounding=Rounding.DOUBLE)


def exact_shift(zero_point: int) -> Scale:
    """A Scale that gives ``x - zero_point`` exactly: (x << 20) * 2^10 >> 30."""
    return Scale(bias=-zero_point << RESCALE_LEFT_SHIFT, multiplier=1 << 10, shift=30, rounding=Rounding.SINGLE)


def linear_scale(zero_point: int, slope: float) -> Scale:
    """A Scale that gives ``(x - zero_point) * slope``, rounded half up; the slope may be negative.

    Raises NotRepresentable for a slope beyond the datapath.
    """
    size, shift = quantize_multiplier(abs(slope) * 2.0**-RESCALE_LEFT_SHIFT)
    multiplier = -size if slope < 0 else size
    return Scale(bias=-(zero_point << RESCALE_LEFT_SHIFT), multiplier=multiplier, shift=shift, rounding=Rounding.SINGLE)


def average_requant(count: int, channels: int, lo: int, hi: int, unsigned: bool = False) -> Requant:
    """``sum / count`` rounded half away from zero, as one multiplication; ``unsigned``: half up, as uint8 averages.

    Uses m = floor(2^t / n) + 1: slightly above 1/n, so that ties move away from zero under half-up rounding. Unsigned
    averages are taken of the values as uint8 has them (128 more, and less again at the end), which are never negative.
    The constants are checked against the division for every sum that ``count`` int8 values can have;
    NotRepresentable is raised where no shift works.
    """
    moved = 128 if unsigned else 0
    sums = np.arange((moved - 128) * count, (moved + 127) * count + 1, dtype=np.int64)
    half = count // 2
    wanted = np.where(sums > 0, (sums + half) // count, -((half - sums) // count))
    for shift in range(30 + int(math.log2(count)), 15, -1):
        multiplier = (1 << shift) // count + 1
        if multiplier < 1 << 31 and (scale_round(sums, multiplier, shift, 0, Rounding.SINGLE) == wanted).all():
            return Requant.alike(channels, moved * count, multiplier, shift, 0, Rounding.SINGLE, -moved, lo, hi)
    raise NotRepresentable(f"the average of {count} values has no exact reciprocal")


def mean_requant(scale_in: float, zero_in: int, scale_out: float, zero_out: int, count: int, channels: int) -> Requant:
    """LiteRT's int8 MEAN: the multiplier of scale_in / scale_out divided by ``count`` ahead of time.

    Raises NotRepresentable where its left shift of a sum may overflow int32.
    """
    scale = float(np.float64(np.float32(scale_in)) / np.float64(np.float32(scale_out)))
    multiplier, shift = quantize_multiplier(scale)
    exponent = 31 - shift
    fold = min(count.bit_length() - 1, 32, 31 + exponent)
    multiplier = (multiplier << fold) // count
    shift = 31 - (exponent - fold)
    require_int32(multiplier, shift, 255 * count)
    return Requant.alike(channels, -zero_in * count, multiplier, shift, 0, Rounding.DOUBLE, zero_out)


def softmax_constants(scale: float, beta: float = 1.0) -> tuple[int, int, int]:
    """(multiplier, left_shift, diff_min) of TFLite's int8 softmax (``PreprocessSoftmaxScaling``)."""
    real = min(beta * float(np.float32(scale)) * (1 << 26), float((1 << 31) - 1))
    multiplier, shift = quantize_multiplier(real)
    left_shift = 31 - shift
    if left_shift < 0:
        raise NotRepresentable(f"softmax input scale {scale:.3g} is below 2^-26")
    diff_min = -math.floor(31.0 * (1 << 26) / (1 << left_shift))
    return multiplier, left_shift, diff_min


LEAST_FLOAT32 = 2.0**-126  #: the least normal number of float32: below it digits are lost

#: (x << 20) * 2^30 >> 50 is x
IDENTITY_SCALE = Scale(bias=0, multiplier=1 << 30, shift=30 + RESCALE_LEFT_SHIFT, rounding=Rounding.SINGLE)


@lru_cache(maxsize=256)
def identity_requant(channels: int, lo: int = -128, hi: int = 127) -> Requant:
    """acc -> act unchanged but for the clamp."""
    return Requant.alike(channels, 0, 1 << 30, 30, 0, Rounding.SINGLE, 0, lo, hi)
