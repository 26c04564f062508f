"""Operators that hand elements on to other places: parts, arrangements, borders that mirror, joins of images.

LiteRT's kernel is asked where each element comes from. Rows, columns and channels that are chosen each by themselves,
and blocks of pixels that become channels or come of them, have a form on the accelerator. A TRANSPOSE is a view
(:class:`~tilewright.jit.source.values.View`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Operand, stacked
from tilewright.jit.layers.moves import Positions, by_axis, choose, join, joined, moved
from tilewright.jit.source.boxes import asked, hold_box
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import Rearranged, View
from tilewright.runtime import interpreters


def transpose(site: Site) -> Sequence[str | View | Rearranged]:
    """TRANSPOSE: on the host, unless what reads it can do without"""
    site.same_kind(0)
    source = site.tensor(0)
    rank = len(source.shape)
    given = [int(a) for a in site.constant(1).reshape(-1)]
    if sorted(given) != list(range(rank)):
        raise Unsupported(f"axes in the order {given} of shape {source.shape}")
    result = site.values.specs[site.result.index]
    if source.index in site.values.rearranged or not (
        site.values.specs[source.index].has_image() and result.has_image()
    ):
        return rearranged(site, tuple(given))
    view, ones = site.values.view(source.index), 4 - rank
    order = (*range(ones), *(a + ones for a in given))
    axes = tuple(view.axes[a] for a in order)
    site.report_exact(source.shape[-1])
    return [View(view.tensor, (axes[0], axes[1], axes[2], axes[3]))]


def rearranged(site: Site, permutation: tuple[int, ...] | None = None) -> Sequence[str | View | Rearranged]:
    """A step, a transpose or else a reshape, of a chain through tensors of more axes than an image has.

    Where its end is a choice of channels (a shuffle, say), that is what runs; what is read in between, and other ends,
    the host makes.
    """
    values, before, result = site.values, site.tensor(0).index, site.result.index
    if before not in values.rearranged:
        values.stack(before)  # a view becomes a tensor of its own
    found = values.arrangement(result, before, permutation)
    x = Operand(found.tensor, values.builder.tensors[found.tensor].shape, values.builder.quantisation(found.tensor))
    site.report_exact(x.shape[3])
    chosen = by_axis(x, found.positions.reshape(stacked(values.specs[result].shape)))
    if chosen is None:
        return [found]
    return [choose(site, x, *chosen).name]


# -- parts and arrangements of one tensor ------------------------------------------------------------------


def take(site: Site) -> Sequence[str | View | Rearranged]:
    """An operator whose results are elements of its operand ``x``, at places that follow from constants."""
    at = tflite_row(site.op.kind).operands.index("x")
    tensor, results = site.tensor(at), [site.file.tensors[t] for t in site.op.outputs]
    if {tensor.dtype, *(t.dtype for t in results)} not in ({"int8"}, {"uint8"}):
        raise Unsupported(f"a tensor of type {tensor.dtype or 'unknown'}")
    x = site.pixels(at)
    for position in range(len(site.op.inputs)):
        if position != at:
            site.constant(position)
    found = _places(site, [at])
    site.report_exact(x.shape[3])
    shapes = [site.values.held_shape(t.index) for t in results]
    return [_held(site, t.index, x, p, s) for t, p, s in zip(results, found, shapes, strict=True)]


def _held(site: Site, key: int, x: Operand, positions: Positions, shape: tuple[int, ...]) -> View | Rearranged:
    """A result, of whatever shape, whose elements are those of ``x`` at ``positions``; ``shape``: as it is held."""
    try:
        return View(*moved(site, x, positions.reshape(shape)))
    except Unsupported as error:
        try:
            hold_box(site, site.values, key, x, positions)
        except Unsupported:
            raise error from None
        return site.values.taken(key)


def pack(site: Site) -> Sequence[View]:
    """PACK along any axis"""
    inputs = range(len(site.op.inputs))
    site.same_kind(*inputs)
    out, shape = site.output(), site.tensor(0).shape
    axis = site.option("axis") % (len(shape) + 1)
    tensors = [site.either(k) for k in inputs]
    if any(x.quantisation != out.quantisation for x in tensors):
        raise Unsupported("a pack of tensors with scales of their own")
    count = int(np.prod(shape))
    order = list(dict.fromkeys(site.op.inputs))
    wanted = [np.arange(count).reshape(shape) + order.index(index) * count for index in site.op.inputs]
    if (_places(site, inputs)[0] != np.stack(wanted, axis)).any():
        raise Unsupported("elements that go to other places than is known of LiteRT's kernel")
    one = (*shape[:axis], 1, *shape[axis:])
    found = [moved(site, x, np.arange(count).reshape(stacked(one))) for x in tensors]
    first, axes = found[0]
    site.report_exact(stacked(one)[3])
    parts = [Operand(name, site.builder.tensors[first].shape, out.quantisation) for name, _ in found]
    place = axis + 3 - len(shape)
    if place < 2 and axes == (0, 1, 2, 3):
        return [View(joined(site, parts, [one] * len(parts), axis, out).name, axes)]
    if place < 1:
        raise Unsupported("a pack of parts that lie in another order")
    return [View(join(site, parts, axes[place], out), axes)]


def _places(site: Site, read: Sequence[int]) -> list[Positions]:
    """Where LiteRT's kernel has the elements of its results from, counted through the tensors at ``read``."""
    tensors = [site.tensor(at) for at in read]
    given = {t.index: t for t in tensors}
    model = cut(site.file, [site.op.index], [*given], site.op.outputs, site.folded, {})
    run, sizes = interpreters.load("litert", model, site.name), [int(np.prod(t.shape)) for t in given.values()]

    def through(values: NDArray[np.uint8]) -> list[NDArray[Any]]:
        parts = zip(np.split(values, np.cumsum(sizes)[:-1]), given.values(), strict=True)
        return [result.view(np.uint8) for result in run([part.view(t.dtype).reshape(t.shape) for part, t in parts])]

    found = asked(through, sum(sizes))
    if any((places < 0).any() for places in found):
        raise Unsupported("elements that LiteRT's kernel writes itself")
    return found
