"""Operators that hand elements on to other places: parts, arrangements, borders that mirror, joins of images.

Each is a function of NumPy arrays, here of arrays of positions; what comes out is compared with LiteRT's kernel. Rows,
columns and channels that are chosen each by themselves, and blocks of pixels that become channels or come of them,
have a form on the accelerator. A TRANSPOSE is a view (:class:`~tilewright.jit.source.values.View`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Operand, stacked
from tilewright.jit.layers.moves import Positions, by_axis, choose, join, joined, moved
from tilewright.jit.source.boxes import hold_box
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import Rearranged, View
from tilewright.runtime import interpreters

_TRIALS = 2


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


def _moving(
    positions: Callable[[Site, Positions], list[Positions]],
) -> Callable[[Site], Sequence[str | View | Rearranged]]:
    """The rule of an operator that moves the elements of its operand ``x``: ``positions`` moves an array of them."""

    @functools.wraps(positions)
    def rule(site: Site) -> Sequence[str | View | Rearranged]:
        at = tflite_row(site.op.kind).operands.index("x")
        tensor, results = site.tensor(at), [site.file.tensors[t] for t in site.op.outputs]
        if {tensor.dtype, *(t.dtype for t in results)} not in ({"int8"}, {"uint8"}):
            raise Unsupported(f"a tensor of type {tensor.dtype or 'unknown'}")
        x = site.pixels(at)
        found = positions(site, np.arange(int(np.prod(tensor.shape))).reshape(tensor.shape))
        _compare(site, [at], found)
        site.report_exact(x.shape[3])
        shapes = [site.values.held_shape(t.index) for t in results]
        return [_held(site, t.index, x, p, s) for t, p, s in zip(results, found, shapes, strict=True)]

    return rule


@_moving
def split(site: Site, x: Positions) -> list[Positions]:
    """SPLIT along any axis"""
    return np.split(x, site.option("numSplits"), int(site.constant(0).reshape(())))


@_moving
def split_v(site: Site, x: Positions) -> list[Positions]:
    """SPLIT_V along any axis"""
    sizes = site.constant(1).reshape(-1).astype(np.int64)
    axis = int(site.constant(2).reshape(()))
    sizes = np.where(sizes < 0, x.shape[axis] - sizes[sizes >= 0].sum(), sizes)
    return np.split(x, np.cumsum(sizes)[:-1], axis)


@_moving
def slice_(site: Site, x: Positions) -> list[Positions]:
    """SLICE along any axes"""
    begin, size = (site.constant(k).reshape(-1).tolist() for k in (1, 2))
    return [x[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))]]


@_moving
def strided_slice(site: Site, x: Positions) -> list[Positions]:
    """STRIDED_SLICE along any axes"""
    begin, end, strides = (site.constant(k).reshape(-1).tolist() for k in (1, 2, 3))
    names = ("beginMask", "endMask", "shrinkAxisMask", "newAxisMask", "ellipsisMask")
    masks = [site.option(name) for name in names]
    parts: list[Any] = []
    for k, (b, e, s) in enumerate(zip(begin, end, strides, strict=True)):
        no_begin, no_end, single, new, rest = (mask >> k & 1 for mask in masks)
        taken = b if single else slice(None if no_begin else b, None if no_end else e, s)
        parts.append(Ellipsis if rest else None if new else taken)
    return [x[tuple(parts)]]


@_moving
def unpack(site: Site, x: Positions) -> list[Positions]:
    """UNPACK along any axis"""
    axis = site.option("axis")
    return [np.take(x, k, axis) for k in range(x.shape[axis])]


@_moving
def gather(site: Site, x: Positions) -> list[Positions]:
    """GATHER by constant indices along any axis"""
    if site.option("batchDims"):
        raise Unsupported("a gather by batch")
    indices, axis = site.constant(1).astype(np.int64), site.option("axis")
    size = x.shape[axis]
    if np.any((indices < -size) | (indices >= size)):
        raise Unsupported(f"indices beyond the {size} elements of axis {axis}")
    return [np.take(x, indices, axis)]


@_moving
def mirror_pad(site: Site, x: Positions) -> list[Positions]:
    """MIRROR_PAD, by resampling"""
    return [np.pad(x, site.constant(1).astype(np.int64), mode="symmetric" if site.option("mode") else "reflect")]


@_moving
def reverse(site: Site, x: Positions) -> list[Positions]:
    """REVERSE_V2 along any axes"""
    return [np.flip(x, tuple(site.constant(1).reshape(-1).tolist()))]


@_moving
def tile(site: Site, x: Positions) -> list[Positions]:
    """TILE along any axes"""
    return [np.tile(x, site.constant(1).reshape(-1).tolist())]


@_moving
def broadcast_to(site: Site, x: Positions) -> list[Positions]:
    """BROADCAST_TO along any axes"""
    return [np.broadcast_to(x, tuple(site.constant(1).reshape(-1).tolist()))]


@_moving
def space_to_depth(site: Site, x: Positions) -> list[Positions]:
    """SPACE_TO_DEPTH, as a convolution"""
    n, h, w, c = x.shape
    b = site.option("blockSize")
    return [x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, -1)]


@_moving
def depth_to_space(site: Site, x: Positions) -> list[Positions]:
    """DEPTH_TO_SPACE: a transposed convolution that chooses channels"""
    n, h, w, c = x.shape
    b = site.option("blockSize")
    return [x.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, -1)]


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
    _compare(site, [*inputs], [np.stack([np.arange(count).reshape(shape) + k * count for k in inputs], axis)])
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


def _compare(site: Site, read: list[int], found: list[Positions]) -> None:
    """Raises Unsupported unless LiteRT's kernel moves the elements of some tensors in these places."""
    tensors = [site.tensor(at) for at in read]
    given = list({t.index: t for t in tensors}.values())
    model = cut(site.file, [site.op.index], [t.index for t in given], site.op.outputs, site.folded, {})
    run, rng = interpreters.load("litert", model, site.name), np.random.default_rng(0)
    for _ in range(_TRIALS):
        values = {t.index: rng.integers(0, 256, t.shape).astype(np.uint8) for t in given}
        x = np.concatenate([values[t.index].reshape(-1) for t in tensors])
        for positions, result in zip(found, run([values[t.index].view(t.dtype) for t in given]), strict=True):
            if positions.shape != result.shape or (x[positions] != result.view(np.uint8)).any():
                raise Unsupported("elements that go to other places than is known of LiteRT's kernel")
