"""Rows and channels of tensors, and what an operator needs of its inputs to make some of its result."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tilewright.jit.graph import Op, TensorSpec
from tilewright.jit.ir.regions import image_shape


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
        op, rows = op.of_rows((box.top, box.bottom), whole.bottom, [b.bottom for b in everything])
    wanted = (box.first, box.last) if box[2:] != whole[2:] else None
    op, channels = op.of_range(wanted, [(b.first, b.last) for b in everything])
    return op, [Box(*of_rows, *some) for of_rows, some in zip(rows, channels, strict=True)]
