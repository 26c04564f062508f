"""Convolution (dense, grouped, depthwise) with bias and fused activation."""

from __future__ import annotations

import numpy as np

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.rules.common import Rule, constant, result, results_of, tensor, with_bias
from tilewright.jit.frontend.scaling import weighted_requant
from tilewright.jit.frontend.site import QuantisedConstant, Site
from tilewright.jit.graph import Conv2D, DepthwiseConv2D


def bias_of(site: Site, inner: compat.Expr, anchor: str) -> tuple[compat.Expr, QuantisedConstant | None]:
    """(call of ``anchor``, bias) of ``anchor(...)`` or ``anchor(...) + bias`` in either order."""
    if site.op(inner) != "relax.add":
        return site.value(inner), None
    left, right = site.argument(inner, 0), site.argument(inner, 1)
    if site.op(left) != anchor:
        left, right = right, left
    return left, site.constant(right)


def _weight_ohwi(weight: QuantisedConstant, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """(int8 weight as (OC, KH, KW, IC/groups), scale per output channel)."""
    if weight.values.dtype != np.int8 or sorted(layout) != sorted("OHWI"):
        raise Unsupported(f"{weight.values.dtype} weights of layout {layout}")
    scales = weight.channel_scales(layout.index("O"))
    return np.ascontiguousarray(weight.values.transpose([layout.index(c) for c in "OHWI"])), scales


def lower(site: Site) -> str:
    """dequantize(x), dequantize(w) -> conv2d [-> add bias] -> [activation] -> quantize."""
    tail = result(site)
    conv, bias = bias_of(site, tail.inner, "relax.nn.conv2d")
    attrs = conv.attrs
    if str(attrs.data_layout) != "NHWC":
        raise Unsupported(f"convolution in layout {attrs.data_layout}")
    x = site.dequantised(conv.args[0])
    weight, scales = _weight_ohwi(site.constant(conv.args[1]), str(attrs.kernel_layout))
    groups = int(attrs.groups)
    channels = weight.shape[0]
    requant = weighted_requant(
        site, x, weight.reshape(channels, -1), scales, bias, tail, rounding="double", count=channels
    )
    depthwise = groups > 1 and groups == x.shape[3] == channels
    shape = compat.shape(conv)
    fields = {
        "requant": requant,
        "strides": compat.ints(attrs.strides),
        "dilation": compat.ints(attrs.dilation),
        "padding": compat.ints(attrs.padding),
        "pad_value": x.zero_point,
    }
    if depthwise:
        kernel = np.ascontiguousarray(weight[:, :, :, 0].transpose(1, 2, 0))
        return site.emit(DepthwiseConv2D, [x.name], shape, tail.quantisation, weight=kernel, **fields)
    return site.emit(Conv2D, [x.name], shape, tail.quantisation, weight=weight, groups=groups, **fields)


_CONV = compat.is_op("relax.nn.conv2d")

RULES = (
    Rule(
        "tilewright.conv2d",
        results_of(*with_bias(lambda: _CONV(tensor(), constant()))),
        lower,
    ),
)
