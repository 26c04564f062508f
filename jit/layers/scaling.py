"""The output stage of the layers with weights, for either oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Requant
from tilewright.jit.layers.builder import LITERT, Layer, Output
from tilewright.jit.numbers.float_scaling import (
    Tuned,
    double_output,
    float32_constants,
    require_float32,
    thresholds,
    tune,
)
from tilewright.jit.numbers.scales import FARTHEST_ZERO, NotRepresentable, make_requant


def sum_requant(
    layer: Layer,
    scale: float,
    weight_scales: NDArray[np.float64],
    folded: NDArray[np.int64],
    low: NDArray[Any],
    high: NDArray[Any],
    tail: Output,
    *,
    rounding: Rounding,
    float_product: bool = False,
) -> Requant:
    """Requant of sums of products of the scales ``scale`` and ``weight_scales`` (OC,).

    ``folded``: the bias of each channel; ``low``, ``high``: what sum and bias can come to. ``rounding`` is LiteRT's for
    this kind of layer: ``double`` of convolutions, ``single`` of fully connected layers, which scale in float64.
    ``float_product``: whether LiteRT rounds the product of both scales to float32 (uint8 convolutions, BATCH_MATMUL).
    Adds the layer to the exactness report.
    """
    if layer.semantics != LITERT:
        with np.errstate(over="ignore"):  # as ONNX Runtime's product of scales does
            scales32 = np.float32(scale) * weight_scales.astype(np.float32) / np.float32(tail.quantisation.scale)
        if not np.isfinite(scales32).all() and tail.stage is None:  # a sum of 0 is no number then
            raise NotRepresentable("scales whose product is beyond float32")
        return float_requant(layer, scales32, folded, low, high, tail)
    product = np.float64(scale) * weight_scales
    if float_product:
        product = product.astype(np.float32).astype(np.float64)
    scales = product / np.float64(tail.quantisation.scale)
    if rounding == Rounding.SINGLE:
        return _double_requant(layer, scales, folded, low, high, tail)
    requant = make_requant(
        scales,
        bias=wrap_int32(folded),
        rounding=rounding,
        zero_point=tail.quantisation.zero_point,
        lo=tail.lo,
        hi=tail.hi,
        channels=len(scales),
        reach=np.maximum(np.abs(low), np.abs(high)),
    )
    layer.report(LayerExactness(layer.name, layer.semantics, len(scales), len(scales)))
    return requant


def _double_requant(
    layer: Layer,
    scales: NDArray[np.float64],
    bias: NDArray[np.int64],
    low: NDArray[Any],
    high: NDArray[Any],
    tail: Output,
) -> Requant:
    """Requant that equals LiteRT's float64 scaling of accumulators in [low, high] (bias included).

    Adds the layer to the exactness report. Raises NotRepresentable where no constants give the same integers.
    """
    _within_int32(low, high)
    zero_point = tail.quantisation.zero_point
    if (np.maximum(np.abs(low), np.abs(high)) * scales >= (1 << 31) - FARTHEST_ZERO).any():
        # LiteRT's conversion of the product to int32 has no meaning then, and what it gives is no clamp
        raise NotRepresentable(f"scale {float(scales.max()):.6g} may overflow int32")
    table = thresholds(scales, low, high, zero_point, tail.lo, tail.hi, double_output)
    tuned = tune(scales, low, high, zero_point, tail.lo, tail.hi, table)
    if not tuned.exact.all():
        raise NotRepresentable(f"{int((~tuned.exact).sum())} channels whose float64 scaling has no fixed-point equal")
    layer.report(LayerExactness(layer.name, layer.semantics, len(scales), len(scales)))
    return tuned_requant(tuned, bias, tail)


def float_requant(
    layer: Layer,
    scales: NDArray[np.float32],
    bias: NDArray[np.int64],
    low: NDArray[Any],
    high: NDArray[Any],
    tail: Output,
) -> Requant:
    """Requant that equals ONNX Runtime's float32 scaling, or the ``stage`` of ``tail``, over [low, high] (with bias).

    Adds the layer to the exactness report.
    """
    _within_int32(low, high)
    if tail.stage is None:
        require_float32(scales, low, high)
        multiplier, shift = float32_constants(scales)
        layer.report_exact(len(scales), "float32 scaling")
        return _requant(bias, multiplier, shift, np.zeros_like(shift), Rounding.FLOAT32, tail)
    zero_point = tail.quantisation.zero_point
    table = thresholds(scales, low, high, zero_point, tail.lo, tail.hi, tail.stage)
    tuned = tune(scales, low, high, zero_point, tail.lo, tail.hi, table)
    missed = not tuned.exact.all()
    layer.report(
        LayerExactness(
            layer.name, layer.semantics, len(scales), int(tuned.exact.sum()), bound=int(missed), worst=float(missed),
            method="thresholds of float32 operations compared over all reachable accumulators", compared=missed,
        )
    )  # fmt: skip
    return tuned_requant(tuned, bias, tail)


def _within_int32(low: NDArray[Any], high: NDArray[Any]) -> None:
    limit = 1 << 31
    if (low < -limit).any() or (high >= limit).any():
        raise Unsupported("an accumulator that can leave int32")


def tuned_requant(tuned: Tuned, bias: NDArray[np.int64], tail: Output) -> Requant:
    """Requant of the constants of an output stage and a bias, of which either may be one for all channels."""
    return _requant(bias, tuned.multiplier, tuned.shift, tuned.offset, tuned.rounding, tail)


def _requant(
    bias: NDArray[np.int64], multiplier: NDArray[Any], shift: NDArray[Any], offset: NDArray[Any], rounding: Rounding,
    tail: Output,
) -> Requant:  # fmt: skip
    given = np.broadcast_arrays(wrap_int32(bias), multiplier, shift, offset)
    b, m, t, r = (np.array(v, np.int32) for v in given)
    return Requant(b, m, t, r, rounding, tail.quantisation.zero_point, tail.lo, tail.hi)
