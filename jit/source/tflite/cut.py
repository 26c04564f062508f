"""Operators of a ``.tflite`` file as a model of their own, written with the schema's object API."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.file import File
from tilewright.jit.source.tflite.wide_svdf import widened
from tilewright.runtime.litert.schema import blocks_of, keep_used_codes, schema, vector, written


def cut(
    file: File,
    operators: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    folded: Mapping[int, NDArray[Any]],
    same: Mapping[int, int],
) -> bytes:
    """A model of the main subgraph's ``operators`` that takes and gives these tensors (by index).

    ``folded``: values of tensors that become constants. ``same``: tensors -> the one of equal content that stands for
    them. Other subgraphs (of conditions, loops, initialisation) stay with it. Raises ModelError if an operator would
    read what nothing provides.
    """
    chosen = _with_handles(file, operators)
    main = file.model.subgraphs[0]
    ops = [copy.copy(main.operators[i]) for i in chosen]
    for op in ops:
        op.inputs = [same.get(int(t), int(t)) for t in op.inputs] if op.inputs is not None else None
    _provided(file, ops, {*inputs, *folded}, outputs)
    used = {int(t) for op in ops for t in _tensors_of(op) if t >= 0} | set(inputs) | set(outputs)
    order = sorted(used | {t for k in used for t in _of_blocks(main.tensors[k])})
    renumbered = {old: new for new, old in enumerate(order)}
    tensors = [_shaped(main.tensors[t], file.tensors[t].shape) for t in order]
    for index, tensor in zip(order, tensors, strict=True):
        _renumber_blocks(tensor, renumbered)
        # what is given or computed is no state; LiteRT may have no memory for it where it is called one
        tensor.isVariable = file.tensors[index].variable or index in file.changed
    for t in inputs:
        tensors[renumbered[t]].buffer = 0  # what is given holds no data, of which LiteRT would write over the file's
    for op in ops:
        for name in ("inputs", "outputs", "intermediates"):
            values = getattr(op, name)
            if values is not None:
                setattr(op, name, [renumbered.get(int(t), -1) for t in values])
    constants = {renumbered[t]: v for t, v in folded.items() if t in used}
    ops = [made for i, op in zip(chosen, ops, strict=True) for made in _sound(file, i, op, tensors, constants, folded)]
    part = schema().SubGraphT()
    part.name, part.tensors, part.operators = b"main", tensors, ops
    part.inputs, part.outputs = [renumbered[t] for t in inputs], [renumbered[t] for t in outputs]
    others = [_copied(subgraph) for subgraph in file.model.subgraphs[1:]] if _calls(file, chosen) else []
    model = schema().ModelT()
    model.version, model.description = 3, b"cut by Tilewright"
    model.operatorCodes = file.model.operatorCodes
    model.subgraphs = [part, *others]
    keep_used_codes(model)
    model.buffers = _Buffers(file).collect(model.subgraphs, constants)
    return written(model)


def _shaped(tensor: Any, shape: tuple[int, ...]) -> Any:
    """A copy with the shape that the tensor really has."""
    made = copy.copy(tensor)
    if tuple(vector(tensor.shape)) != shape:
        made.shape, made.shapeSignature = list(shape), None
    return made


def _of_blocks(tensor: Any) -> set[int]:
    """The tensors with the scales and zero points of its blocks; of index 0 there may be none."""
    blocks = blocks_of(tensor)
    return set() if blocks is None else {t for t in (int(blocks.scales), int(blocks.zeroPoints)) if t >= 0}


def _renumber_blocks(tensor: Any, renumbered: Mapping[int, int]) -> None:
    if (blocks := blocks_of(tensor)) is not None:
        tensor.quantization, own = copy.copy(tensor.quantization), copy.copy(blocks)
        tensor.quantization.details = own
        own.scales, own.zeroPoints = (renumbered.get(int(t), -1) for t in (blocks.scales, blocks.zeroPoints))


def _provided(file: File, ops: Sequence[Any], given: set[int], outputs: Sequence[int]) -> None:
    """Raise ModelError for a tensor that is read, or wanted as output, and neither given, made nor stored."""
    made = {int(t) for op in ops for t in vector(op.outputs)}
    wanted = {int(t) for op in ops for t in vector(op.inputs) if t >= 0} | set(outputs)
    for index in sorted(wanted - made - given):
        tensor = file.tensors[index]
        stored = file.model.buffers[file.model.subgraphs[0].tensors[index].buffer].data
        if not tensor.variable and not len(vector(stored)):
            raise ModelError(f"{file.path}: nothing provides tensor {index} ({tensor.name}) to a part of the model")


def _sound(
    file: File, index: int, op: Any, tensors: list[Any], constants: dict[int, NDArray[Any]],
    folded: Mapping[int, NDArray[Any]],
) -> list[Any]:  # fmt: skip
    """An operator in the form that LiteRT's kernel has, of the same numbers."""
    if file.operators[index].kind != "SVDF":
        return [op]
    given = file.operators[index].inputs
    time = folded.get(given[2], file.tensors[given[2]].data) if len(given) > 2 and given[2] >= 0 else None
    try:
        return widened(op, tensors, constants, time)
    except Unsupported as error:
        raise ModelError(f"{file.path}: operator {index} ({file.operators[index].kind}): {error}") from error


