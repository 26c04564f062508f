"""Addition of two tensors with scales of their own, with fused activation."""

from __future__ import annotations

import numpy as np

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.float_tables import Term, add_table, fit
from tilewright.jit.frontend.rules.common import Result, Rule, result, results_of, tensor
from tilewright.jit.frontend.scaling import report_fit
from tilewright.jit.frontend.site import LITERT, Operand, Site
from tilewright.jit.graph import Add
from tilewright.jit.numbers import input_scale, make_requant


def lower(site: Site) -> str:
    """dequantize(a), dequantize(b) -> add -> [activation] -> quantize."""
    tail = result(site)
    a, b = (site.dequantised(arg) for arg in compat.arguments(tail.inner)[:2])
    if a.shape != b.shape:
        raise Unsupported(f"addition with broadcasting ({a.shape} and {b.shape})")
    return _litert(site, a, b, tail) if site.semantics == LITERT else _onnx_runtime(site, a, b, tail)


def _litert(site: Site, a: Operand, b: Operand, tail: Result) -> str:
    """TFLite's ADD: left shift 20, both inputs scaled by s / (2 max(s)), the sum by 2 max(s) / (2^20 s_out)."""
    twice_max = 2.0 * max(a.scale, b.scale)
    channels = a.shape[3]
    requant = make_requant(
        np.float64(twice_max) / ((1 << 20) * np.float64(tail.quantisation.scale)),
        rounding="double",
        zero_point=tail.quantisation.zero_point,
        lo=tail.lo,
        hi=tail.hi,
        channels=channels,
        reach=256 << 20,
    )
    site.builder.exactness.append(LayerExactness(site.name, site.semantics, channels, channels))
    return site.emit(
        Add,
        [a.name, b.name],
        a.shape,
        tail.quantisation,
        scale_a=input_scale(a.scale / twice_max, a.zero_point),
        scale_b=input_scale(b.scale / twice_max, b.zero_point),
        requant=requant,
    )


def _onnx_runtime(site: Site, a: Operand, b: Operand, tail: Result) -> str:
    """QLinearAdd, fitted to its results for all 65,536 pairs of inputs."""
    out = tail.quantisation
    wanted = add_table((a.scale, b.scale, out.scale), (a.zero_point, b.zero_point, out.zero_point))
    terms = tuple(Term(x.scale / out.scale, x.zero_point) for x in (a, b))
    fitted = fit(wanted, terms, out.zero_point, tail.lo, tail.hi, a.shape[3])
    report_fit(site, fitted, a.shape[3])
    scale_a, scale_b = fitted.scales
    return site.emit(Add, [a.name, b.name], a.shape, out, scale_a=scale_a, scale_b=scale_b, requant=fitted.requant)


RULES = (Rule("tilewright.add", results_of(compat.is_op("relax.add")(tensor(), tensor())), lower),)
