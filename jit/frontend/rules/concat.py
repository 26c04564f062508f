"""Concatenation over channels; inputs with another scale than the output's are requantised."""

from __future__ import annotations

from tilewright.jit import compat
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.layers import elementwise
from tilewright.jit.frontend.rules.common import Rule, result, results_of, tensor
from tilewright.jit.frontend.site import Site

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
    return elementwise.concat(site, inputs, tail)


RULES = tuple(
    Rule(
        "tilewright.concat",
        results_of(compat.is_op("relax.concat")(compat.tuple_of(tensor() for _ in range(n)))),
        lower,
    )
    for n in range(2, _MAX_INPUTS + 1)
)
