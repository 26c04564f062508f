"""Operators that hand elements on to other places: parts, arrangements, borders that mirror, joins of images.

Each is a function of NumPy arrays, here of arrays of positions; what comes out is compared with LiteRT's kernel. Rows,
columns and channels that are chosen each by themselves, and blocks of pixels that become channels or come of them,
have a form on the accelerator. A TRANSPOSE is a view (:class:`~tilewright.jit.source.values.View`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.builder import Operand, nhwc
from tilewright.jit.frontend.layers.pairwise import extreme
from tilewright.jit.graph import Conv2D, Maximum, Op, Pad, Resample, Reshape, Slice
from tilewright.jit.numbers import identity_requant
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import Rearranged, View
from tilewright.runtime import interpreters

Positions = NDArray[np.int64]
_TRIALS = 2


def transpose(site: Site) -> Sequence[str | View | Rearranged]:
    """TRANSPOSE: on the host, unless what reads it can do without"""
    site.same_kind(0)
    source = site.tensor(0)
    rank = len(source.shape)
    given = [int(a) for a in site.constant(1).reshape(-1)]
    if sorted(given) != list(range(rank)):
        raise Unsupported(f"axes in the order {given} of shape {source.shape}")
    if rank > 4 or source.index in site.values.rearranged:
        return rearranged(site, tuple(given))
    view, ones = site.values.view(source.index), 4 - rank
    order = (*range(ones), *(a + ones for a in given))
    axes = tuple(view.axes[a] for a in order)
    if site.builder.tensors[view.tensor].shape[axes[0]] != 1:
        raise Unsupported("a transpose that makes a batch")
    site.report_exact(source.shape[-1])
    return [View(view.tensor, (axes[0], axes[1], axes[2], axes[3]))]


def rearranged(site: Site, permutation: tuple[int, ...] | None = None) -> Sequence[str | View | Rearranged]:
    """A step, a transpose or else a reshape, of a chain through tensors of more axes than an image has.

    Where its end is a choice of channels (a shuffle, say), that is what runs; what is read in between, and other ends,
    the host makes.
    """
    values, before, result = site.values, site.tensor(0).index, site.result.index
    if before not in values.rearranged:
        values.chip(before)  # a view becomes a tensor of its own
    found = values.arrangement(result, before, permutation)
    x = Operand(found.tensor, values.builder.tensors[found.tensor].shape, values.builder.quantisation(found.tensor))
    site.report_exact(x.shape[3])
    try:
        chosen = _by_axis(x, found.positions.reshape(nhwc(values.specs[result].shape)))
    except Unsupported:  # more axes than an image has
        chosen = None
    if chosen is None:
        return [found]
    return [_chosen_channels(site, _chosen_pixels(site, x, *chosen[:2]), chosen[2]).name]


# -- parts and arrangements of one tensor ------------------------------------------------------------------


def _split(site: Site, x: Positions) -> list[Positions]:
    return np.split(x, site.option("numSplits"), int(site.constant(0).reshape(())))


def _split_v(site: Site, x: Positions) -> list[Positions]:
    sizes = site.constant(1).reshape(-1).astype(np.int64)
    axis = int(site.constant(2).reshape(()))
    sizes = np.where(sizes < 0, x.shape[axis] - sizes[sizes >= 0].sum(), sizes)
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _slice(site: Site, x: Positions) -> list[Positions]:
    begin, size = (site.constant(k).reshape(-1).tolist() for k in (1, 2))
    return [x[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))]]


def _strided_slice(site: Site, x: Positions) -> list[Positions]:
    begin, end, strides = (site.constant(k).reshape(-1).tolist() for k in (1, 2, 3))
    masks = [site.option(name) for name in ("beginMask", "endMask", "shrinkAxisMask")]
    if site.option("ellipsisMask") or site.option("newAxisMask"):
        raise Unsupported("a slice with axes left out or added")
    parts: list[slice | int] = []
    for k, (b, e, s) in enumerate(zip(begin, end, strides, strict=True)):
        no_begin, no_end, single = (mask >> k & 1 for mask in masks)
        parts.append(b if single else slice(None if no_begin else b, None if no_end else e, s))
    return [x[tuple(parts)]]


def _unpack(site: Site, x: Positions) -> list[Positions]:
    axis = site.option("axis")
    return [np.take(x, k, axis) for k in range(x.shape[axis])]


def _gather(site: Site, x: Positions) -> list[Positions]:
    if site.option("batchDims"):
        raise Unsupported("a gather by batch")
    return [np.take(x, site.constant(1).astype(np.int64), site.option("axis"))]


def _mirror_pad(site: Site, x: Positions) -> list[Positions]:
    return [np.pad(x, site.constant(1).astype(np.int64), mode="symmetric" if site.option("mode") else "reflect")]


def _reverse(site: Site, x: Positions) -> list[Positions]:
    return [np.flip(x, tuple(site.constant(1).reshape(-1).tolist()))]


def _tile(site: Site, x: Positions) -> list[Positions]:
    return [np.tile(x, site.constant(1).reshape(-1).tolist())]


def _broadcast(site: Site, x: Positions) -> list[Positions]:
    return [np.broadcast_to(x, tuple(site.constant(1).reshape(-1).tolist()))]


def _space_to_depth(site: Site, x: Positions) -> list[Positions]:
    n, h, w, c = x.shape
    b = site.option("blockSize")
    return [x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, -1)]


def _depth_to_space(site: Site, x: Positions) -> list[Positions]:
    n, h, w, c = x.shape
    b = site.option("blockSize")
    return [x.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, -1)]


def _moving(
    positions: Callable[[Site, Positions], list[Positions]], at: int, doc: str
) -> Callable[[Site], Sequence[str | View]]:
    """The rule of an operator that moves the elements of operand ``at``."""

    def rule(site: Site) -> Sequence[str | View]:
        tensor, results = site.tensor(at), [site.file.tensors[t] for t in site.op.outputs]
        if {tensor.dtype, *(t.dtype for t in results)} not in ({"int8"}, {"uint8"}):
            raise Unsupported(f"a tensor of type {tensor.dtype or 'unknown'}")
        x = site.operand(at)
        found = positions(site, np.arange(int(np.prod(tensor.shape))).reshape(tensor.shape))
        _compare(site, at, found)
        site.report_exact(x.shape[3])
        shapes = [site.values.specs[t.index].chip_shape() for t in results]
        return [_moved(site, x, p.reshape(shape)) for p, shape in zip(found, shapes, strict=True)]

    rule.__doc__ = doc
    return rule


def _compare(site: Site, at: int, found: list[Positions]) -> None:
    """Raises Unsupported unless LiteRT's kernel moves some tensors in the same way."""
    tensor = site.tensor(at)
    model = cut(site.file, [site.op.index], [tensor.index], site.op.outputs, site.folded, {})
    run, rng = interpreters.load("litert", model, site.name), np.random.default_rng(0)
    for _ in range(_TRIALS):
        x = rng.integers(0, 256, tensor.shape).astype(np.uint8)
        for positions, result in zip(found, run([x.view(tensor.dtype)]), strict=True):
            if positions.shape != result.shape or (x.reshape(-1)[positions] != result.view(np.uint8)).any():
                raise Unsupported("elements that go to other places than is known of LiteRT's kernel")


