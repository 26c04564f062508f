"""Rows and channels of tensors, and what an operator needs of its inputs to make some of its result."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tilewright.jit import graph as g
from tilewright.jit.graph import Op, TensorSpec
from tilewright.jit.lower.state import image_shape
from tilewright.jit.plan.slicing import PER_CHANNEL, of_channels

Rows = tuple[int, int]  #: from the first to before the second


class Uncut(Exception):
    """An operator cannot make a piece of its result from pieces of its inputs; says which and why."""


class Box(NamedTuple):
    """Rows from ``top`` to before ``bottom`` and channels from ``first`` to before ``last`` of a tensor's image."""

    top: int
    bottom: int
    first: int
    last: int

    def label(self, tensor: TensorSpec) -> str:
        """What the name of a tensor or operator that is this box of its result ends with."""
        whole = box_of(tensor)
        rows = "" if self[:2] == whole[:2] else f"{self.top}:{self.bottom}"
        channels = "" if self[2:] == whole[2:] else f"..., {self.first}:{self.last}"
        found = ", ".join(filter(None, (rows, channels)))
        return f"[{found}]" if found else ""

    def of(self, tensor: TensorSpec) -> TensorSpec:
        """The box of a tensor as a tensor of its own."""
        shape = (*tensor.shape[:-1], self.last - self.first)
        if len(shape) == 4:
            shape = (1, self.bottom - self.top, *shape[2:])
        return replace(tensor, name=tensor.name + self.label(tensor), shape=shape)

    def begin(self, tensor: TensorSpec) -> tuple[int, ...]:
        """Where it begins, for each axis of the tensor."""
        rank = len(tensor.shape)
        return tuple(self.first if axis == rank - 1 else self.top if axis == 1 else 0 for axis in range(rank))

    def around(self, other: Box | None) -> Box:
        """The least box that holds both."""
        if other is None:
            return self
        return Box(
            min(self.top, other.top), max(self.bottom, other.bottom),
            min(self.first, other.first), max(self.last, other.last),
        )  # fmt: skip


def box_of(tensor: TensorSpec) -> Box:
    """All of a tensor; what has no axis of rows has one row."""
    _, height, _, channels = image_shape(tensor.shape)
    return Box(0, height, 0, channels)


def restricted(op: Op, box: Box, output: TensorSpec, inputs: list[TensorSpec]) -> tuple[Op, list[Box]]:
    """The operator that makes a box of ``output``, and the boxes of ``inputs`` that it then reads.

    Names stay as they are. Raises :class:`Uncut`.
    """
    whole, everything = box_of(output), [box_of(tensor) for tensor in inputs]
    rows = [(b.top, b.bottom) for b in everything]
    if box[:2] != whole[:2]:
        op, rows = _of_rows(op, (box.top, box.bottom), whole.bottom, [b.bottom for b in everything])
    channels = [(b.first, b.last) for b in everything]
    if isinstance(op, g.PartialSums):
        channels, op = [(op.first, op.first + op.weight.shape[3])], replace(op, first=0)
    if box[2:] != whole[2:]:
        if isinstance(op, PER_CHANNEL):
            channels = [(box.first, box.last)] * len(inputs)
        elif not isinstance(op, (g.Conv2D, g.Total)) or (isinstance(op, g.Conv2D) and op.groups > 1):
            raise Uncut(f"{op.name} ({op.kind}): makes its channels together")
        op = of_channels(op, slice(box.first, box.last))
    return op, [Box(*of_rows, *some) for of_rows, some in zip(rows, channels)]


def _of_rows(op: Op, rows: Rows, out: int, heights: list[int]) -> tuple[Op, list[Rows]]:
    """For rows of a result of ``out`` rows from inputs of so many."""
    if isinstance(op, (g.Conv2D, g.PartialSums, g.DepthwiseConv2D)):
        kernel = op.weight.shape[0 if isinstance(op, g.DepthwiseConv2D) else 1]
        extent = (kernel - 1) * op.dilation[0] + 1
        spread = op.spread[0] if isinstance(op, g.Conv2D) else 1
        padding, taken = _window(op, rows, heights[0], extent, op.strides[0], op.padding, spread)
        return replace(op, padding=padding), [taken]
    if isinstance(op, (g.AvgPool2D, g.MaxPool2D)):
        padding, taken = _window(op, rows, heights[0], op.kernel[0], op.strides[0], op.padding)
        return replace(op, padding=padding), [taken]
    if isinstance(op, g.Pad):
        padding, taken = _window(op, rows, heights[0], 1, 1, op.padding)
        return replace(op, padding=padding), [taken]
    if isinstance(op, g.Pairwise):  # a single row goes with all of the others
        return op, [rows if height == out else (0, 1) for height in heights]
    if isinstance(op, (g.Requantize, g.Concat, g.Total)):
        return op, [rows] * len(heights)
    if isinstance(op, g.Slice):
        first, last = (op.begin[0] + row * op.strides[0] for row in (rows[0], rows[1] - 1))
        return replace(op, begin=(0, op.begin[1]), size=(rows[1] - rows[0], op.size[1])), [(first, last + 1)]
    if isinstance(op, g.Resample):
        part, read = op.rows.part(*rows)
        return replace(op, rows=part), [read]
    raise Uncut(f"{op.name} ({op.kind}): makes its rows together")


def _window(
    op: Op, rows: Rows, height: int, extent: int, stride: int, padding: tuple[int, int, int, int], spread: int = 1
) -> tuple[tuple[int, int, int, int], Rows]:
    """The padding that remains, and the rows that windows of ``extent`` rows read, of which those of the input are
    ``spread`` apart: padding is at true edges alone."""
    top, left, _, right = padding
    first, last = rows[0] * stride - top, (rows[1] - 1) * stride - top + extent
    taken = max(-(-first // spread), 0), min((last - 1) // spread + 1, height)
    if taken[0] >= taken[1]:
        raise Uncut(f"{op.name} ({op.kind}): rows {rows[0]}:{rows[1]} are made of padding alone")
    return (taken[0] * spread - first, left, last - (taken[1] - 1) * spread - 1, right), taken