def is_initial(kind: str) -> bool:
    """Whether operators of this kind are taken along rather than placed: handles, without which those that read them
    mean nothing, and what prepares the state of the whole model before its first inference."""
    return tflite_row(kind).family in ("handle", "initial")


def _with_handles(file: File, operators: Sequence[int]) -> list[int]:
    """The operators in file order, with the handles they read and, where they or subgraphs that they run may have any,
    the initialisation."""
    wanted = {t for i in operators for t in file.operators[i].inputs}
    handles = [op.index for op in file.operators if tflite_row(op.kind).family == "handle" and wanted & set(op.outputs)]
    initial = [op.index for op in file.operators if tflite_row(op.kind).family == "initial"]
    return sorted({*operators, *handles, *(initial if handles or _calls(file, operators) else ())})


def _calls(file: File, operators: Sequence[int]) -> bool:
    """Whether any of these operators runs another subgraph."""
    options = (file.operators[i].options for i in operators)
    return any("ubgraphIndex" in name for found in options if found is not None for name in vars(found))


def _tensors_of(op: Any) -> list[int]:
    return [int(t) for values in (op.inputs, op.outputs, op.intermediates) for t in vector(values)]


def _copied(subgraph: Any) -> Any:
    made = copy.copy(subgraph)
    made.tensors = [copy.copy(tensor) for tensor in subgraph.tensors]
    made.operators = [copy.copy(op) for op in vector(subgraph.operators)]
    return made


class _Buffers:
    """The buffers that some tensors use, renumbered from 1; buffer 0 is the empty one."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.kept: list[Any] = [schema().BufferT()]
        self.number = {0: 0}

    def collect(self, subgraphs: Sequence[Any], folded: Mapping[int, NDArray[Any]]) -> list[Any]:
        """Points every tensor at its new buffer; ``folded``: values of tensors of the first subgraph."""
        for position, subgraph in enumerate(subgraphs):
            for index, tensor in enumerate(subgraph.tensors):
                if position == 0 and index in folded:
                    value = np.ascontiguousarray(folded[index])
                    tensor.shape = list(value.shape)
                    tensor.shapeSignature = None
                    tensor.isVariable = False  # of which LiteRT takes no data
                    tensor.buffer = self._add(value.reshape(-1).view(np.uint8))
                    continue
                old = int(tensor.buffer)
                if old not in self.number:
                    data = vector(self.file.model.buffers[old].data)
                    self.number[old] = self._add(data) if len(data) else 0
                tensor.buffer = self.number[old]
        return self.kept

    def _add(self, data: Any) -> int:
        buffer = schema().BufferT()
        buffer.data = np.asarray(data, np.uint8)
        self.kept.append(buffer)
        return len(self.kept) - 1