def _append(site: Site, kind: type[Op], x: Operand, result: tuple[int, ...], **fields: object) -> Operand:
    name = site.emit(kind, [x.name], result, x.quantisation, **fields)
    return Operand(name, result, x.quantisation)


def _moved(site: Site, x: Operand, positions: Positions) -> str | View:
    """The tensor whose elements are those of ``x`` at ``positions`` (1, H, W, C)."""
    for order in permutations((1, 2, 3)):  # of the result's axes, those that go along the rows of x first
        chosen = _by_axis(x, positions.transpose(0, *order))
        if chosen is not None:
            rows, columns, channels = chosen
            part = _chosen_channels(site, _chosen_pixels(site, x, rows, columns), channels)
            axes = (0, *(1 + order.index(axis) for axis in (1, 2, 3)))
            return View(part.name, (axes[0], axes[1], axes[2], axes[3]))
    places = np.unravel_index(positions[0], x.shape[1:])
    if int(np.prod(positions.shape)) == int(np.prod(x.shape)) and (np.diff(positions.reshape(-1)) == 1).all():
        return _append(site, Reshape, x, positions.shape, shape=positions.shape).name
    return _windows(site, x, places)


def _by_axis(x: Operand, positions: Positions) -> tuple[Positions, Positions, Positions] | None:
    """The rows, columns and channels of ``x`` that a result has, if it has each by itself."""
    places = np.unravel_index(positions[0], x.shape[1:])
    rows, columns, channels = places[0][:, 0, 0], places[1][0, :, 0], places[2][0, 0, :]
    alone = (rows[:, None, None], columns[None, :, None], channels[None, None, :])
    if all((place == axis).all() for place, axis in zip(places, alone, strict=True)):
        return rows, columns, channels
    return None


