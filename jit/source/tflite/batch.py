"""A model of a batch as the same model of one image, where no operator looks across the batch.

As for ONNX (``jit/source/onnx/batch.py``): every operator that reads what depends on the inputs must be known to treat
the elements of the leading axis alike and apart, and to give a result that has them on its leading axis again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.jit.defects import why_not
from tilewright.jit.errors import Unsupported
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite import dilation
from tilewright.jit.source.tflite.file import File, Operator


def take_one_image(file: File) -> int:
    """Changes the file's main subgraph to that of one image; returns the size of the batch.

    1, and nothing is changed, where it is no batch or does not come apart.
    """
    sizes = {file.tensors[i].shape[0] if len(file.tensors[i].shape) > 1 else 1 for i in file.inputs}
    images = any(_sees_image(file, op) for op in file.operators)
    if len(sizes) != 1 or min(sizes) < 2 or not images or len(file.model.subgraphs) > 1:
        return 1
    (batch,) = sizes
    try:
        batched = _batched(file, batch)
    except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
        why_not(error, str(file.path))
        return 1
    for index in batched:
        shape = file.tensors[index].shape
        file.tensors[index] = replace(file.tensors[index], shape=(shape[0] // batch, *shape[1:]))
    for op in file.operators:
        if not op.outputs or op.outputs[0] not in batched:
            continue
        row = tflite_row(op.kind)
        if (position := row.at("shape")) is not None:
            _set_shape(file, op, position)
        elif ends := [k for k, name in enumerate(row.operands) if name in ("end", "size")]:
            _set_ends(file, op, ends[0])
    return batch


def _sees_image(file: File, op: Operator) -> bool:
    """Whether it takes images, or stacks of matrices, one by one: without such operators a batch is so many rows of
    pixels, which the accelerator takes all at once."""
    row = tflite_row(op.kind)
    taken = row.by_image or row.macs == "matrices"
    return taken and any(len(file.tensors[t].shape) > 3 for t in (*op.inputs, *op.outputs) if t >= 0)


def _batched(file: File, batch: int) -> set[int]:
    """The tensors that hold one element for each of the batch; raises Unsupported where one looks across it."""
    found = set(file.inputs)
    counts: set[int] = set()  # what follows from the sizes of tensors, that of the batch among them
    for op in file.operators:
        if op.kind == "SHAPE" or not any(t in found for t in op.inputs):
            if any(t in found or t in counts for t in op.inputs):
                counts |= set(op.outputs)
            continue
        row = tflite_row(op.kind)
        if not row.batch or ("shape" not in row.operands and any(t in counts for t in op.inputs)):
            raise Unsupported(f"{op.kind} may look across the batch")
        row.find(f"batch:{row.batch}")(file, op, found)
        blocks = _blocks(file, op, found, batch)
        for index in op.outputs:
            _require(file.tensors[index].shape[:1] == (blocks * batch,))
            found.add(index)
    _require(all(index in found for index in file.outputs))
    _require(all(file.tensors[t].scales.size < 2 or file.tensors[t].axis for t in found))  # a scale for each image
    return found


def _blocks(file: File, op: Operator, found: set[int], batch: int) -> int:
    """Images that the result has for each of the batch: as many as blocks of pixels were dealt out."""
    (before,) = {file.tensors[t].shape[0] // batch for t in op.inputs if t in found}
    if op.kind == dilation.DEAL:
        return int(np.prod(_constant(file, op.inputs[1])))
    if op.kind == dilation.GATHER:
        return before // int(np.prod(_constant(file, op.inputs[1])))
    _require(before == 1 or dilation.is_layer(op.kind))
    return before


def _set_shape(file: File, op: Operator, position: int) -> None:
    """The shape that an operator is told, of one image: in the options of a RESHAPE, and as a constant of its own."""
    shape = [1, *file.tensors[op.outputs[0]].shape[1:]]
    stored = file.model.subgraphs[0].operators[op.index]
    if op.kind == "RESHAPE" and op.options is not None:
        stored.builtinOptions = copy.copy(stored.builtinOptions)
        stored.builtinOptions.newShape = shape
        file.operators[op.index] = op = replace(op, options=stored.builtinOptions)
    if len(op.inputs) > position:
        _tell(file, op, position, shape)


def _set_ends(file: File, op: Operator, end: int) -> None:
    """Where a part of a tensor ends (operand ``end``) or, of a STRIDED_SLICE, begins and ends, of one image."""
    for position in range(1 if op.kind == "STRIDED_SLICE" else end, end + 1):
        _tell(file, op, position, [int(position == end), *_constant(file, op.inputs[position])[1:]])
        op = file.operators[op.index]


def _tell(file: File, op: Operator, position: int, told: list[int]) -> None:
    """Gives an operator these whole numbers as an operand, in a constant of its own."""
    main, old = file.model.subgraphs[0], file.tensors[op.inputs[position]]
    values = np.array(told, old.dtype)
    buffer = copy.copy(file.model.buffers[0])
    buffer.data = values.view(np.uint8)
    file.model.buffers.append(buffer)
    tensor = copy.copy(main.tensors[old.index])
    tensor.buffer, tensor.shape, tensor.shapeSignature = len(file.model.buffers) - 1, [len(told)], None
    main.tensors.append(tensor)
    number = len(main.tensors) - 1
    file.tensors.append(replace(old, index=number, shape=(len(told),), data=values, name=f"{old.name}_{number}"))
    inputs = tuple(number if k == position else index for k, index in enumerate(op.inputs))
    main.operators[op.index].inputs = list(inputs)
    file.operators[op.index] = replace(op, inputs=inputs)


# -- what the table of operators names: raises Unsupported where the batch may mix -----------------------------


def _require(condition: bool) -> None:
    if not condition:
        raise Unsupported("an operator that may look across the batch")


def first(file: File, op: Operator, found: set[int]) -> None:
    """The operand ``x`` has the batch, and no other."""
    x = tflite_row(op.kind).operands.index("x")
    _require(all((t in found) == (k == x) for k, t in enumerate(op.inputs)))


def joined(file: File, op: Operator, found: set[int]) -> None:
    """Element by element, of operands that broadcast."""
    rank = len(file.tensors[op.outputs[0]].shape)
    for index in op.inputs:
        shape = file.tensors[index].shape
        _require(len(shape) == rank if index in found else len(shape) < rank or shape[0] == 1)


def rows(file: File, op: Operator, found: set[int]) -> None:
    """Rows of as many elements as the weights have, as many for each element of the batch."""
    first(file, op, found)
    x, weights = file.tensors[op.inputs[0]].shape, file.tensors[op.inputs[1]].shape
    _require(int(np.prod(x[1:], dtype=np.int64)) % weights[-1] == 0)


def _constant(file: File, index: int) -> list[int]:
    data = file.tensors[index].data
    _require(data is not None)
    return [int(v) for v in np.asarray(data).reshape(-1)]


def _away(axes: Sequence[int], rank: int) -> None:
    _require(bool(axes) and all(axis % rank != 0 for axis in axes))


def axes(file: File, op: Operator, found: set[int]) -> None:
    """Over axes that a constant lists."""
    first(file, op, found)
    _away(_constant(file, op.inputs[1]), len(file.tensors[op.inputs[0]].shape))


def last(file: File, op: Operator, found: set[int]) -> None:
    """Along the last axis."""
    first(file, op, found)
    _require(len(file.tensors[op.inputs[0]].shape) > 1)


def concatenation(file: File, op: Operator, found: set[int]) -> None:
    """Along an axis of the result, an option."""
    _require(all(t in found for t in op.inputs))
    _away([int(op.options.axis)], len(file.tensors[op.outputs[0]].shape))


def squeeze(file: File, op: Operator, found: set[int]) -> None:
    """Without axes that an option lists."""
    first(file, op, found)
    dims = op.options.squeezeDims
    _away([int(d) for d in dims] if dims is not None else [], len(file.tensors[op.inputs[0]].shape))


def transpose(file: File, op: Operator, found: set[int]) -> None:
    """With the axes in another order."""
    first(file, op, found)
    _require(_constant(file, op.inputs[1])[0] == 0)


def pad(file: File, op: Operator, found: set[int]) -> None:
    """With elements added around it."""
    first(file, op, found)
    _require(_constant(file, op.inputs[1])[:2] == [0, 0])


def split(file: File, op: Operator, found: set[int]) -> None:
    """Along an axis, a constant operand."""
    first(file, op, found)
    x, axis = (op.inputs[tflite_row(op.kind).operands.index(name)] for name in ("x", "axis"))
    _away(_constant(file, axis), len(file.tensors[x].shape))


def expand(file: File, op: Operator, found: set[int]) -> None:
    """With one more axis."""
    first(file, op, found)
    _away(_constant(file, op.inputs[1]), len(file.tensors[op.outputs[0]].shape))


def slice_(file: File, op: Operator, found: set[int]) -> None:
    """All of the batch."""
    first(file, op, found)
    batch = file.tensors[op.inputs[0]].shape[0]
    _require(_constant(file, op.inputs[1])[0] == 0 and _constant(file, op.inputs[2])[0] in (-1, batch))


def strided_slice(file: File, op: Operator, found: set[int]) -> None:
    """All of the batch, in order: whatever the masks say, so do the ends that it is told for one image."""
    first(file, op, found)
    o = op.options
    _require(not (o.newAxisMask or o.ellipsisMask or o.shrinkAxisMask & 1))
    begin, end, step = (_constant(file, op.inputs[k])[0] for k in (1, 2, 3))
    taken = slice(None if o.beginMask & 1 else begin, None if o.endMask & 1 else end, step)
    batch = file.tensors[op.inputs[0]].shape[0]
    _require(step == 1 and len(range(batch)[taken]) == batch)


def unpack(file: File, op: Operator, found: set[int]) -> None:
    """Along an axis, an option."""
    _away([int(op.options.axis)], len(file.tensors[op.inputs[0]].shape))


def gather(file: File, op: Operator, found: set[int]) -> None:
    """Along an axis, an option."""
    first(file, op, found)
    _require(not op.options.batchDims)
    _away([int(op.options.axis)], len(file.tensors[op.inputs[0]].shape))


def tile(file: File, op: Operator, found: set[int]) -> None:
    """With copies along the other axes."""
    first(file, op, found)
    _require(_constant(file, op.inputs[1])[0] == 1)


def broadcast(file: File, op: Operator, found: set[int]) -> None:
    """With copies along the other axes."""
    _require(op.inputs[0] in found)
    _require(len(file.tensors[op.inputs[0]].shape) == len(file.tensors[op.outputs[0]].shape))


def stacks(file: File, op: Operator, found: set[int]) -> None:
    """Stacks of matrices, the batch ahead of both, or with one matrix for all."""
    shapes = [file.tensors[t].shape for t in op.inputs[:2]]
    for index, shape in zip(op.inputs[:2], shapes, strict=True):
        ahead = len(file.tensors[op.outputs[0]].shape) == len(shape) > 2
        _require(ahead if index in found else int(np.prod(shape[:-2], dtype=np.int64)) == 1)


def deal(file: File, op: Operator, found: set[int]) -> None:
    """Images that become several, those of an image ``batch`` apart: dealt out at most once."""
    first(file, op, found)
    (batch,) = {file.tensors[t].shape[0] for t in file.inputs}
    _require(file.tensors[op.inputs[0]].shape[0] == batch)
