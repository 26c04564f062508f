"""Operators on images, of a tensor that holds several of them: each by itself, and the results one below the other.

A batch of the whole network is taken apart beforehand (:mod:`~tilewright.jit.source.tflite.batch`); this is for those
that a network makes itself, of crops or of stretches of time, and those that it looks across.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Operand, Output
from tilewright.jit.layers.moves import choose, join
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import Rearranged, View

Made = str | View | Rearranged  #: a result: in a tensor of the graph, or as it lies in one
Rule = Callable[[Site], str | Sequence[Made]]
_MOST = 16  #: images of a tensor that are taken one by one: each is a layer with its share of the instructions


def by_image(site: Site, rule: Rule) -> Made | None:
    """The operator's result, made of each image by itself; None where it does not read several.

    Raises Unsupported where there are too many, and what ``rule`` raises.
    """
    row = tflite_row(site.op.kind)
    at = row.operands.index("x")
    if not row.by_image or len(site.tensor(at).shape) != 4 or site.tensor(at).shape[0] == 1:
        return None
    whole, count = site.pixels(at), site.tensor(at).shape[0]
    if count > _MOST:
        raise Unsupported(f"{count} images in one tensor, at most {_MOST} are taken one by one")
    height, exactness = whole.shape[1] // count, site.builder.exactness
    columns, channels = (np.arange(n) for n in whole.shape[2:])
    parts: list[Operand] = []
    for image in range(count):
        rows = np.arange(image * height, (image + 1) * height)
        said = len(exactness)
        (made,) = listed(rule(replace(site, image=choose(site, whole, rows, columns, channels))))
        name = made if isinstance(made, str) else made.tensor
        parts.append(Operand(name, site.builder.tensors[name].shape, site.result.quantisation()))
        if image:  # the same is known of each
            del exactness[said:]
    said = len(exactness)
    joined = join(site, parts, 1, Output(site.result.quantisation()))
    del exactness[said:]
    return site.in_order(joined)


def listed(made: str | Sequence[Made]) -> Sequence[Made]:
    """What a rule gave, result by result."""
    return [made] if isinstance(made, str) else made