def _chosen_pixels(site: Site, x: Operand, rows: Positions, columns: Positions) -> Operand:
    """Rows and columns, in order and at even distances or not."""
    apart = [np.unique(np.diff(places)) for places in (rows, columns)]
    steps = [int(a[0]) if len(a) == 1 else int(len(a) == 0) for a in apart]  # 0 where there is none
    shape = (1, len(rows), len(columns), x.shape[3])
    if shape == x.shape and steps == [1, 1]:
        return x
    if min(steps) > 0:
        begin, count = (int(rows[0]), int(columns[0])), (len(rows), len(columns))
        return _append(site, Slice, x, shape, begin=begin, size=count, strides=(steps[0], steps[1]))
    matrices = []
    for places, size in ((rows, x.shape[1]), (columns, x.shape[2])):
        matrices.append(np.zeros((len(places), size), np.int32))
        matrices[-1][np.arange(len(places)), places] = 1
    requant = identity_requant(x.shape[3])
    return _append(site, Resample, x, shape, rows=matrices[0], columns=matrices[1], offset=0, requant=requant)


def _chosen_channels(site: Site, x: Operand, channels: Positions) -> Operand:
    """Channels, by a convolution with a single weight of 1 for each."""
    count = len(channels)
    if count == x.shape[3] and (channels == np.arange(count)).all():
        return x
    weight = np.zeros((count, 1, 1, x.shape[3]), np.int8)
    weight[np.arange(count), 0, 0, channels] = 1
    return _append(site, Conv2D, x, (*x.shape[:3], count), weight=weight, requant=identity_requant(count))


