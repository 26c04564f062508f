"""Layers of two tensors: sums, differences, products, extremes, element by element.

One operand has the shape of the result; the other may have a single row, column, or channel, which then goes with all
of the first's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, scale_round
from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Add, Conv2D, DepthwiseConv2D, Multiply, Pairwise, Requant, Requantize, Scale
from tilewright.jit.layers.builder import LITERT, Layer, Operand, Output
from tilewright.jit.numbers.float_pairs import Product, Sum, Term, fit_product, fit_sum
from tilewright.jit.numbers.float_tables import add_table
from tilewright.jit.numbers.scales import IDENTITY_SCALE, exact_shift, identity_requant, input_scale, make_requant

_VALUES = np.arange(-128, 128).astype(np.int8)
_NOT = bytes(255 - k for k in range(256))  #: the table of -1 - x


@dataclass(frozen=True)
class Pair:
    """Operands in the order in which the accelerator takes them: ``big`` has the shape of the result.

    ``swapped``: whether ``big`` is the file's second.
    """

    big: Operand
    other: Operand
    swapped: bool

    @property
    def inputs(self) -> list[str]:
        return [self.big.name, self.other.name]

    def ordered(self, first: Scale, second: Scale) -> dict[str, Scale]:
        """The scales of the file's operands as fields of the graph's operator."""
        return {"scale_a": second, "scale_b": first} if self.swapped else {"scale_a": first, "scale_b": second}


def pair(layer: Layer, a: Operand, b: Operand) -> Pair:
    """Two operands, one of them spread over the channels where it has but one.

    Raises Unsupported where neither has the shape of the result.
    """
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise Unsupported(f"operands of the shapes {a.shape} and {b.shape}") from None
    a, b = (_spread(layer, x, shape[3]) for x in (a, b))
    if shape not in (a.shape, b.shape):
        raise Unsupported(f"operands of the shapes {a.shape} and {b.shape}, neither of which is the result's")
    return Pair(a, b, False) if a.shape == shape else Pair(b, a, True)


def _spread(layer: Layer, x: Operand, channels: int) -> Operand:
    """A single channel in all channels, by weights of 1."""
    if x.shape[3] == channels:
        return x
    shape = (*x.shape[:3], channels)
    name = layer.builder.append(
        Conv2D, f"spread_{x.name}", [x.name], shape, like=x.quantisation, source=layer.source, covers=layer.covers,
        weight=np.ones((channels, 1, 1, 1), np.int8), requant=identity_requant(channels),
    )  # fmt: skip
    return Operand(name, shape, x.quantisation)


def negated(scale: Scale) -> Scale:
    """Of -x where ``scale`` is of x, rounded as the negative value is: x is looked up as -1 - x."""
    return replace(scale, bias=(1 << RESCALE_LEFT_SHIFT) - scale.bias, table=_NOT)


# -- LiteRT ------------------------------------------------------------------------------------------------


def _sum_constants(
    scales: Sequence[float], out: Output, channels: int
) -> tuple[float, Requant]:  # fmt: skip
    """TFLite's ADD and SUB: left shift 20, inputs scaled by s / (2 max(s)), the sum by 2 max(s) / (2^20 s_out)."""
    twice_max = 2.0 * max(scales)
    requant = make_requant(
        np.float64(twice_max) / ((1 << RESCALE_LEFT_SHIFT) * np.float64(out.quantisation.scale)),
        rounding=Rounding.DOUBLE, zero_point=out.quantisation.zero_point, lo=out.lo, hi=out.hi, channels=channels,
        reach=256 << RESCALE_LEFT_SHIFT,
    )  # fmt: skip
    return twice_max, requant


def add(
    layer: Layer, a: Operand, b: Operand, out: Output, *, subtract: bool = False, unsigned: bool = False
) -> str:  # fmt: skip
    """The sum of two tensors, each with a scale of its own, or (LiteRT's) their difference.

    ``unsigned``: whether the operands are uint8, whose sums ONNX Runtime rounds at other places than those of int8.
    """
    if layer.semantics != LITERT:
        q = out.quantisation
        zeros = a.zero_point, b.zero_point, q.zero_point
        wanted = add_table((a.scale, b.scale, q.scale), zeros, unsigned=unsigned)
        return add_fitted(layer, a, b, out, wanted, -128 if unsigned else 0)
    both = pair(layer, a, b)
    channels = both.big.shape[3]
    requant, first, second = _litert_sum(a, b, out, channels, subtract)
    layer.report_exact(channels)
    scales = both.ordered(first, second)
    return layer.emit(Add, both.inputs, both.big.shape, out.quantisation, requant=requant, **scales)


