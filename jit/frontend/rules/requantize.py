"""Element-wise changes of scale and range: QUANTIZE of integers, ReLU, ReLU6, clip."""

from __future__ import annotations

from tilewright.jit import compat
from tilewright.jit.frontend.builder import Operand, Output, Quantisation
from tilewright.jit.frontend.layers import elementwise
from tilewright.jit.frontend.rules.common import Rule, clip, integer_clip, result, results_of, tensor
from tilewright.jit.frontend.site import Site


def lower(site: Site) -> str:
    """dequantize -> [activation] -> quantize; nothing at all where neither scale nor range changes."""
    tail = result(site)
    return elementwise.requantize(site, site.dequantised(tail.inner), tail)


def lower_integer_clip(site: Site) -> str:
    """clip on integers that no other composite claimed."""
    inner, lo, hi = integer_clip(site, site.root)
    x = site.tensor(inner)
    like = Quantisation(1.0, 0)
    return elementwise.requantize(site, Operand(x.name, x.shape, like), Output(like, lo, hi))


RULES = (
    Rule("tilewright.requantize", results_of(tensor()), lower),
    Rule("tilewright.clip", (clip(compat.wildcard()),), lower_integer_clip),
)