def _windows(site: Site, x: Operand, places: tuple[Positions, ...]) -> str:
    """Pixels of a block that become channels, or channels that become the pixels of a block."""
    shape = (1, *places[0].shape)
    if all(shape[k] <= x.shape[k] and x.shape[k] % shape[k] == 0 for k in (1, 2)):
        strides = x.shape[1] // shape[1], x.shape[2] // shape[2]
        dy, dx, c = (place[0, 0, :] for place in places)
        y, across = np.arange(shape[1])[:, None, None], np.arange(shape[2])[None, :, None]
        wanted = y * strides[0] + dy, across * strides[1] + dx, c
        inside = dy.max() < strides[0] and dx.max() < strides[1]
        if inside and all((place == there).all() for place, there in zip(places, wanted, strict=True)):
            weight = np.zeros((shape[3], *strides, x.shape[3]), np.int8)
            weight[np.arange(shape[3]), dy, dx, c] = 1
            return _append(
                site, Conv2D, x, shape, weight=weight, requant=identity_requant(shape[3]), strides=strides
            ).name  # fmt: skip
    if all(shape[k] % x.shape[k] == 0 for k in (1, 2)):
        return _blocks(site, x, places, (shape[1] // x.shape[1], shape[2] // x.shape[2]))
    raise Unsupported("elements that move between pixels and channels")


def _blocks(site: Site, x: Operand, places: tuple[Positions, ...], block: tuple[int, int]) -> str:
    """Channels of a pixel that become a block of pixels: the image spread out with zeros, under a kernel of ones."""
    shape = (1, *places[0].shape)
    source = places[2][: block[0], : block[1], :]
    rows, columns = np.arange(shape[1]), np.arange(shape[2])
    wanted = (
        (rows // block[0])[:, None, None], (columns // block[1])[None, :, None],
        source[(rows % block[0])[:, None], (columns % block[1])[None, :]],
    )  # fmt: skip
    if not all((place == there).all() for place, there in zip(places, wanted, strict=True)):
        raise Unsupported("elements that move between pixels and channels")
    matrices = []
    for size, step in zip(x.shape[1:3], block, strict=True):
        matrices.append(np.zeros((size * step, size), np.int32))
        matrices[-1][np.arange(size) * step, np.arange(size)] = 1
    spread = _append(
        site, Resample, x, (1, *shape[1:3], x.shape[3]), rows=matrices[0], columns=matrices[1], offset=0,
        requant=identity_requant(x.shape[3]),
    )  # fmt: skip
    weight = np.zeros((shape[3], *block, x.shape[3]), np.int8)
    for dy, dx in np.ndindex(*block):
        weight[np.arange(shape[3]), block[0] - 1 - dy, block[1] - 1 - dx, source[dy, dx]] = 1
    return _append(
        site, Conv2D, spread, shape, weight=weight, requant=identity_requant(shape[3]),
        padding=(block[0] - 1, block[1] - 1, 0, 0), pad_value=0,
    ).name  # fmt: skip


# -- joins -------------------------------------------------------------------------------------------------


def join(site: Site, inputs: list[Operand], axis: int) -> str:
    """Images one below the other (``axis`` 1) or side by side (2): each padded to the whole with the least value, and
    the greatest of them."""
    out, first = site.output(), 0
    whole = list(inputs[0].shape)
    whole[axis] = sum(x.shape[axis] for x in inputs)
    found: Operand | None = None
    for x in inputs:
        padding = [0, 0, 0, 0]
        padding[axis - 1], padding[axis + 1] = first, whole[axis] - first - x.shape[axis]
        first += x.shape[axis]
        part = _append(site, Pad, x, tuple(whole), padding=tuple(padding), pad_value=-128)
        if found is None:
            found = part
        else:
            found = Operand(extreme(site, Maximum, found, part, out), tuple(whole), out.quantisation)
    assert found is not None
    return found.name


RULES: dict[str, Callable[[Site], Sequence[str | View | Rearranged]]] = {
    "BROADCAST_TO": _moving(_broadcast, 0, "BROADCAST_TO of rows, columns and channels"),
    "DEPTH_TO_SPACE": _moving(_depth_to_space, 0, "DEPTH_TO_SPACE: the image spread with zeros, under a kernel"),
    "GATHER": _moving(_gather, 0, "GATHER of constant rows, columns or channels"),
    "MIRROR_PAD": _moving(_mirror_pad, 0, "MIRROR_PAD, by resampling"),
    "REVERSE_V2": _moving(_reverse, 0, "REVERSE_V2 of rows, columns and channels"),
    "SLICE": _moving(_slice, 0, "SLICE of rows, columns and channels"),
    "SPACE_TO_DEPTH": _moving(_space_to_depth, 0, "SPACE_TO_DEPTH, as a convolution"),
    "SPLIT": _moving(_split, 1, "SPLIT of rows, columns or channels"),
    "SPLIT_V": _moving(_split_v, 0, "SPLIT_V of rows, columns or channels"),
    "STRIDED_SLICE": _moving(_strided_slice, 0, "STRIDED_SLICE of rows, columns and channels"),
    "TILE": _moving(_tile, 0, "TILE of rows, columns and channels"),
    "TRANSPOSE": transpose,
    "UNPACK": _moving(_unpack, 0, "UNPACK of rows, columns or channels"),
}
