"""Element-wise changes of scale and range: QUANTIZE of integers, ReLU, ReLU6, clip."""

from __future__ import annotations

import numpy as np

from tilewright.jit import compat
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.float_tables import Term, fit, requantize_table
from tilewright.jit.frontend.rules.common import Result, Rule, clip, integer_clip, result, results_of, tensor
from tilewright.jit.frontend.scaling import report_fit
from tilewright.jit.frontend.site import LITERT, Operand, Quantisation, Site
from tilewright.jit.graph import Requant, Requantize, Scale
from tilewright.jit.numbers import exact_shift, make_requant


def element_wise(site: Site, x: Operand, tail: Result) -> tuple[Scale, Requant]:
    """int8 -> int8 with the scale of ``x`` changed to the tail's, one channel's constants for all."""
    channels = x.shape[3]
    if site.semantics != LITERT:
        return _float(site, x, tail)
    if x.scale == tail.quantisation.scale:
        ratio = 1.0
    else:
        ratio = float(np.float64(x.scale) / np.float64(tail.quantisation.scale))
    requant = make_requant(
        ratio,
        rounding="double",
        zero_point=tail.quantisation.zero_point,
        lo=tail.lo,
        hi=tail.hi,
        channels=channels,
        reach=255,
    )
    return exact_shift(x.zero_point), requant


def _float(site: Site, x: Operand, tail: Result) -> tuple[Scale, Requant]:
    """ONNX Runtime's DequantizeLinear and QuantizeLinear, fitted to their results for all 256 inputs."""
    out = tail.quantisation
    wanted = requantize_table(x.scale, x.zero_point, out.scale, out.zero_point)
    fitted = fit(wanted, (Term(x.scale / out.scale, x.zero_point),), out.zero_point, tail.lo, tail.hi, x.shape[3])
    report_fit(site, fitted, x.shape[3])
    return fitted.scales[0], fitted.requant


def _report(site: Site, channels: int) -> None:
    """Notes a layer whose arithmetic is the oracle's own; fitted ones have been noted already."""
    if site.semantics == LITERT:
        site.builder.exactness.append(LayerExactness(site.name, site.semantics, channels, channels))


def lower(site: Site) -> str:
    """dequantize -> [activation] -> quantize; nothing at all where neither scale nor range changes."""
    tail = result(site)
    x = site.dequantised(tail.inner)
    if x.quantisation == tail.quantisation and (tail.lo, tail.hi) == (-128, 127):
        return x.name
    scale, requant = element_wise(site, x, tail)
    _report(site, x.shape[3])
    return site.emit(Requantize, [x.name], x.shape, tail.quantisation, scale=scale, requant=requant)


def lower_integer_clip(site: Site) -> str:
    """clip on integers that no other composite claimed."""
    inner, lo, hi = integer_clip(site, site.root)
    x = site.tensor(inner)
    if (lo, hi) == (-128, 127):
        return x.name
    like = Quantisation(1.0, 0)
    tail = Result(inner, like, lo, hi)
    scale, requant = element_wise(site, Operand(x.name, x.shape, like), tail)
    _report(site, x.shape[3])
    return site.emit(Requantize, [x.name], x.shape, x.quantisation, scale=scale, requant=requant)


RULES = (
    Rule("tilewright.requantize", results_of(tensor()), lower),
    Rule("tilewright.clip", (clip(compat.wildcard()),), lower_integer_clip),
)
