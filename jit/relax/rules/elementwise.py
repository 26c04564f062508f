"""Addition, concatenation, softmax, and changes of scale and range."""

from __future__ import annotations

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import elementwise, pairwise
from tilewright.jit.layers.builder import Operand, Output, Quantisation
from tilewright.jit.relax import compat
from tilewright.jit.relax.rules.common import Rule, clip, integer_clip, quantize, result, results_of, tensor
from tilewright.jit.relax.site import Site

_MAX_INPUTS = 8  #: of a concatenation


def lower_add(site: Site) -> str:
    """dequantize(a), dequantize(b) -> add -> [activation] -> quantize."""
    tail = result(site)
    a, b = (site.dequantised(arg) for arg in compat.arguments(tail.inner)[:2])
    if a.shape != b.shape:
        raise Unsupported(f"addition with broadcasting ({a.shape} and {b.shape})")
    return pairwise.add(site, a, b, tail, unsigned=compat.dtype(site.root) == "uint8")


def lower_concat(site: Site) -> str:
    """(dequantize(x), ...) -> concat over the last axis -> [activation] -> quantize; other scales are requantised."""
    tail = result(site)
    concat = site.value(tail.inner)
    shape = compat.shape(concat)
    axis = concat.attrs.axis
    if axis is None or int(axis) % len(shape) != len(shape) - 1:
        raise Unsupported("concatenation over an axis other than the channels")
    inputs = [site.dequantised(field) for field in compat.fields(site.argument(concat))]
    return elementwise.concat(site, inputs, tail)


def lower_softmax(site: Site) -> str:
    """dequantize(x) -> softmax -> quantize to scale 1/256, zero point -128: TFLite's integer softmax, on the host."""
    out = site.output_quantisation(site.root)
    softmax = site.argument(site.root)
    x = site.dequantised(softmax.args[0])
    rank = len(compat.shape(softmax))
    if int(softmax.attrs.axis) % rank != rank - 1:
        raise Unsupported("softmax over an axis other than the last")
    return elementwise.softmax(site, x, out)


def lower_requantize(site: Site) -> str:
    """QUANTIZE of integers, ReLU, ReLU6: dequantize -> [activation] -> quantize.

    Nothing at all where neither scale nor range changes.
    """
    tail = result(site)
    return elementwise.requantize(site, site.dequantised(tail.inner), tail)


def lower_integer_clip(site: Site) -> str:
    """clip on integers that no other composite claimed."""
    inner, lo, hi = integer_clip(site, site.root)
    x = site.tensor(inner)
    like = Quantisation(1.0, 0)
    return elementwise.requantize(site, Operand(x.name, x.shape, like), Output(like, lo, hi))


_CONCAT = compat.is_op("relax.concat")

RULES = (
    Rule("tilewright.add", results_of(compat.is_op("relax.add")(tensor(), tensor())), lower_add),
    *(
        Rule("tilewright.concat", results_of(_CONCAT(compat.tuple_of(tensor() for _ in range(n)))), lower_concat)
        for n in range(2, _MAX_INPUTS + 1)
    ),
    Rule("tilewright.softmax", (quantize(compat.is_op("relax.nn.softmax")(tensor())),), lower_softmax),
)
#: for what no other rule has claimed
LAST = (
    Rule("tilewright.requantize", results_of(tensor()), lower_requantize),
    Rule("tilewright.clip", (clip(compat.wildcard()),), lower_integer_clip),
)
