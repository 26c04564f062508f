"""Layers of single elements: changes of scale and range, tables, concatenation, softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Concat, Requant, Requantize, Scale, Softmax
from tilewright.jit.layers.builder import LITERT, Layer, Operand, Output, Quantisation
from tilewright.jit.numbers.float_tables import fit, requantize_table
from tilewright.jit.numbers.scales import (
    IDENTITY_SCALE,
    NotRepresentable,
    exact_shift,
    identity_requant,
    make_requant,
    softmax_constants,
)


def element_wise(layer: Layer, x: Operand, out: Output, *, float_ratio: bool = False) -> tuple[Scale, Requant]:
    """int8 -> int8 with the scale of ``x`` changed to the result's, one channel's constants for all.

    ``float_ratio``: whether LiteRT divides the scales in float32 (RELU and its kin) and not in float64 (QUANTIZE).
    """
    channels = x.shape[3]
    if layer.semantics != LITERT:
        return _element_wise_onnx_runtime(layer, x, out)
    kind = np.float32 if float_ratio else np.float64
    ratio = float(kind(x.scale) / kind(out.quantisation.scale))
    requant = make_requant(
        ratio,
        rounding=Rounding.DOUBLE,
        zero_point=out.quantisation.zero_point,
        lo=out.lo,
        hi=out.hi,
        channels=channels,
        reach=255,
    )
    return exact_shift(x.zero_point), requant


def _element_wise_onnx_runtime(layer: Layer, x: Operand, out: Output) -> tuple[Scale, Requant]:
    """DequantizeLinear and QuantizeLinear, fitted to their results for all 256 inputs, or a table of them."""
    q, channels = out.quantisation, x.shape[3]
    wanted = requantize_table(x.scale, x.zero_point, q.scale, q.zero_point)
    layer.report_exact(channels, "all 256 inputs compared")
    try:
        fitted = fit(wanted, x.scale / q.scale, x.zero_point, q.zero_point, out.lo, out.hi, channels)
    except NotRepresentable:
        fitted = None
    if fitted is not None:
        return fitted
    table = np.roll(np.clip(wanted, out.lo, out.hi).astype(np.int8), 128)  # at the values modulo 256
    return replace(IDENTITY_SCALE, table=table.tobytes()), identity_requant(channels)


def is_copy(x: Operand, out: Output) -> bool:
    """Whether neither scale nor range changes."""
    return x.quantisation == out.quantisation and (out.lo, out.hi) == (-128, 127)


def requantize(layer: Layer, x: Operand, out: Output, *, float_ratio: bool = False) -> str:
    """A change of scale or range; nothing at all where neither changes. ``float_ratio``: see :func:`element_wise`."""
    if is_copy(x, out):
        return x.name
    scale, requant = element_wise(layer, x, out, float_ratio=float_ratio)
    if layer.semantics == LITERT:  # fitted ones have been noted already
        layer.report_exact(x.shape[3])
    return layer.emit(Requantize, [x.name], x.shape, out.quantisation, scale=scale, requant=requant)


def clamp(layer: Layer, x: Operand, low: int, high: int) -> str:
    """The int8 values themselves within [low, high], whatever their scale."""
    if (low, high) == (-128, 127):
        return x.name
    requant = identity_requant(x.shape[3], low, high)
    return layer.emit(Requantize, [x.name], x.shape, x.quantisation, scale=IDENTITY_SCALE, requant=requant)


def looked_up(layer: Layer, x: Operand, out: Output, table: NDArray[np.int8]) -> str:
    """Any function of each element; ``table``: its results for all int8 values, at the values modulo 256."""
    channels = x.shape[3]
    scale = replace(IDENTITY_SCALE, table=table.tobytes())
    layer.report_exact(channels, "all 256 inputs compared")
    return layer.emit(Requantize, [x.name], x.shape, out.quantisation, scale=scale, requant=identity_requant(channels))


def concat(layer: Layer, inputs: Sequence[Operand], out: Output) -> str:
    """Concatenation over channels; inputs with another scale than the result's are requantised."""
    if any(x.shape[:3] != inputs[0].shape[:3] for x in inputs):
        raise Unsupported(f"concatenation of the shapes {', '.join(str(x.shape) for x in inputs)}")
    parts = [None if is_copy(x, out) else element_wise(layer, x, out) for x in inputs]
    channels = sum(x.shape[3] for x in inputs)
    if layer.semantics == LITERT:
        layer.report_exact(channels)
    shape = (*inputs[0].shape[:3], channels)
    return layer.emit(Concat, [x.name for x in inputs], shape, out.quantisation, parts=parts)


def softmax(layer: Layer, x: Operand, out: Quantisation, beta: float = 1.0) -> str:
    """TFLite's integer softmax over the last axis, on the host in NumPy."""
    if layer.semantics != LITERT:
        raise Unsupported("ONNX Runtime computes softmax in floating point")
    if out.scale != 1.0 / 256 or out.zero_point != -128:
        raise Unsupported(f"softmax with output scale {out.scale} and zero point {out.zero_point}, not 1/256 and -128")
    multiplier, left_shift, diff_min = softmax_constants(x.scale, beta)
    layer.report_exact(x.shape[3])
    return layer.emit(Softmax, [x.name], x.shape, out, multiplier=multiplier, left_shift=left_shift, diff_min=diff_min)
