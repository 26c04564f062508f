"""Writing ``.tflite`` files: tensors and operators by index, through the schema's object API."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.tensors import Array
from tilewright.runtime.litert.schema import DTYPES, PACKED, schema, written

#: operators whose first version does not know int8, or a field that is used here
_VERSIONS = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "TRANSPOSE_CONV": 3, "ADD": 2, "SUB": 2, "MUL": 2,
    "AVERAGE_POOL_2D": 2, "MAX_POOL_2D": 2, "MEAN": 2, "SUM": 2, "REDUCE_MAX": 2, "PAD": 2, "PADV2": 2,
    "CONCATENATION": 2, "SPLIT": 2, "STRIDED_SLICE": 2, "SLICE": 2, "TRANSPOSE": 2, "LEAKY_RELU": 2, "RELU": 2,
    "RELU6": 2, "LOGISTIC": 2, "TANH": 2, "SOFTMAX": 2, "DEQUANTIZE": 2, "RESIZE_BILINEAR": 2,
    "RESIZE_NEAREST_NEIGHBOR": 2, "SPACE_TO_BATCH_ND": 2, "BATCH_TO_SPACE_ND": 2, "SPACE_TO_DEPTH": 2,
    "ARG_MAX": 2, "L2_NORMALIZATION": 2, "GATHER": 2, "MAXIMUM": 2, "MINIMUM": 2, "LOG_SOFTMAX": 2,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 3, "RSQRT": 2, "ABS": 2, "BROADCAST_TO": 2,
}  # fmt: skip
#: types of which several numbers share a byte, and their bits
NARROW = dict(PACKED.values())
_CODES = {name: code for code, name in DTYPES.items()} | {name: code for code, (name, _) in PACKED.items()}


@dataclass
class StoredTensor:
    """One tensor of the file; ``data`` makes it a constant (of the types int4 and int2: int8), ``variable`` a state."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: Array | None = None
    zero_points: Array | None = None
    axis: int = 0
    data: Array | None = None
    variable: bool = False
    signature: list[int] | None = None


@dataclass
class StoredOperator:
    """One operator of the file; ``options`` names the schema's table and its fields, ``custom`` are a custom one's."""

    name: str
    inputs: list[int]
    outputs: list[int]
    options: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    intermediates: list[int] = field(default_factory=list)
    custom: bytes | None = None


def write_tflite(
    path: Path, tensors: list[StoredTensor], operators: list[StoredOperator], inputs: list[int], outputs: list[int]
) -> Path:
    """Write a model of one subgraph."""
    s = schema()
    model = s.ModelT()
    model.version, model.description = 3, "tilewright"
    model.buffers = [s.BufferT()]
    names = sorted({operator.name for operator in operators})
    model.operatorCodes = [_code(s, name) for name in names]
    graph = s.SubGraphT()
    graph.name = "main"
    graph.inputs, graph.outputs = inputs, outputs
    graph.tensors = [_tensor(s, tensor, model.buffers) for tensor in tensors]
    graph.operators = [_operator(s, operator, names) for operator in operators]
    model.subgraphs = [graph]
    path.write_bytes(written(model))
    return path


def packed(values: Array, bits: int) -> Array:
    """Integers of ``bits`` bits as bytes, the first in the lowest bits, zeros behind the last."""
    each = 8 // bits
    flat = values.reshape(-1).astype(np.int64) & ((1 << bits) - 1)
    rows = np.append(flat, np.zeros(-flat.size % each, np.int64)).reshape(-1, each)
    return np.asarray((rows << (bits * np.arange(each))).sum(axis=1), np.uint8)


def _code(s: Any, name: str) -> Any:
    code = s.OperatorCodeT()
    code.builtinCode = getattr(s.BuiltinOperator, name, s.BuiltinOperator.CUSTOM)
    if code.builtinCode == s.BuiltinOperator.CUSTOM:
        code.customCode = name
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = _VERSIONS.get(name, 1)
    return code


def _tensor(s: Any, stored: StoredTensor, buffers: list[Any]) -> Any:
    tensor = s.TensorT()
    tensor.name, tensor.shape = stored.name, list(stored.shape)
    tensor.type = _CODES[stored.dtype]
    tensor.isVariable, tensor.shapeSignature = stored.variable, stored.signature
    tensor.buffer = 0
    if stored.data is not None:
        buffer = s.BufferT()
        data = packed(stored.data, NARROW[stored.dtype]) if stored.dtype in NARROW else stored.data
        buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        buffers.append(buffer)
        tensor.buffer = len(buffers) - 1
    if stored.scales is not None:
        quantisation = s.QuantizationParametersT()
        quantisation.scale = np.atleast_1d(np.asarray(stored.scales, np.float32))
        zero_points = np.zeros(1) if stored.zero_points is None else np.asarray(stored.zero_points)
        quantisation.zeroPoint = np.broadcast_to(zero_points, quantisation.scale.shape).astype(np.int64)
        quantisation.quantizedDimension = stored.axis
        tensor.quantization = quantisation
    return tensor


def _operator(s: Any, stored: StoredOperator, names: list[str]) -> Any:
    operator = s.OperatorT()
    operator.opcodeIndex = names.index(stored.name)
    operator.inputs, operator.outputs = stored.inputs, stored.outputs
    if stored.intermediates:
        operator.intermediates = stored.intermediates
    if stored.custom is not None:
        operator.customOptions = np.frombuffer(stored.custom, np.uint8)
    if stored.options:
        options = getattr(s, f"{stored.options}T")()
        for name, value in stored.fields.items():
            if not hasattr(options, name):
                raise AttributeError(f"{stored.options} has no field {name}")
            setattr(options, name, value)
        operator.builtinOptionsType = getattr(s.BuiltinOptions, stored.options)
        operator.builtinOptions = options
    return operator