def _litert_sum(a: Operand, b: Operand, out: Output, channels: int, subtract: bool) -> tuple[Requant, Scale, Scale]:
    """What LiteRT requantises a sum with, and scales its operands with."""
    twice_max, requant = _sum_constants((a.scale, b.scale), out, channels)
    first, second = (input_scale(x.scale / twice_max, x.zero_point) for x in (a, b))
    return requant, first, negated(second) if subtract else second


def add_constant(
    layer: Layer, x: Operand, values: NDArray[np.integer], scale: float, out: Output, *, signs: tuple[int, int] = (1, 1)
) -> str:
    """LiteRT's sum of a tensor and numbers per channel (less their zero point), each with one of ``signs``."""
    channels = x.shape[3]
    twice_max, requant = _sum_constants((x.scale, scale), out, channels)
    first, second = input_scale(x.scale / twice_max, x.zero_point), input_scale(scale / twice_max, 0)
    wide = signs[1] * values.astype(np.int64) << RESCALE_LEFT_SHIFT
    bias = scale_round(wide, second.multiplier, second.shift, 0, Rounding.DOUBLE).astype(np.int32)
    layer.report_exact(channels)
    return layer.emit(
        Requantize, [x.name], x.shape, out.quantisation, scale=first if signs[0] > 0 else negated(first),
        requant=replace(requant, bias=bias),
    )  # fmt: skip


def _product_requant(scales: Sequence[float], out: Output, channels: int) -> Requant:
    """TFLite's MUL multiplies and divides the scales in float32."""
    product = np.float32(scales[0]) * np.float32(scales[1]) / np.float32(out.quantisation.scale)
    return make_requant(
        float(product), rounding=Rounding.DOUBLE, zero_point=out.quantisation.zero_point, lo=out.lo, hi=out.hi,
        channels=channels, reach=255 * 255,
    )  # fmt: skip


def multiply(layer: Layer, a: Operand, b: Operand, out: Output) -> str:
    """LiteRT's product of two tensors."""
    both = pair(layer, a, b)
    channels = both.big.shape[3]
    requant = _product_requant((a.scale, b.scale), out, channels)
    scales = both.ordered(exact_shift(a.zero_point), exact_shift(b.zero_point))
    layer.report_exact(channels)
    return layer.emit(Multiply, both.inputs, both.big.shape, out.quantisation, requant=requant, **scales)


def multiply_constant(layer: Layer, x: Operand, values: NDArray[np.integer], scale: float, out: Output) -> str:
    """LiteRT's product of a tensor and numbers per channel (less their zero point): a depthwise layer of one tap."""
    requant = _product_requant((x.scale, scale), out, x.shape[3])
    return _one_tap(layer, x, values, requant, out)


def _one_tap(layer: Layer, x: Operand, values: NDArray[np.integer], requant: Requant, out: Output) -> str:
    weight = values.astype(np.int8 if np.abs(values + 0.5).max() < 128 else np.int16).reshape(1, 1, -1)
    bias = (-x.zero_point * values.astype(np.int64)).astype(np.int32)
    layer.report_exact(x.shape[3])
    return layer.emit(
        DepthwiseConv2D, [x.name], x.shape, out.quantisation, weight=weight, requant=replace(requant, bias=bias)
    )  # fmt: skip


def leaky(layer: Layer, x: Operand, slopes: NDArray[np.integer], scale: float, out: Output) -> str:
    """LiteRT's PRELU with a slope per channel (less its zero point): what is above zero and what is below, each zero
    where the other is not, added."""
    q, channels = out.quantisation, x.shape[3]
    made = partial(make_requant, rounding=Rounding.DOUBLE, zero_point=q.zero_point, hi=out.hi, channels=channels)
    first = np.float32(x.scale) / np.float32(q.scale)
    requant = made(float(first), lo=max(q.zero_point, out.lo), reach=255)
    above = layer.emit(Requantize, [x.name], x.shape, q, scale=exact_shift(x.zero_point), requant=requant)
    clamp = identity_requant(channels, -128, x.zero_point)
    low = layer.emit(Requantize, [x.name], x.shape, x.quantisation, scale=IDENTITY_SCALE, requant=clamp)
    second = np.float32(x.scale) * np.float32(scale) / np.float32(q.scale)
    requant = made(float(second), lo=out.lo, reach=255 * 255)
    below = _one_tap(layer, Operand(low, x.shape, x.quantisation), slopes, requant, out)
    return layer.emit(
        Add, [above, below], x.shape, q, scale_a=exact_shift(q.zero_point), scale_b=IDENTITY_SCALE,
        requant=identity_requant(channels),
    )  # fmt: skip


