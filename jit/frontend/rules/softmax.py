"""Softmax over the last axis: TFLite's integer softmax, on the host."""

from __future__ import annotations

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.layers import elementwise
from tilewright.jit.frontend.rules.common import Rule, quantize, tensor
from tilewright.jit.frontend.site import Site


def lower(site: Site) -> str:
    """dequantize(x) -> softmax -> quantize to scale 1/256, zero point -128."""
    out = site.output_quantisation(site.root)
    softmax = site.argument(site.root)
    x = site.dequantised(softmax.args[0])
    rank = len(compat.shape(softmax))
    if int(softmax.attrs.axis) % rank != rank - 1:
        raise Unsupported("softmax over an axis other than the last")
    return elementwise.softmax(site, x, out)


RULES = (Rule("tilewright.softmax", (quantize(compat.is_op("relax.nn.softmax")(tensor())),), lower),)
