"""SVDF of int8.

Source: LiteRT ``kernels/svdf.cc`` and ``reference/svdf.h`` (``EvalIntegerSVDF``) for a state of int16, which is all
that it knows; TensorFlow Lite Micro ``kernels/svdf_common.cc`` (``EvalInt8SvdfReference``) for one of int8.
"""

from __future__ import annotations

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.numbers.scales import quantize_multiplier, require_int32
from tilewright.jit.recurrent.ops import Sums, Svdf
from tilewright.jit.recurrent.scaling import bound_of
from tilewright.jit.source.tflite.file import Tensor
from tilewright.jit.source.tflite.site import RELU, Site

_FEATURE, _TIME, _BIAS, _STATE = range(1, 5)


def svdf(site: Site) -> str:
    """SVDF of int8 with weights over time and state of int16, or of int8 as in TensorFlow Lite Micro"""
    entry, feature, time, state = (site.tensor(k) for k in (0, _FEATURE, _TIME, _STATE))
    kinds = [tensor.dtype for tensor in (entry, feature, time, state, site.result)]
    if kinds not in [["int8", "int8", kind, kind, "int8"] for kind in ("int8", "int16")]:
        raise Unsupported(f"an SVDF of {', '.join(kinds)} (input, weights, weights over time, state, result)")
    if site.option("fusedActivationFunction") != RELU:
        raise Unsupported("an SVDF with another activation than RELU")
    for tensor in (feature, time):
        if tensor.scales.size != 1 or np.any(tensor.zero_points):
            raise Unsupported("an SVDF with weights of several scales or a zero point")
    bits, zero_point = (8, int(state.zero_points[0])) if state.dtype == "int8" else (16, 0)
    if bits == 16 and np.any(state.zero_points):
        raise Unsupported("an SVDF whose state of int16 has a zero point")
    if not -128 <= zero_point <= 127:
        raise Unsupported("an SVDF whose state has a zero point beyond int8")
    if not site.keeps_alone(_STATE):
        raise Unsupported("an SVDF whose state something else sets or reads")
    x, rank = site.operand(0), site.option("rank")
    weight = site.constant(_FEATURE).astype(np.int8)
    sums = Sums(
        weight, weight.astype(np.int64).sum(axis=1) * -int(entry.zero_points[0]), *_scale(entry, feature, state)
    )
    require_int32(sums.multiplier, sums.shift, bound_of(sums))
    values = site.constant(_TIME)
    units = len(values) // rank
    bias = site.constant(_BIAS).astype(np.int64) if site.has(_BIAS) else np.zeros(units, np.int64)
    multiplier, shift = _scale(state, time, site.result)
    reach = np.abs(values.astype(np.int64)).sum(axis=1).reshape(units, rank).sum(axis=1) << bits
    require_int32(multiplier, shift, int((reach + np.abs(bias)).max()))
    site.report_exact(units)
    return site.emit(
        Svdf, [x.name], (*x.shape[:3], units), site.result.quantisation(), feature=sums, time=values, rank=rank,
        bias=bias, state_bits=bits, state_scale=float(state.scales[0]), state_zero_point=zero_point,
        multiplier=multiplier, shift=shift, zero_point=int(site.result.zero_points[0]),
    )  # fmt: skip


def _scale(a: Tensor, b: Tensor, result: Tensor) -> tuple[int, int]:
    """Multiplier and shift from products to the result, of float32 as in the kernel."""
    with np.errstate(all="ignore"):
        scale = np.float32(a.scales[0]) * np.float32(b.scales[0]) / np.float32(result.scales[0])
    return quantize_multiplier(float(scale))
