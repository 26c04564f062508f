"""STRIDED_SLICE: bounds by which LiteRT's kernel leaves results unwritten, or reads and writes beyond its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from tilewright.runtime.litert.model import Operator
from tilewright.runtime.litert.rules import said

_BITS = 31  #: of a mask


@dataclass(frozen=True)
class _Axis:
    """An axis of the input, and which of the bounds is for it; None where all of it is taken."""

    size: int
    bound: int | None


def strided(op: Operator) -> str:
    """As many strides as bounds, no more axes than there are, one ellipsis, and on each axis what the kernel holds."""
    counts = [op.shape(k) for k in range(1, 4)]
    given = next((int(shape[0]) for shape in counts if shape), None)
    shape = op.shape(0)
    if given is None:
        return ""
    if any(count is not None and count != (given,) for count in counts):
        return f"bounds and strides of the shapes {', '.join(said(c) for c in counts)}; LiteRT takes them for equal"
    ellipses, new = _bits(op, "ellipsisMask"), _bits(op, "newAxisMask")
    if len(ellipses) > 1:
        return f"the option ellipsisMask has {len(ellipses)} ellipses; LiteRT's kernel takes one"
    added = sum(k < given for k in new - ellipses)
    bounded = given - added - sum(k < given for k in ellipses)
    if shape is not None and bounded > len(shape):
        return f"bounds of {bounded} axes for an input of {len(shape)}"
    if op.option("offset") and (added or ellipses or (shape is not None and given != len(shape))):
        return "the option offset with bounds that are not one for each axis, which LiteRT's kernel takes it for"
    step = op.value(3)
    if step is not None and shape and step.size and int(np.abs(step.astype(np.int64)).max()) + max(shape) >= 1 << 31:
        return f"a stride of {int(np.abs(step.astype(np.int64)).max())}, which LiteRT's counter does not hold"
    if shape is None:
        return ""
    rank = len(shape) + added
    if any(given <= k < rank for k in ellipses | new):
        return f"an ellipsis or a new axis behind {given} bounds, which LiteRT's kernel does not count"
    axes = _axes(shape, given, rank, ellipses, new)
    if axes is None:
        return "a new axis behind an ellipsis that stands for no axis, for which LiteRT's kernel reads beyond the input"
    return next(filter(None, (_offset(op, axis) if op.option("offset") else _shrunk(op, axis) for axis in axes)), "")


def _axes(
    shape: tuple[int, ...], given: int, rank: int, ellipses: set[int], new: set[int]
) -> list[_Axis] | None:  # fmt: skip
    """The input's axes as ``BuildStridedSliceParams`` of ``strided_slice.cc`` finds them, ``rank`` with new ones.

    None where it looks for more than there are: an ellipsis takes an axis, whether there is one for it or not.
    """
    sizes, found, place, further = iter(shape), list[_Axis](), 0, 0
    while place < rank:
        bound, wide = place - further, 1
        if place in ellipses:
            further = max(0, min(rank - given, rank - place - 1))
            bound, wide = -1, 1 + further
        place += wide
        if bound in new:
            continue
        here = list(islice(sizes, wide))
        if len(here) < wide:
            return None
        found += [_Axis(size, bound if 0 <= bound < given else None) for size in here]
    return found


def _shrunk(op: Operator, axis: _Axis) -> str:
    """Of an axis that is shrunk an index is taken: one that is there, with a stride that leads on from it.

    The numbers of a constant alone: with others LiteRT writes no results, but nothing else either.
    """
    bound = axis.bound
    if bound is None or not op.option("shrinkAxisMask") >> bound & 1:
        return ""
    begin, step = (_constant(op, position, bound) for position in (1, 3))
    if step is not None and step < 0:
        return f"a stride of {step} for an index, bound {bound}, with which LiteRT's kernel writes no results"
    if op.option("beginMask") >> bound & 1:
        begin = 0
    if begin is not None and begin >= axis.size:
        where = f"an axis of {axis.size}, bound {bound}"
        return f"the index {begin} in {where}, for which LiteRT's kernel writes no results"
    return ""


def _offset(op: Operator, axis: _Axis) -> str:
    """With the option offset the result is as large as the ends say, whatever is there to fill it."""
    bound = axis.bound
    assert bound is not None, "bounds for each axis"
    values = [op.value(position) for position in (1, 2, 3)]
    if (op.option("beginMask") | op.option("endMask")) >> bound & 1:
        return f"the option offset with a mask, bound {bound}, which LiteRT's kernel forgets for the result's size"
    if any(value is None for value in values):
        return ""
    begin, size, step = (int(value[bound]) for value in values if value is not None)
    begin += axis.size if begin < 0 else 0
    if step > 0 and begin >= 0 and 0 <= size <= axis.size - begin:
        return _shrunk(op, axis)
    return (
        f"the option offset with {size} from {begin} in steps of {step} of an axis of {axis.size}, bound {bound}, "
        "which LiteRT's kernel takes to lie within"
    )


def _bits(op: Operator, mask: str) -> set[int]:
    return {k for k in range(_BITS) if op.option(mask) >> k & 1}


def _constant(op: Operator, position: int, bound: int) -> int | None:
    """A number that the file holds; asked of the input itself, for one that is computed cannot end the process."""
    found = op.inputs[position]
    return None if found is None or found.value is None else int(found.value.reshape(-1)[bound])
