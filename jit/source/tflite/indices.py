"""Inputs of a ``.tflite`` file that are indices of a table."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.jit.source.index_limits import Indexing, index_limits
from tilewright.jit.source.tflite.file import File, Operator

_LOOK_UPS = {"EMBEDDING_LOOKUP": (1, 0), "GATHER": (0, 1)}  #: -> positions of table and indices
#: the first operand's elements are handed on
_FORM = ("CAST", "EXPAND_DIMS", "GATHER", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE")
_JOINED = ("CONCATENATION", "PACK")  #: those of all of them


def limits(file: File) -> dict[str, int]:
    """Name of an input -> entries of the table that it looks up in."""
    operators = (Indexing(_handed_on(op), op.outputs, [*_look_ups(file, op)]) for op in file.operators)
    found = index_limits(file.inputs, operators)
    names = {index: file.tensors[index].name or f"tensor{index}" for index in file.inputs}
    return {names[index]: entries for index, entries in found.items() if isinstance(index, int)}


def _handed_on(op: Operator) -> tuple[int, ...]:
    return op.inputs if op.kind in _JOINED else op.inputs[:1] if op.kind in _FORM else ()


def _look_ups(file: File, op: Operator) -> Iterator[tuple[int, int]]:
    table, indices = _LOOK_UPS.get(op.kind, (-1, -1))
    if table < 0 or max(table, indices) >= len(op.inputs):
        return
    shape, axis = file.tensors[op.inputs[table]].shape, int(getattr(op.options, "axis", 0) or 0)
    if -len(shape) <= axis < len(shape):
        yield op.inputs[indices], shape[axis]
