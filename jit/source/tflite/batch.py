"""A model of a batch as the same model of one image, where no operator looks across the batch.

As for ONNX (``jit/source/onnx/batch.py``): every operator that reads what depends on the inputs must be known to treat
the elements of the leading axis alike and apart, and to give a result that has them on its leading axis again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tilewright.jit.defects import why_not
from tilewright.jit.errors import Unsupported
from tilewright.jit.source.tflite import dilation
from tilewright.jit.source.tflite.file import File, Operator

#: operators that see an image, or stacks of matrices: without them a batch is so many rows of pixels, which the
#: accelerator takes all at once
_IMAGES = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "TRANSPOSE_CONV", "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "BATCH_MATMUL",
)  # fmt: skip
#: operators that are told the shape of their result: by which operand
_SHAPES = {"RESHAPE": 1, "TRANSPOSE_CONV": 0, "BROADCAST_TO": 1}


def take_one_image(file: File) -> int:
    """Changes the file's main subgraph to that of one image; returns the size of the batch.

    1, and nothing is changed, where it is no batch or does not come apart.
    """
    sizes = {file.tensors[i].shape[0] if len(file.tensors[i].shape) > 1 else 1 for i in file.inputs}
    images = any(op.kind in _IMAGES and _sees_image(file, op) for op in file.operators)
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
        if op.kind in _SHAPES:
            _set_shape(file, op)
        elif op.kind in _ENDS:
            _set_ends(file, op)
    return batch


def _sees_image(file: File, op: Operator) -> bool:
    return any(len(file.tensors[t].shape) > 3 for t in (*op.inputs, *op.outputs) if t >= 0)


def _batched(file: File, batch: int) -> set[int]:
    """The tensors that hold one element for each of the batch; raises Unsupported where one looks across it."""
    found = set(file.inputs)
    counts: set[int] = set()  # what follows from the sizes of tensors, that of the batch among them
    for op in file.operators:
        if op.kind == "SHAPE" or not any(t in found for t in op.inputs):
            if any(t in found or t in counts for t in op.inputs):
                counts |= set(op.outputs)
            continue
        rule = _RULES.get(op.kind)
        if rule is None or (op.kind not in _SHAPES and any(t in counts for t in op.inputs)):
            raise Unsupported(f"{op.kind} may look across the batch")
        rule(file, op, found)
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
    _require(before == 1 or op.kind in dilation.LAYERS)
    return before


def _set_shape(file: File, op: Operator) -> None:
    """The shape that an operator is told, of one image: in the options of a RESHAPE, and as a constant of its own."""
    shape = [1, *file.tensors[op.outputs[0]].shape[1:]]
    stored = file.model.subgraphs[0].operators[op.index]
    if op.kind == "RESHAPE" and op.options is not None:
        stored.builtinOptions = copy.copy(stored.builtinOptions)
        stored.builtinOptions.newShape = shape
        file.operators[op.index] = op = replace(op, options=stored.builtinOptions)
    if len(op.inputs) > _SHAPES[op.kind]:
        _tell(file, op, _SHAPES[op.kind], shape)


def _set_ends(file: File, op: Operator) -> None:
    """Where a part of a tensor begins and ends, of one image."""
    for position, first in _ENDS[op.kind].items():
        _tell(file, op, position, [first, *_constant(file, op.inputs[position])[1:]])
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


# -- rules: raise Unsupported where the batch may mix ----------------------------------------------------------

Rule = Callable[[File, Operator, set[int]], None]


def _require(condition: bool) -> None:
    if not condition:
        raise Unsupported("an operator that may look across the batch")


def _only_first(file: File, op: Operator, found: set[int]) -> None:
    _require(op.inputs[0] in found and not any(t in found for t in op.inputs[1:]))


def _joined(file: File, op: Operator, found: set[int]) -> None:
    rank = len(file.tensors[op.outputs[0]].shape)
    for index in op.inputs:
        shape = file.tensors[index].shape
        _require(len(shape) == rank if index in found else len(shape) < rank or shape[0] == 1)


def _dense(file: File, op: Operator, found: set[int]) -> None:
    """Rows of as many elements as the weights have, as many for each element of the batch."""
    _only_first(file, op, found)
    x, weights = file.tensors[op.inputs[0]].shape, file.tensors[op.inputs[1]].shape
    _require(int(np.prod(x[1:], dtype=np.int64)) % weights[-1] == 0)


def _constant(file: File, index: int) -> list[int]:
    data = file.tensors[index].data
    _require(data is not None)
    return [int(v) for v in np.asarray(data).reshape(-1)]


def _away(axes: Sequence[int], rank: int) -> None:
    _require(bool(axes) and all(axis % rank != 0 for axis in axes))


def _over(file: File, op: Operator, found: set[int]) -> None:
    """Over axes that a constant lists."""
    _only_first(file, op, found)
    _away(_constant(file, op.inputs[1]), len(file.tensors[op.inputs[0]].shape))


def _along_last(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    _require(len(file.tensors[op.inputs[0]].shape) > 1)


def _concatenation(file: File, op: Operator, found: set[int]) -> None:
    _require(all(t in found for t in op.inputs))
    _away([int(op.options.axis)], len(file.tensors[op.outputs[0]].shape))


def _squeeze(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    dims = op.options.squeezeDims
    _away([int(d) for d in dims] if dims is not None else [], len(file.tensors[op.inputs[0]].shape))


def _transpose(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    _require(_constant(file, op.inputs[1])[0] == 0)


def _pad(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    _require(_constant(file, op.inputs[1])[:2] == [0, 0])


def _transpose_conv(file: File, op: Operator, found: set[int]) -> None:
    _require(op.inputs[2] in found and not any(t in found for t in (*op.inputs[:2], *op.inputs[3:])))


def _split(file: File, op: Operator, found: set[int]) -> None:
    """(axis, x) of a SPLIT, (x, sizes, axis) of a SPLIT_V."""
    x, axis = (op.inputs[1], op.inputs[0]) if op.kind == "SPLIT" else (op.inputs[0], op.inputs[2])
    _require(x in found and not any(t in found for t in op.inputs if t != x))
    _away(_constant(file, axis), len(file.tensors[x].shape))


def _expand(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    _away(_constant(file, op.inputs[1]), len(file.tensors[op.outputs[0]].shape))


def _slice(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    batch = file.tensors[op.inputs[0]].shape[0]
    _require(_constant(file, op.inputs[1])[0] == 0 and _constant(file, op.inputs[2])[0] in (-1, batch))


def _strided_slice(file: File, op: Operator, found: set[int]) -> None:
    """All of the batch, in order: whatever the masks say, so do the ends that it is told for one image."""
    _only_first(file, op, found)
    o = op.options
    _require(not (o.newAxisMask or o.ellipsisMask or o.shrinkAxisMask & 1))
    first, last, step = (_constant(file, op.inputs[k])[0] for k in (1, 2, 3))
    taken = slice(None if o.beginMask & 1 else first, None if o.endMask & 1 else last, step)
    batch = file.tensors[op.inputs[0]].shape[0]
    _require(step == 1 and len(range(batch)[taken]) == batch)


def _pack(file: File, op: Operator, found: set[int]) -> None:
    _require(all(t in found for t in op.inputs))
    _away([int(op.options.axis)], len(file.tensors[op.outputs[0]].shape))


def _unpack(file: File, op: Operator, found: set[int]) -> None:
    _away([int(op.options.axis)], len(file.tensors[op.inputs[0]].shape))


def _gather(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    _require(not op.options.batchDims)
    _away([int(op.options.axis)], len(file.tensors[op.inputs[0]].shape))


def _tile(file: File, op: Operator, found: set[int]) -> None:
    _only_first(file, op, found)
    _require(_constant(file, op.inputs[1])[0] == 1)


def _broadcast(file: File, op: Operator, found: set[int]) -> None:
    _require(op.inputs[0] in found)
    _require(len(file.tensors[op.inputs[0]].shape) == len(file.tensors[op.outputs[0]].shape))


def _products(file: File, op: Operator, found: set[int]) -> None:
    """Stacks of matrices, the batch ahead of both, or with one matrix for all."""
    shapes = [file.tensors[t].shape for t in op.inputs[:2]]
    for index, shape in zip(op.inputs[:2], shapes, strict=True):
        ahead = len(file.tensors[op.outputs[0]].shape) == len(shape) > 2
        _require(ahead if index in found else int(np.prod(shape[:-2], dtype=np.int64)) == 1)


def _deal(file: File, op: Operator, found: set[int]) -> None:
    """Images that become several, those of an image ``batch`` apart: dealt out at most once."""
    _only_first(file, op, found)
    (batch,) = {file.tensors[t].shape[0] for t in file.inputs}
    _require(file.tensors[op.inputs[0]].shape[0] == batch)


#: by kind of operator, operands with a number for each axis, and that of the batch's where there is one image
_ENDS: dict[str, dict[int, int]] = {"SLICE": {2: 1}, "STRIDED_SLICE": {1: 0, 2: 1}}
_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("ABS", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE", "ELU", "EXP", "GELU",
         "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "MAX_POOL_2D", "NEG", "QUANTIZE", "RELU", "RELU6",
         "RELU_0_TO_1", "RELU_N1_TO_1", "SPACE_TO_DEPTH",
         "CAST", "CEIL", "COS", "FLOOR", "ROUND", "SIGN", "SIN",
         "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "RSQRT", "SQRT", "SQUARE", "TANH"),
        _only_first,
    ),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "PRELU",
                     "SQUARED_DIFFERENCE"), _joined),
    **dict.fromkeys(("SPLIT", "SPLIT_V"), _split),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), _over),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), _along_last),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), _pad),
    "CONCATENATION": _concatenation,
    "FULLY_CONNECTED": _dense,
    "SQUEEZE": _squeeze,
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "REVERSE_V2", "CUMSUM"), _over),
    dilation.DEAL: _deal,
    dilation.GATHER: _only_first,
    "BATCH_MATMUL": _products,
    "BROADCAST_TO": _broadcast,
    "EXPAND_DIMS": _expand,
    "GATHER": _gather,
    "PACK": _pack,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "UNPACK": _unpack,
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transpose_conv,
}  # fmt: skip
