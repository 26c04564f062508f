"""What LiteRT's kernels take of scales without looking: too many, too few, and some at which they end the process."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.runtime.litert.model import Operator
from tilewright.runtime.litert.rules import Rule, said

_WIDE_SUM = 512
_MOST_MULTIPLIER = 1.0 - 2.0**-32


def hybrid(axis: int) -> Rule:
    """Weights of fewer bits than what they weigh: a scale for each output channel where the kernel reads as many."""

    def rule(op: Operator) -> str:
        weights = op.inputs[1] if len(op.inputs) > 1 else None
        data = 2 if op.kind == "TRANSPOSE_CONV" else 0
        if weights is None or weights.shape is None or weights.type == "float32" or op.type(data) != "float32":
            return ""
        x, shape = op.shape(data), weights.shape
        count = weights.scales.size
        groups = op.kind == "CONV_2D" and x is not None and len(x) == 4 and len(shape) == 4 and x[3] != shape[3]
        if count > 1 and weights.axis != axis:
            return f"input 1 has scales along axis {weights.axis}; LiteRT's kernel takes them along axis {axis}"
        if groups and (count < 2 or len(set(weights.scales.tolist())) < 2):
            return "groups of float32 channels with weights of one scale, for which LiteRT has no memory"
        if op.kind == "DEPTHWISE_CONV_2D" and len(shape) == 4 and count != shape[3]:
            return f"input 1 has {count} scales; LiteRT's kernel reads {shape[3]}"
        return ""

    return rule


def per_channel(op: Operator) -> str:
    """QUANTIZE and DEQUANTIZE: as many scales as channels, and some elements."""
    for operand in (*op.inputs[:1], *op.outputs[:1]):
        if operand is None or operand.scales.size < 2 or operand.shape is None:
            continue
        sizes = dict(enumerate(operand.shape))
        if sizes.get(operand.axis) != operand.scales.size or 0 in operand.shape:
            return f"{operand.name} has {operand.scales.size} scales for the shape {said(operand.shape)}"
    return ""


def sum_scales(shift: int, bits: Sequence[str], *, square: bool = False, larger: bool = False) -> Rule:
    """Sums of scaled integers: LiteRT ends the process where a multiplier is not between 0 and 1.

    ``square``: of differences. ``larger``: multipliers above 1 have a way of their own.
    """

    def rule(op: Operator) -> str:
        x, y, made = *op.inputs[:2], op.outputs[0]
        if x is None or y is None or made is None or made.type not in bits:
            return ""
        if made.type == "int16" and op.kind == "ADD" and not x.scales.size:
            return ""
        left = 15 if made.type == "int16" else shift
        twice = 2 * max(x.scale, y.scale)
        divisor = float(np.float32(1 << left) * np.float32(made.scale))
        result = (twice * twice if square else twice) / divisor if divisor else math.inf
        sound = min(x.scale, y.scale) > 0 and (0 < result <= _MOST_MULTIPLIER or (larger and result > 1))
        scales = f"{x.scale:g} and {y.scale:g}, {made.scale:g} of the result"
        return "" if sound else f"the scales {scales}, at which LiteRT ends the process"

    return rule


def compared(*types: str) -> Rule:
    """Comparisons of scaled integers: LiteRT ends the process at the scales 0 and 1."""

    def rule(op: Operator) -> str:
        for operand in op.inputs:
            if operand is None or op.type(0) not in types or (op.type(0) == "int16" and not operand.scales.size):
                continue
            if operand.scale in (0.0, 1.0):
                return f"{operand.name} has the scale {operand.scale:g}, at which LiteRT ends the process"
        return ""

    return rule


def exponents(op: Operator) -> str:
    """SOFTMAX and LOG_SOFTMAX of 8 bits: LiteRT ends the process where the scale is too small for its fixed point."""
    x = op.inputs[0]
    if x is None or x.type not in ("int8", "uint8"):
        return ""
    beta = float(np.float32(op.option("beta"))) if op.kind == "SOFTMAX" else 1.0
    sound = beta * x.scale * (1 << 26) > 1.0
    return "" if sound else f"the scale {x.scale:g} and beta {beta:g}, at which LiteRT ends the process"


def wide_sum(op: Operator) -> str:
    """SOFTMAX of 8 bits, reference kernel: a sum of exponentials of 512 and more asks for a shift by 32 and more."""
    x, shape = op.inputs[0], op.shape(0)
    if x is None or x.type not in ("int8", "uint8") or (shape and shape[-1] < _WIDE_SUM):
        return ""
    return f"a sum of {_WIDE_SUM} exponentials and more ends LiteRT's reference kernel"


def scaled16(op: Operator) -> str:
    """Functions of int16 have tables only where there are scales."""
    x = op.inputs[0]
    unscaled = x is not None and x.type == "int16" and not x.scales.size
    return "input 0 is int16 without a scale, for which LiteRT's kernel has no table" if unscaled else ""
