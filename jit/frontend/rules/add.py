"""Addition of two tensors with scales of their own, with fused activation."""

from __future__ import annotations

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.layers import pairwise
from tilewright.jit.frontend.rules.common import Rule, result, results_of, tensor
from tilewright.jit.frontend.site import Site


def lower(site: Site) -> str:
    """dequantize(a), dequantize(b) -> add -> [activation] -> quantize."""
    tail = result(site)
    a, b = (site.dequantised(arg) for arg in compat.arguments(tail.inner)[:2])
    if a.shape != b.shape:
        raise Unsupported(f"addition with broadcasting ({a.shape} and {b.shape})")
    return pairwise.add(site, a, b, tail)


RULES = (Rule("tilewright.add", results_of(compat.is_op("relax.add")(tensor(), tensor())), lower),)