# -- either ------------------------------------------------------------------------------------------------


def extreme(layer: Layer, kind: type[Pairwise], a: Operand, b: Operand, out: Output) -> str:
    """The greater or the less of the integers of two tensors, whatever their scales."""
    both = pair(layer, a, b)
    channels = both.big.shape[3]
    layer.report_exact(channels)
    return layer.emit(
        kind, both.inputs, both.big.shape, out.quantisation, scale_a=IDENTITY_SCALE, scale_b=IDENTITY_SCALE,
        requant=identity_requant(channels, out.lo, out.hi),
    )  # fmt: skip


# -- ONNX Runtime ------------------------------------------------------------------------------------------

_PAIRS = "all 65,536 pairs compared"
_NEAREST = "no constants reproduce its float32 roundings for all pairs of values"


def add_fitted(
    layer: Layer, a: Operand, b: Operand, out: Output, wanted: NDArray[np.int64], origin: int, *, subtract: bool = False
) -> str:
    """A sum or difference fitted to its results for all 65,536 pairs: ``wanted`` (256, 256), a first, unclamped.

    ``origin``: see :func:`~tilewright.jit.numbers.float_pairs.fit_sum`. Where no constants give all, LiteRT's are
    taken, which are near, and that is stated.
    """
    both = pair(layer, a, b)
    q, channels = out.quantisation, both.big.shape[3]
    ratios = [float(np.float32(x.scale) / np.float32(q.scale)) for x in (a, b)]
    terms = Term(ratios[0], a.zero_point), Term(-ratios[1] if subtract else ratios[1], b.zero_point)
    fitted = fit_sum(wanted, terms, origin, out.lo, out.hi, channels)
    if fitted is not None:
        layer.report_exact(channels, _PAIRS)
    else:
        requant, *scales = _litert_sum(a, b, out, channels, subtract)
        fitted = Sum((scales[0], scales[1]), requant)
        acc = scales[0].apply(_VALUES)[:, None] + scales[1].apply(_VALUES)[None, :]
        _report_nearest(layer, requant, acc, np.clip(wanted, out.lo, out.hi))
    corrections = tuple((number ^ both.swapped, scale) for number, scale in fitted.corrections)
    return layer.emit(
        Add, both.inputs, both.big.shape, q, requant=fitted.requant, corrections=corrections,
        **both.ordered(*fitted.scales),
    )  # fmt: skip


def _report_nearest(layer: Layer, requant: Requant, acc: NDArray[np.int32], wanted: NDArray[np.int64]) -> None:
    """States for how many of all pairs, with these accumulators, the result is another one than ``wanted``."""
    wrong = np.abs(requant.of(slice(1)).apply(acc[..., None])[..., 0] - wanted)
    layer.report(
        LayerExactness(
            layer.name, layer.semantics, len(requant.bias), 0, bound=int(wrong.max()), worst=float((wrong > 0).mean()),
            method=_NEAREST, compared=True,
        )
    )  # fmt: skip


def multiply_fitted(layer: Layer, a: Operand, b: Operand, out: Output, wanted: NDArray[np.int64], origin: int) -> str:
    """A product fitted to its results for all 65,536 pairs: ``wanted`` (256, 256), a first, unclamped.

    ``origin``: see :func:`~tilewright.jit.numbers.float_pairs.fit_sum`. Where no constants give all, LiteRT's are
    taken, which are near, and that is stated.
    """
    both = pair(layer, a, b)
    q, channels = out.quantisation, both.big.shape[3]
    terms = Term(a.scale / q.scale, a.zero_point), Term(b.scale, b.zero_point)
    fitted = fit_product(wanted, terms, q.zero_point, origin, out.lo, out.hi, channels)
    if fitted is not None:
        layer.report_exact(channels, _PAIRS)
    else:
        requant = _product_requant((a.scale, b.scale), out, channels)
        fitted = Product((exact_shift(a.zero_point), exact_shift(b.zero_point)), requant)
        acc = (_VALUES.astype(np.int32) - a.zero_point)[:, None] * (_VALUES.astype(np.int32) - b.zero_point)[None, :]
        _report_nearest(layer, requant, acc, np.clip(wanted, out.lo, out.hi))
    return layer.emit(
        Multiply, both.inputs, both.big.shape, q, requant=fitted.requant, **both.ordered(*fitted.scales)
    )  # fmt: skip
