"""int8 -> int8 functions of single elements, as tables of what LiteRT's own kernel gives for all 256 values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.elementwise import looked_up
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.site import Site
from tilewright.runtime import interpreters


def varying(site: Site) -> int:
    """The position of the only input that is no constant. Raises Unsupported unless all others are single numbers."""
    found = [k for k in range(len(site.op.inputs)) if not site.is_constant(k)]
    others = [site.tensor(k) for k in range(len(site.op.inputs)) if k not in found]
    if len(found) != 1:
        raise Unsupported(f"{len(found)} operands that vary")
    if any(np.prod(other.shape) != 1 for other in others):
        raise Unsupported("a constant operand of several numbers")
    return found[0]


def table(site: Site) -> str:
    """An operator of one tensor, or of a tensor and a constant number."""
    position = varying(site)
    if {site.tensor(position).dtype, site.result.dtype} - {"int8", "uint8"}:
        raise Unsupported(f"a table from {site.tensor(position).dtype} to {site.result.dtype}")
    return looked_up(site, site.pixels(position), site.output(), _measure(site, position))


def _measure(site: Site, position: int) -> NDArray[np.int8]:
    """The results for all int8 values, at the values modulo 256: the operator alone, run on them."""
    x = site.tensor(position)
    model = cut(site.file, [site.op.index], [x.index], [site.result.index], site.folded, {})
    run = interpreters.load("litert", model, site.name)
    values = np.arange(256, dtype=np.uint8)  # of int8, in two's complement
    given = values.view(np.int8) if x.dtype == "int8" else values ^ 128
    count = int(np.prod(x.shape))
    found = np.zeros(256, np.uint8)
    for first in range(0, 256, count):
        result = run([np.resize(np.roll(given, -first), count)])[0].reshape(-1).view(np.uint8)
        if len(result) != count:
            raise Unsupported(f"a result of {len(result)} elements from {count}")
        part = np.roll(values, -first)[: min(count, 256)]
        found[part] = result[: len(part)]
        if count >= 256 and (result != np.resize(result[:256], count)).any():
            raise Unsupported("results that depend on more than the element")
    return (found if site.result.dtype == "int8" else found ^ 128).view(np.int8)
