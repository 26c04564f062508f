"""Weights that need not be: those of constant channels become bias, those of equal channels are added up.

What a weight contributes moves elsewhere in its layer: the weight becomes zero, and the layer computes what it did.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Conv2D
from tilewright.jit.ir.facts import Facts
from tilewright.jit.kernels.weight_bits import MOST_PARTS, WIDTHS, fits, weight_range

_INT32 = np.iinfo(np.int32)


def fold(op: Conv2D, x: Facts) -> Conv2D:
    """The same layer, the weights of whose input channels are zero where others, or the bias, can stand for them."""
    return _merged(_without_constants(op, op.read_facts(x)), x)


def _without_constants(op: Conv2D, x: Facts) -> Conv2D:
    """Constants into the bias of each output channel whose bias stays an int32; ``x`` with its padding."""
    if not x.constant.any():
        return op
    outputs, _, _, per_group = op.weight.shape
    group = np.arange(outputs) // (outputs // op.groups)
    known = x.constant.reshape(op.groups, per_group)[group]  # (OC, IC of the group)
    values = x.lo.reshape(op.groups, per_group)[group]
    bias = op.requant.bias + (op.weight.sum((1, 2), np.int64) * values * known).sum(1)
    known = known & ((bias >= _INT32.min) & (bias <= _INT32.max))[:, None]
    if not known.any():
        return op
    weight = np.where(known[:, None, None, :], 0, op.weight).astype(op.weight.dtype)
    bias = np.where(known.any(1), bias, op.requant.bias).astype(np.int32)
    return replace(op, weight=weight, requant=replace(op.requant, bias=bias))


def _merged(op: Conv2D, x: Facts) -> Conv2D:
    """The weights of a channel added to those of the first equal channel of its group for which the sums fit."""
    if (x.same == np.arange(len(x.same))).all():
        return op
    _, kh, kw, per_group = op.weight.shape
    weight, (least, most) = op.weight.copy(), _range(op.weight)
    by_group = weight.reshape(op.groups, -1, kh, kw, per_group)
    for group, same in zip(by_group, x.same.reshape(op.groups, per_group), strict=True):
        alike: dict[int, list[int]] = {}
        for channel, first in enumerate(same.tolist()):
            before = alike.setdefault(first, [])
            for other in before:
                total = group[..., other].astype(np.int64) + group[..., channel]
                if total.min() >= least and total.max() <= most:
                    group[..., other], group[..., channel] = total, 0
                    break
            else:
                before.append(channel)
    return replace(op, weight=weight)


def _range(weight: NDArray[np.integer]) -> tuple[int, int]:
    """Weights that take no more bits (2, 4, 8), and no more parts of so many bits, than the layer's own."""
    bits, parts = next((b, p) for b in WIDTHS for p in range(1, MOST_PARTS + 1) if fits(weight, b, p))
    return weight_range(bits) if parts == 1 else (int(weight.min()), int(weight.max()))
