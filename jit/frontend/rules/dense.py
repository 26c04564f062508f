"""Fully connected layers and matrix products with a constant: 1x1 convolutions."""

from __future__ import annotations

import numpy as np

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.layers.weighted import dense
from tilewright.jit.frontend.rules.common import Rule, constant, result, results_of, tensor, with_bias
from tilewright.jit.frontend.rules.conv import bias_of, weights_of
from tilewright.jit.frontend.site import Site


def lower(site: Site) -> str:
    """dequantize(x), dequantize(w of (IC, OC)) -> matmul [-> add bias] -> [activation] -> quantize."""
    tail = result(site)
    matmul, bias = bias_of(site, tail.inner, "relax.matmul")
    x = site.dequantised(matmul.args[0])
    weight = site.constant(matmul.args[1])
    if weight.values.ndim != 2 or weight.values.dtype != np.int8:
        raise Unsupported(f"a matrix product with {weight.values.dtype} weights of shape {weight.values.shape}")
    kernel = np.ascontiguousarray(weight.values.T)
    return dense(site, x, weights_of(site, x, kernel, weight.channel_scales(1), bias), tail)


_MATMUL = compat.is_op("relax.matmul")

RULES = (
    Rule(
        "tilewright.dense",
        results_of(*with_bias(lambda: _MATMUL(tensor(), constant()))),
        lower,
    ),
)
