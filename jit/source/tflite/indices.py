"""Inputs of a ``.tflite`` file that are indices of a table."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.jit.source.index_limits import Indexing, index_limits
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.file import File, Operator


def limits(file: File) -> dict[str, int]:
    """Name of an input -> entries of the table that it looks up in."""
    found = index_limits(
        file.inputs,
        (
            Indexing(tflite_row(op.kind).handed_on(op.inputs), op.outputs, [*_look_ups(file, op)])
            for op in file.operators
        ),
    )
    names = {index: file.tensors[index].name or f"tensor{index}" for index in file.inputs}
    return {names[index]: entries for index, entries in found.items() if isinstance(index, int)}


def _look_ups(file: File, op: Operator) -> Iterator[tuple[int, int]]:
    for table, indices in tflite_row(op.kind).tables:
        if max(table, indices) >= len(op.inputs):
            return
        shape, axis = file.tensors[op.inputs[table]].shape, int(getattr(op.options, "axis", 0) or 0)
        if -len(shape) <= axis < len(shape):
            yield op.inputs[indices], shape[axis]
