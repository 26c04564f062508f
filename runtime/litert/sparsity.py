"""Sparse constants: LiteRT follows their indices without a look at their bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.litert.model import Operand, Operator

_DENSE, _CSR = 0, 1
_AWARE = ("DENSIFY", "FULLY_CONNECTED")  #: operators whose kernels know sparse constants
_BITS = {"float32": 32, "float16": 16, "int8": 8, "uint8": 8, "int16": 16, "int32": 32, "int4": 4, "int2": 2}


def sparsity_defect(operand: Operand) -> str:
    """What is wrong with the indices of a sparse constant, or nothing."""
    shape, sparsity = operand.shape or (), operand.sparsity
    order = _numbers(sparsity.traversalOrder)
    blocks = _numbers(sparsity.blockMap)
    levels = [] if sparsity.dimMetadata is None else list(sparsity.dimMetadata)
    count = len(shape) + len(blocks)
    if not shape or len(levels) != count or sorted(order.tolist()) != list(range(count)):
        return "sparse levels that are not one for each dimension"
    axes = list(range(len(shape)))
    if sorted(order[: len(shape)].tolist()) != axes or not set(blocks.tolist()) <= set(axes):
        return "sparse blocks of dimensions that are not there"
    sizes = [*shape, *(0 for _ in blocks)]
    for level, axis in zip(levels[len(shape) :], order[len(shape) :].tolist()):
        inner = blocks[axis - len(shape)]
        if level.format != _DENSE or level.denseSize < 1 or sizes[inner] % level.denseSize:
            return f"a sparse block of {level.denseSize} elements along an axis of {sizes[inner]}"
        sizes[inner] //= level.denseSize
        sizes[axis] = int(level.denseSize)
    elements = 1
    for level, axis in zip(levels, order.tolist()):
        if level.format == _DENSE:
            if level.denseSize != sizes[axis]:
                return f"a dense level of {level.denseSize} elements along an axis of {sizes[axis]}"
            elements *= sizes[axis]
            continue
        segments, indices = _vector(level.arraySegments), _vector(level.arrayIndices)
        sound = (
            level.format == _CSR and segments.size == elements + 1 and segments[0] == 0
            and bool((np.diff(segments) >= 0).all()) and int(segments[-1]) == indices.size
            and bool(((indices >= 0) & (indices < sizes[axis])).all())
        )  # fmt: skip
        if not sound:
            return "sparse indices outside the tensor"
        elements = indices.size
    held = operand.stored * 8 // _BITS.get(operand.type, 64)
    return "" if elements <= min(held, math.prod(shape)) else f"{elements} sparse elements, of which {held} are stored"


def read_as_dense(op: Operator) -> str:
    """A sparse constant of an operator whose kernel takes all its elements to be stored, or nothing."""
    for k, operand in enumerate(op.inputs if op.kind not in _AWARE else ()):
        if operand is not None and operand.sparsity is not None:
            held, wanted = operand.stored * 8 // _BITS.get(operand.type, 64), math.prod(operand.shape or ())
            if held < wanted:
                return f"input {k} is sparse, and LiteRT's kernel reads {wanted} elements where {held} are stored"
    return ""


def _numbers(values: Any) -> NDArray[np.int64]:
    return np.asarray([] if values is None else values, np.int64)


def _vector(stored: Any) -> NDArray[np.int64]:
    """An Int32Vector, Uint16Vector or Uint8Vector of the schema."""
    return _numbers(getattr(stored, "values", None))
