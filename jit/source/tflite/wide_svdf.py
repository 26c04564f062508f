"""An SVDF with a state of int8 as two with states of int16, which are all that LiteRT's integer kernel knows.

It takes weights over time and state for int16 whatever the file says, and would read and write past their ends. The
numbers of TensorFlow Lite Micro's kernel, which has both forms, are those of

1. an SVDF that remembers nothing: the new numbers of the state, as int8 with its zero point;
2. one whose weights of inputs are ones on the diagonal, on these: its state is of int16, the rest as in the file.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.runtime.litert.schema import schema, vector

_INPUT, _FEATURE, _TIME, _BIAS, _STATE = range(5)


def widened(op: Any, tensors: list[Any], constants: dict[int, NDArray[Any]], time: NDArray[Any] | None) -> list[Any]:
    """The operators in place of ``op``, whose tensors are ``tensors``. New ones are appended; values of constants are
    noted under their numbers. ``time``: the weights over time, if they are known. Raises Unsupported where they
    must be."""
    types = schema().TensorType
    inputs = list(vector(op.inputs))
    if len(inputs) <= _STATE or inputs[_STATE] < 0 or tensors[inputs[_STATE]].type != types.INT8:
        return [op]
    if tensors[inputs[_TIME]].type != types.INT8:  # in neither kernel: the state alone is widened
        tensors[inputs[_STATE]].type = types.INT16
        return [op]
    if time is None:
        raise Unsupported("an SVDF with a state of int8, for which LiteRT has no kernel, and weights that are computed")

    def new(like: int, name: str, shape: list[int], kind: int, scale: float, zero_point: int = 0) -> int:
        tensor = copy.copy(tensors[like])
        tensor.name, tensor.shape, tensor.shapeSignature, tensor.type = name.encode(), shape, None, kind
        tensor.quantization = schema().QuantizationParametersT()
        tensor.quantization.scale = np.array([scale], np.float32)
        tensor.quantization.zeroPoint = np.array([zero_point], np.int64)
        tensors.append(tensor)
        return len(tensors) - 1

    def constant(like: int, name: str, values: NDArray[Any], kind: int, scale: float) -> int:
        index = new(like, name, list(values.shape), kind, scale)
        constants[index] = values
        return index

    state = tensors[inputs[_STATE]]
    scale, zero_point = float(state.quantization.scale[0]), int(state.quantization.zeroPoint[0])
    batch, filters = int(state.shape[0]), len(time)
    ones = constant(inputs[_TIME], "ones", np.ones((filters, 1), np.int16), types.INT16, 1.0)
    alone = constant(inputs[_FEATURE], "alone", np.eye(filters, dtype=np.int8), types.INT8, 1.0)
    over_time = float(tensors[inputs[_TIME]].quantization.scale[0])
    wide = constant(inputs[_TIME], "over time", time.astype(np.int16), types.INT16, over_time)
    last = new(inputs[_STATE], "last", [batch, filters], types.INT16, scale)
    kept = new(inputs[_STATE], "kept", list(state.shape), types.INT16, scale)
    fresh = new(op.outputs[0], "fresh", [batch, filters], types.INT8, scale, zero_point)
    first, second = copy.copy(op), copy.copy(op)
    first.builtinOptions = copy.copy(op.builtinOptions)
    first.builtinOptions.rank = 1
    first.inputs, first.outputs = [*inputs[:_TIME], ones, -1, last], [fresh]
    second.inputs = [fresh, alone, wide, inputs[_BIAS], kept]
    return [first, second]
