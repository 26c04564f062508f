"""What several lowering rules share: the rule record, QDQ patterns, fused activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Output, Quantisation
from tilewright.jit.numbers.scales import quantize_value
from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Expr, Pattern
from tilewright.jit.relax.site import Site


@dataclass(frozen=True)
class Rule:
    """A composite: its name, the patterns that find it (first match wins), and its lowering.

    ``lower`` emits the operators of one match and returns the name of the tensor that holds the result; it raises
    :class:`Unsupported` (or NotRepresentable) where this form cannot be lowered exactly.
    """

    name: str
    patterns: tuple[Pattern, ...]
    lower: Callable[[Site], str]


def dequantize(pattern: Pattern) -> Pattern:
    """``dequantize(pattern)`` with constant scale and zero point."""
    return compat.is_op("relax.dequantize")(pattern, compat.is_const(), compat.is_const())


def quantize(pattern: Pattern) -> Pattern:
    """``quantize(pattern)`` with constant scale and zero point."""
    return compat.is_op("relax.quantize")(pattern, compat.is_const(), compat.is_const())


def tensor() -> Pattern:
    """A dequantised activation."""
    return dequantize(compat.wildcard())


def constant() -> Pattern:
    """A dequantised constant, possibly reshaped or transposed."""
    permute, reshape = compat.is_op("relax.permute_dims"), compat.is_op("relax.reshape")
    plain = dequantize(compat.is_const())
    transposed = dequantize(permute(compat.is_const()))
    reshaped = reshape(plain, compat.wildcard())
    return plain | transposed | reshape(reshaped, compat.wildcard()) | reshaped | permute(plain)


def with_bias(product: Callable[[], Pattern]) -> tuple[Pattern, ...]:
    """A product plus a constant in either order, and the product alone; patterns are made afresh for each use."""
    add = compat.is_op("relax.add")
    return add(product(), constant()), add(constant(), product()), product()


def clip(pattern: Pattern) -> Pattern:
    """``clip(pattern, lo, hi)``."""
    return compat.is_op("relax.clip")(pattern, compat.wildcard(), compat.wildcard())


def relu(pattern: Pattern) -> Pattern:
    """``relu(pattern)``."""
    return compat.is_op("relax.nn.relu")(pattern)


def results_of(*patterns: Pattern) -> tuple[Pattern, ...]:
    """``quantize`` of each float pattern, alone or with a fused activation; longer forms first."""
    out: list[Pattern] = []
    for pattern in patterns:
        forms = (relu(pattern), clip(pattern), pattern)
        out += [clip(quantize(form)) for form in forms]
        out += [quantize(form) for form in forms]
    return tuple(out)


@dataclass(frozen=True, kw_only=True)
class Result(Output):
    """The tail of a composite: ``inner`` is the float value before activation and quantisation."""

    inner: Expr


def integer_clip(site: Site, expr: Expr) -> tuple[Expr, int, int]:
    """(x, lo, hi) of ``clip(x, lo, hi)`` on integers held as int8; the full range where there is no clip."""
    if site.op(expr) != "relax.clip":
        return site.value(expr), -128, 127
    call = site.value(expr)
    moved = 128 if compat.dtype(call) == "uint8" else 0
    low, high = (compat.number(bound) for bound in call.args[1:3])
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise Unsupported(f"a clip of integers to {low}..{high}")
    return site.argument(call), max(-128, int(low) - moved), min(127, int(high) - moved)


def result(site: Site) -> Result:
    """Takes the tail of ``site.root`` apart: [clip] (quantize ([relu | clip] (inner)))."""
    quantized, lo, hi = integer_clip(site, site.root)
    if site.op(quantized) != "relax.quantize":
        raise Unsupported("the result is not quantised")
    out = site.output_quantisation(quantized)
    inner = site.argument(quantized)
    site.require_float32(inner)
    name = site.op(inner)
    if name == "relax.nn.relu":
        lo = max(lo, out.zero_point)
        inner = site.argument(inner)
    elif name == "relax.clip":
        low, high = (compat.number(inner.args[i]) for i in (1, 2))
        lo = max(lo, _bound(low, out))
        hi = min(hi, _bound(high, out))
        inner = site.argument(inner)
    if lo > hi:
        raise Unsupported(f"an activation that clamps to nothing ({lo}..{hi})")
    return Result(quantisation=out, lo=lo, hi=hi, inner=inner)


def _bound(value: float, out: Quantisation) -> int:
    """A real clip bound as an integer of the result, kept within int8."""
    if math.isnan(value):
        raise Unsupported("a clip to NaN")
    limited = min(max(value, -1e6 * out.scale), 1e6 * out.scale)
    return min(127, max(-128, quantize_value(limited, out.scale, out.zero_point)))
