"""Functions of one tensor that are alike but for a number per channel: a sum with constants, say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.builder import Layer, Operand, Output
from tilewright.jit.graph import Requant, Requantize, Scale
from tilewright.jit.numbers import quantize_multiplier

#: bits by which values are moved up, so that biases are fractions of a step; two more are left for the bias's range
_FRACTION, _SPARE = 20, 2
_STEEPEST = 52  #: the largest shift with which a step's bounds are int64
_INT8 = np.arange(-128, 128)


def shifted(layer: Layer, x: Operand, wanted: NDArray[np.int64], step: float, out: Output) -> str:
    """``wanted`` (256, C), clamped: the result of every int8 value in each channel, which grows by ``step`` a value.

    One multiplier for all, and a bias for each channel; the biases that give all 256 results are an interval, of which
    the middle is taken. Raises Unsupported where it is empty for a channel.
    """
    zero_point, channels = out.quantisation.zero_point, wanted.shape[1]
    spread = max(256.0, float(np.abs(wanted - zero_point).max() + 1) / step + 128)
    steep = _STEEPEST + int(np.floor(np.log2(step))) - 31  # with more, the shift would be beyond
    fraction = min(_FRACTION, 31 - _SPARE - int(np.ceil(np.log2(spread))), steep)
    if fraction < 0:
        raise Unsupported(f"a step of {step:.3g} between results")
    multiplier, shift = quantize_multiplier(step / (1 << fraction))
    if not multiplier or shift > _STEEPEST:
        raise Unsupported(f"a step of {step:.3g} between results")
    steps = np.arange(out.lo, out.hi + 2)
    first = -(((1 << (shift - 1)) - ((steps - zero_point) << shift)) // multiplier)  # the least sum that gives a step
    first[0], first[-1] = -(1 << 40), 1 << 40
    value = _INT8[:, None] << fraction
    at = wanted - out.lo
    low, high = (first[at] - value).max(axis=0), (first[at + 1] - 1 - value).min(axis=0)
    if (low > high).any():
        raise Unsupported(f"{int((low > high).sum())} channels whose float32 sums no bias gives")
    limit = 1 << 31 - _SPARE
    bias = np.clip((np.maximum(low, -limit) + np.minimum(high, limit)) // 2, low, high)
    if np.abs(bias).max() > (1 << 31) - (128 << fraction) - 1:
        raise Unsupported("numbers far beyond what they are added to")
    full = np.ones(channels, np.int32)
    requant = Requant(
        bias.astype(np.int32), multiplier * full, shift * full, 0 * full, Rounding.SINGLE, zero_point, out.lo, out.hi
    )
    up = Scale(0, 1 << 10, 10 + RESCALE_LEFT_SHIFT - fraction, Rounding.SINGLE)
    layer.report_exact(channels, "all inputs of each channel compared")
    return layer.emit(Requantize, [x.name], x.shape, out.quantisation, scale=up, requant=requant)
