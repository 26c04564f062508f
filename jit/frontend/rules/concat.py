"""Concatenation over channels; inputs with another scale than the output's are requantised."""

from __future__ import annotations

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.frontend.rules.common import Rule, result, results_of, tensor
from tilewright.jit.frontend.rules.requantize import element_wise
from tilewright.jit.frontend.site import LITERT, Site
from tilewright.jit.graph import Concat

_MAX_INPUTS = 8


def lower(site: Site) -> str:
    """(dequantize(x), ...) -> concat over the last axis -> [activation] -> quantize."""
    tail = result(site)
    concat = site.value(tail.inner)
    shape = compat.shape(concat)
    axis = concat.attrs.axis
    if axis is None or int(axis) % len(shape) != len(shape) - 1:
        raise Unsupported("concatenation over an axis other than the channels")
    inputs = [site.dequantised(field) for field in compat.fields(site.argument(concat))]
    parts = []
    for x in inputs:
        same = x.quantisation == tail.quantisation and (tail.lo, tail.hi) == (-128, 127)
        parts.append(None if same else element_wise(site, x, tail))
    channels = sum(x.shape[3] for x in inputs)
    if site.semantics == LITERT:
        site.builder.exactness.append(LayerExactness(site.name, site.semantics, channels, channels))
    out_shape = (*inputs[0].shape[:3], channels)
    return site.emit(Concat, [x.name for x in inputs], out_shape, tail.quantisation, parts=parts)


RULES = tuple(
    Rule(
        "tilewright.concat",
        results_of(compat.is_op("relax.concat")(compat.tuple_of(tensor() for _ in range(n)))),
        lower,
    )
    for n in range(2, _MAX_INPUTS + 1)
)
