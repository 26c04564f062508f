"""Images whose elements are others' elsewhere: parts, arrangements, borders, joins.

What goes where is an array of positions. Rows, columns and channels that are chosen each by themselves, and blocks of
pixels that become channels or come of them, have a form on the accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Concat, Conv2D, Maximum, Op, Pad, Resample, Reshape, Slice
from tilewright.jit.layers.builder import Layer, Operand, Output
from tilewright.jit.layers.pairwise import extreme
from tilewright.jit.lower.dense_weights import MOST_WRITTEN_OUT
from tilewright.jit.numbers.scales import identity_requant
from tilewright.jit.sampling import Sampling

Positions = NDArray[np.int64]
Axes = tuple[int, int, int, int]
_INT8 = np.iinfo(np.int8)


def _append(layer: Layer, kind: type[Op], x: Operand, result: tuple[int, ...], **fields: object) -> Operand:
    name = layer.emit(kind, [x.name], result, x.quantisation, **fields)
    return Operand(name, result, x.quantisation)


def moved(layer: Layer, x: Operand, positions: Positions, fill: int = 0) -> tuple[str, Axes]:
    """(tensor, axes): its axes in this order are the image whose elements are those of ``x`` at ``positions``.

    ``positions``: (1, H, W, C), -1 where the int8 ``fill`` stands. Raises Unsupported where that has no form.
    """
    for order in permutations((1, 2, 3)):  # of the result's axes, those that go along the rows of x first
        chosen = by_axis(x, positions.transpose(0, *order))
        if chosen is not None:
            part = choose(layer, x, *chosen, fill)
            axes = (0, *(1 + order.index(axis) for axis in (1, 2, 3)))
            return part.name, (axes[0], axes[1], axes[2], axes[3])
    if (positions < 0).any():
        raise Unsupported("elements that move between pixels and channels, among others")
    places = coordinates(positions[0], x.shape[1:])
    if int(np.prod(positions.shape)) == int(np.prod(x.shape)) and (np.diff(positions.reshape(-1)) == 1).all():
        return _append(layer, Reshape, x, positions.shape, shape=positions.shape).name, (0, 1, 2, 3)
    return _windows(layer, x, places), (0, 1, 2, 3)


def coordinates(positions: Positions, shape: tuple[int, ...]) -> tuple[Positions, ...]:
    """The row, column and channel of each of ``positions`` in an image of a shape (H, W, C).

    Of all in one row: NumPy 2.4 gives others past the 8,192nd where the last axis has one (numpy issue 31980).
    """
    return tuple(place.reshape(positions.shape) for place in np.unravel_index(positions.ravel(), shape))


def by_axis(x: Operand, positions: Positions) -> tuple[Positions, Positions, Positions] | None:
    """The rows, columns and channels of ``x`` (-1: none) that a result has, if it has each by itself."""
    inside = positions[0] >= 0
    places = [np.where(inside, place, -1) for place in coordinates(np.maximum(positions[0], 0), x.shape[1:])]
    rows, columns, channels = (p.max(axis=a) for p, a in zip(places, ((1, 2), (0, 2), (0, 1)), strict=True))
    alone = (rows[:, None, None], columns[None, :, None], channels[None, None, :])
    there = np.logical_and.reduce([axis >= 0 for axis in np.broadcast_arrays(*alone)])
    if (there == inside).all() and all((p == a)[inside].all() for p, a in zip(places, alone, strict=True)):
        return rows, columns, channels
    return None


def choose(
    layer: Layer, x: Operand, rows: Positions, columns: Positions, channels: Positions, fill: int = 0
) -> Operand:
    """These rows, columns and channels; ``fill`` where one is -1."""
    (rows, top, bottom), (columns, left, right) = (_border(places) for places in (rows, columns))
    x = _chosen_pixels(layer, x, rows, columns)
    if top or left or bottom or right:
        shape = (1, len(rows) + top + bottom, len(columns) + left + right, x.shape[3])
        x = _append(layer, Pad, x, shape, padding=(top, left, bottom, right), pad_value=fill)
    return channels_of(layer, x, channels, fill)


def _border(places: Positions) -> tuple[Positions, int, int]:
    """The places between those that are -1 at both ends, and how many these are."""
    inside = np.flatnonzero(places >= 0)
    if not len(inside):
        raise Unsupported("an image without any element of the other")
    first, last = int(inside[0]), int(inside[-1]) + 1
    if len(inside) < last - first:
        raise Unsupported("constant elements in the middle of an image")
    return places[first:last], first, len(places) - last


def _chosen_pixels(layer: Layer, x: Operand, rows: Positions, columns: Positions) -> Operand:
    """Rows and columns, in order and at even distances or not."""
    apart = [np.unique(np.diff(places)) for places in (rows, columns)]
    steps = [int(a[0]) if len(a) == 1 else int(len(a) == 0) for a in apart]  # 0 where there is none
    shape = (1, len(rows), len(columns), x.shape[3])
    if shape == x.shape and steps == [1, 1]:
        return x
    if min(steps) > 0:
        begin, count = (int(rows[0]), int(columns[0])), (len(rows), len(columns))
        return _append(layer, Slice, x, shape, begin=begin, size=count, strides=(steps[0], steps[1]))
    return _resampled(layer, x, rows, columns)


def _resampled(layer: Layer, x: Operand, rows: Positions, columns: Positions) -> Operand:
    """These rows and columns in any order."""
    return _append(
        layer, Resample, x, (1, len(rows), len(columns), x.shape[3]), rows=Sampling.picks(x.shape[1], rows),
        columns=Sampling.picks(x.shape[2], columns), offset=0, requant=identity_requant(x.shape[3]),
    )  # fmt: skip


def channels_of(layer: Layer, x: Operand, channels: Positions, fill: int = 0) -> Operand:
    """These channels, by a convolution with a single weight of 1 for each, or (-1) only the bias ``fill``."""
    count = len(channels)
    if count == x.shape[3] and (channels == np.arange(count)).all():
        return x
    weight = _choosing(count, 1, 1, x.shape[3])
    weight[np.arange(count), 0, 0, channels] = channels >= 0
    requant = replace(identity_requant(count), bias=np.where(channels < 0, fill, 0).astype(np.int32))
    return _append(layer, Conv2D, x, (*x.shape[:3], count), weight=weight, requant=requant)


def _choosing(*shape: int) -> NDArray[np.int8]:
    """Zeros for the weights that choose channels. Raises Unsupported where the array would have too many of them."""
    if math.prod(shape) > MOST_WRITTEN_OUT:
        weights = "x".join(map(str, shape))
        raise Unsupported(f"{weights} weights to choose channels, at most {MOST_WRITTEN_OUT:,} are written out")
    return np.zeros(shape, np.int8)


def _windows(layer: Layer, x: Operand, places: tuple[Positions, ...]) -> str:
    """Pixels of a block that become channels, or channels that become the pixels of a block."""
    shape = (1, *places[0].shape)
    if all(shape[k] <= x.shape[k] and x.shape[k] % shape[k] == 0 for k in (1, 2)):
        strides = x.shape[1] // shape[1], x.shape[2] // shape[2]
        dy, dx, c = (place[0, 0, :] for place in places)
        y, across = np.arange(shape[1])[:, None, None], np.arange(shape[2])[None, :, None]
        wanted = y * strides[0] + dy, across * strides[1] + dx, c
        inside = dy.max() < strides[0] and dx.max() < strides[1]
        if inside and all((place == there).all() for place, there in zip(places, wanted, strict=True)):
            weight = _choosing(shape[3], *strides, x.shape[3])
            weight[np.arange(shape[3]), dy, dx, c] = 1
            return _append(
                layer, Conv2D, x, shape, weight=weight, requant=identity_requant(shape[3]), strides=strides
            ).name  # fmt: skip
    if all(shape[k] % x.shape[k] == 0 for k in (1, 2)):
        return _blocks(layer, x, places, (shape[1] // x.shape[1], shape[2] // x.shape[2]))
    raise Unsupported("elements that move between pixels and channels")


def _blocks(layer: Layer, x: Operand, places: tuple[Positions, ...], block: tuple[int, int]) -> str:
    """Channels of a pixel that become a block of pixels: a transposed convolution whose kernel chooses them."""
    shape = (1, *places[0].shape)
    source = places[2][: block[0], : block[1], :]
    rows, columns = np.arange(shape[1]), np.arange(shape[2])
    wanted = (
        (rows // block[0])[:, None, None], (columns // block[1])[None, :, None],
        source[(rows % block[0])[:, None], (columns % block[1])[None, :]],
    )  # fmt: skip
    if not all((place == there).all() for place, there in zip(places, wanted, strict=True)):
        raise Unsupported("elements that move between pixels and channels")
    weight = _choosing(shape[3], *block, x.shape[3])
    for dy, dx in np.ndindex(*block):
        weight[np.arange(shape[3]), block[0] - 1 - dy, block[1] - 1 - dx, source[dy, dx]] = 1
    return _append(
        layer, Conv2D, x, shape, weight=weight, requant=identity_requant(shape[3]), spread=block,
        padding=(block[0] - 1, block[1] - 1) * 2, pad_value=0,
    ).name  # fmt: skip


# -- joins -------------------------------------------------------------------------------------------------


def join(layer: Layer, inputs: list[Operand], axis: int, out: Output) -> str:
    """Images one below the other (``axis`` 1) or side by side (2): each padded to the whole with the least value, and
    the greatest of them; or (3) one behind the other in the channels."""
    first = 0
    whole = list(inputs[0].shape)
    whole[axis] = sum(x.shape[axis] for x in inputs)
    if axis == 3:
        names = [x.name for x in inputs]
        return layer.emit(Concat, names, tuple(whole), out.quantisation, parts=[None] * len(names))
    found: Operand | None = None
    for x in inputs:
        padding = [0, 0, 0, 0]
        padding[axis - 1], padding[axis + 1] = first, whole[axis] - first - x.shape[axis]
        first += x.shape[axis]
        part = _append(layer, Pad, x, tuple(whole), padding=tuple(padding), pad_value=_INT8.min)
        if found is None:
            found = part
        else:
            found = Operand(extreme(layer, Maximum, found, part, out), tuple(whole), out.quantisation)
    assert found is not None
    return found.name


def joined(layer: Layer, inputs: list[Operand], shapes: Sequence[tuple[int, ...]], axis: int, out: Output) -> Operand:
    """Tensors of these ``shapes``, of any rank, joined over one of their axes but the last; held, as the result is, as
    rows of their last two axes."""
    if axis == len(shapes[0]) - 2:
        name = join(layer, inputs, 2, out)
        return Operand(name, layer.builder.tensors[name].shape, out.quantisation)
    name = join(layer, inputs, 1, out)
    below = Operand(name, layer.builder.tensors[name].shape, out.quantisation)
    firsts = np.cumsum([0, *(x.shape[1] for x in inputs[:-1])])
    ahead = [shape[:-2] for shape in shapes]
    rows = np.concatenate(
        [first + np.arange(math.prod(a)).reshape(a) for first, a in zip(firsts, ahead, strict=True)], axis
    ).reshape(-1)
    return choose(layer, below, rows, np.arange(below.shape[2]), np.arange(below.shape[3]))
