"""Convolution (dense, grouped, depthwise) and matrix products with a constant, with bias and fused activation."""

from __future__ import annotations

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Weights
from tilewright.jit.layers.weighted import convolution, dense
from tilewright.jit.relax import compat
from tilewright.jit.relax.rules.common import Rule, constant, result, results_of, tensor, with_bias
from tilewright.jit.relax.site import Operand, QuantisedConstant, Site


def _bias_of(site: Site, inner: compat.Expr, anchor: str) -> tuple[compat.Expr, QuantisedConstant | None]:
    """(call of ``anchor``, bias) of ``anchor(...)`` or ``anchor(...) + bias`` in either order."""
    if site.op(inner) != "relax.add":
        return site.value(inner), None
    left, right = site.argument(inner, 0), site.argument(inner, 1)
    if site.op(left) != anchor:
        left, right = right, left
    return left, site.constant(right)


def _weights_of(
    site: Site, x: Operand, kernel: np.ndarray, scales: np.ndarray, bias: QuantisedConstant | None
) -> Weights:
    """``kernel`` (OC, ...) and its bias: integers added as they are, so their scale must be that of the product."""
    count = kernel.shape[0]
    if bias is None:
        return Weights(kernel, scales, np.zeros(count, np.int64))
    values = bias.values.reshape(-1)
    by_channel = bias.values.shape[-1:] == values.shape  # and not along another axis as long
    if values.dtype not in (np.int32, np.int64) or not (values.size == 1 or (by_channel and values.size == count)):
        raise Unsupported(f"a bias of {values.dtype}{bias.values.shape} for {count} channels")
    wanted = np.float32(x.scale) * scales.astype(np.float32)
    if not np.allclose(bias.scales.reshape(-1), wanted, rtol=1e-6, atol=0):
        raise Unsupported("a bias whose scale is not that of the product")
    return Weights(kernel, scales, np.broadcast_to(values.astype(np.int64), (count,)))


def _weight_ohwi(weight: QuantisedConstant, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """(int8 weight as (OC, KH, KW, IC/groups), scale per output channel)."""
    if weight.values.dtype != np.int8 or sorted(layout) != sorted("OHWI"):
        raise Unsupported(f"{weight.values.dtype} weights of layout {layout}")
    scales = weight.channel_scales(layout.index("O"))
    return np.ascontiguousarray(weight.values.transpose([layout.index(c) for c in "OHWI"])), scales


def lower_conv(site: Site) -> str:
    """dequantize(x), dequantize(w) -> conv2d [-> add bias] -> [activation] -> quantize."""
    tail = result(site)
    conv, bias = _bias_of(site, tail.inner, "relax.nn.conv2d")
    attrs = conv.attrs
    if str(attrs.data_layout) != "NHWC" or str(attrs.out_layout) != "NHWC":
        raise Unsupported(f"convolution from layout {attrs.data_layout} to {attrs.out_layout}")
    x = site.dequantised(conv.args[0])
    weight, scales = _weight_ohwi(site.constant(conv.args[1]), str(attrs.kernel_layout))
    return convolution(
        site,
        x,
        _weights_of(site, x, weight, scales, bias),
        tail,
        strides=compat.pair(attrs.strides),
        dilation=compat.pair(attrs.dilation),
        padding=compat.quad(attrs.padding),
        groups=int(attrs.groups),
    )


def lower_dense(site: Site) -> str:
    """dequantize(x), dequantize(w of (IC, OC)) -> matmul [-> add bias] -> [activation] -> quantize."""
    tail = result(site)
    matmul, bias = _bias_of(site, tail.inner, "relax.matmul")
    x = site.dequantised(matmul.args[0])
    weight = site.constant(matmul.args[1])
    if weight.values.ndim != 2 or weight.values.dtype != np.int8:
        raise Unsupported(f"a matrix product with {weight.values.dtype} weights of shape {weight.values.shape}")
    kernel = np.ascontiguousarray(weight.values.T)
    return dense(site, x, _weights_of(site, x, kernel, weight.channel_scales(1), bias), tail)


_CONV, _MATMUL = compat.is_op("relax.nn.conv2d"), compat.is_op("relax.matmul")

RULES = (
    Rule("tilewright.conv2d", results_of(*with_bias(lambda: _CONV(tensor(), constant()))), lower_conv),
    Rule("tilewright.dense", results_of(*with_bias(lambda: _MATMUL(tensor(), constant()))), lower_dense),
)
