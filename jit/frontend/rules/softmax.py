"""Softmax over the last axis: TFLite's integer softmax, on the host."""

from __future__ import annotations

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.frontend.rules.common import Rule, quantize, tensor
from tilewright.jit.frontend.site import LITERT, Site
from tilewright.jit.graph import Softmax
from tilewright.jit.numbers import softmax_constants


def lower(site: Site) -> str:
    """dequantize(x) -> softmax -> quantize to scale 1/256, zero point -128."""
    if site.semantics != LITERT:
        raise Unsupported("ONNX Runtime computes softmax in floating point")
    out = site.output_quantisation(site.root)
    softmax = site.argument(site.root)
    x = site.dequantised(softmax.args[0])
    rank = len(compat.shape(softmax))
    if int(softmax.attrs.axis) % rank != rank - 1:
        raise Unsupported("softmax over an axis other than the last")
    if out.scale != 1.0 / 256 or out.zero_point != -128:
        raise Unsupported(f"softmax with output scale {out.scale} and zero point {out.zero_point}, not 1/256 and -128")
    multiplier, left_shift, diff_min = softmax_constants(x.scale)
    site.builder.exactness.append(LayerExactness(site.name, site.semantics, x.shape[3], x.shape[3]))
    return site.emit(Softmax, [x.name], x.shape, out, multiplier=multiplier, left_shift=left_shift, diff_min=diff_min)


RULES = (Rule("tilewright.softmax", (quantize(compat.is_op("relax.nn.softmax")(tensor())),), lower),)
