"""A model of a batch as the same model of one image, where no operator looks across the batch.

As for ONNX (``jit/source/onnx/batch.py``): every operator that reads what depends on the inputs must be known to treat
the elements of the leading axis alike and apart, and to give a result that has them on its leading axis again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.tflite.file import File, Operator

#: operators on images, without which the accelerator has forms for a batch already: rows of matrices
_IMAGES = ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "TRANSPOSE_CONV")
_SHAPES = {"RESHAPE": 1, "TRANSPOSE_CONV": 0}  #: operators that are told their result's shape: by which operand


def take_one_image(file: File) -> int:
    """Changes the file's main subgraph to that of one image; returns the size of the batch.

    1, and nothing is changed, where it is no batch or does not come apart.
    """
    sizes = {file.tensors[i].shape[0] if len(file.tensors[i].shape) > 1 else 1 for i in file.inputs}
    images = any(op.kind in _IMAGES for op in file.operators)
    if len(sizes) != 1 or sizes == {1} or not images or len(file.model.subgraphs) > 1:
        return 1
    (batch,) = sizes
    try:
        batched = _batched(file, batch)
    except (Unsupported, AttributeError, IndexError, TypeError):  # options or operands that a rule does not expect
        return 1
    for index in batched:
        file.tensors[index] = replace(file.tensors[index], shape=(1, *file.tensors[index].shape[1:]))
    for op in file.operators:
        if op.kind in _SHAPES and op.outputs[0] in batched:
            _set_shape(file, op)
    return batch


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
        for index in op.outputs:
            _require(file.tensors[index].shape[:1] == (batch,))
            found.add(index)
    _require(all(index in found for index in file.outputs))
    return found


def _set_shape(file: File, op: Operator) -> None:
    """The shape that an operator is told, of one image: in the options of a RESHAPE, and as a constant of its own."""
    shape = [1, *file.tensors[op.outputs[0]].shape[1:]]
    main = file.model.subgraphs[0]
    stored = main.operators[op.index]
    if op.kind == "RESHAPE" and stored.builtinOptions is not None:
        stored.builtinOptions = copy.copy(stored.builtinOptions)
        stored.builtinOptions.newShape = shape
    if len(op.inputs) <= _SHAPES[op.kind]:
        return
    told = op.inputs[_SHAPES[op.kind]]
    values = np.array(shape, np.int32)
    buffer = copy.copy(file.model.buffers[0])
    buffer.data = values.view(np.uint8)
    file.model.buffers.append(buffer)
    tensor = copy.copy(main.tensors[told])
    tensor.buffer, tensor.shape, tensor.shapeSignature = len(file.model.buffers) - 1, [len(shape)], None
    main.tensors.append(tensor)
    number = len(main.tensors) - 1
    old = file.tensors[told]
    file.tensors.append(replace(old, index=number, shape=(len(shape),), data=values, name=f"{old.name}_{number}"))
    inputs = tuple(number if position == _SHAPES[op.kind] else index for position, index in enumerate(op.inputs))
    stored.inputs = list(inputs)
    file.operators[op.index] = replace(op, inputs=inputs, options=stored.builtinOptions)


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


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("ABS", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE", "ELU", "EXP", "GELU",
         "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "MAX_POOL_2D", "NEG", "QUANTIZE", "RELU", "RELU6",
         "RELU_0_TO_1", "RELU_N1_TO_1", "SPACE_TO_DEPTH",
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
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transpose_conv,
}  # fmt: skip
