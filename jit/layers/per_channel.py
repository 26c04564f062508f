"""Functions of one tensor that are another one in each channel: sums and products with constants, PReLU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Add, DepthwiseConv2D, Requant, Requantize
from tilewright.jit.layers.builder import Layer, Operand, Output
from tilewright.jit.numbers.float_scaling import tune
from tilewright.jit.numbers.lines import line
from tilewright.jit.numbers.scales import IDENTITY_SCALE, exact_shift, identity_requant

Table = NDArray[np.int64]
_INT8 = np.arange(-128, 128)
_FLAT = 2.0**-10  #: the slope of a channel that is constant: all 256 values stay below half a step
_STEEPEST = 512.0


def function(layer: Layer, x: Operand, wanted: Table, out: Output) -> str:
    """``wanted`` (256, C), clamped: the result of every int8 value in each channel.

    Straight but for rounding and clamps, or bent at real zero alone, where all channels are then equal. Raises
    Unsupported for others, and where no constants give every result.
    """
    try:
        found = _straight(layer, x, wanted, _INT8, out)
    except Unsupported:
        found = _bent(layer, x, wanted, out)
    layer.report_exact(x.shape[3], "all inputs of each channel compared")
    return found


def _bent(layer: Layer, x: Operand, wanted: Table, out: Output) -> str:
    """What is above zero and what is below, each zero where the other is not, added."""
    zero, channels = x.zero_point, x.shape[3]
    middle = wanted[zero + 128]
    if (middle != middle[0]).any() or not -128 < zero < 127:
        raise Unsupported("a function of each channel that is neither straight nor bent at zero")
    parts = []
    for values in (_INT8[zero + 128 :], _INT8[: zero + 129]):
        held = wanted[np.clip(_INT8, values[0], values[-1]) + 128]
        if middle[0] in (held.min(), held.max()):  # the result's own clamp keeps it there
            parts.append(_straight(layer, x, held, _INT8, out))
            continue
        clamp = identity_requant(channels, int(values[0]), int(values[-1]))
        name = layer.emit(Requantize, [x.name], x.shape, x.quantisation, scale=IDENTITY_SCALE, requant=clamp)
        parts.append(_straight(layer, replace(x, name=name), wanted[values + 128], values, out))
    return layer.emit(
        Add, parts, x.shape, out.quantisation, scale_a=exact_shift(int(middle[0])), scale_b=IDENTITY_SCALE,
        requant=identity_requant(channels),
    )  # fmt: skip


def _straight(layer: Layer, x: Operand, wanted: Table, values: NDArray[np.int64], out: Output) -> str:
    """A function of ``values``, neighbouring integers: a multiplier, a bias, and a sign for each channel."""
    wanted, which = _distinct(wanted)
    lo, hi, zero_point = int(wanted.min()), int(wanted.max()), out.quantisation.zero_point
    signs = np.where(wanted[-1] < wanted[0], -1, 1)
    rising = np.where(signs > 0, wanted, wanted[::-1])
    if lo == hi or (np.diff(rising, axis=0) < 0).any():
        raise Unsupported("a function of a channel that goes up and down")
    first = np.where(signs > 0, values[0], -values[-1])  # the least sum
    last = first + len(values) - 1
    least, most = np.where(rising > lo, rising - 0.5, -np.inf), np.where(rising < hi, rising + 0.5, np.inf)
    slope, height = line(least, most, first + np.arange(len(rising))[:, None], (_FLAT, _STEEPEST))
    bias = np.rint((height - zero_point) / slope).astype(np.int64)
    if (np.abs(bias) >= 1 << 30).any():
        raise Unsupported("numbers far beyond what they are added to")
    levels, rows = hi - lo + 1, np.arange(rising.shape[1])
    found = np.bincount((rising - lo + rows * levels).reshape(-1), minlength=rows.size * levels)
    steps = found.reshape(-1, levels).cumsum(axis=1)[:, :-1]  # values below each
    low, high = first + bias, last + bias
    tuned = tune(slope, low, high, zero_point, lo, hi, low[:, None] + steps)
    if not tuned.exact.all():
        raise Unsupported(f"{int((~tuned.exact).sum())} channels whose results no constants give")
    requant = Requant(
        bias.astype(np.int32), tuned.multiplier, tuned.shift, tuned.offset, tuned.rounding, zero_point, lo, hi
    ).of(which)
    if (signs > 0).all():
        scale = exact_shift(0)
        return layer.emit(Requantize, [x.name], x.shape, out.quantisation, scale=scale, requant=requant)
    weight = signs[which].astype(np.int8).reshape(1, 1, -1)
    return layer.emit(DepthwiseConv2D, [x.name], x.shape, out.quantisation, weight=weight, requant=requant)


def _distinct(wanted: Table) -> tuple[Table, NDArray[np.intp]]:
    """The channels that differ, and which of them each is: eight bits of a constant tell no more than 256 apart."""
    rows = np.ascontiguousarray(wanted.T.astype(np.int8))
    _, first, which = np.unique(
        rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1), return_index=True, return_inverse=True
    )
    return wanted[:, first], which
