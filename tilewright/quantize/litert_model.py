"""Float ``.tflite`` models as ai-edge-quantizer takes them: constants of float32, a signature, every result read."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from tilewright.jit.source.tflite.composites import drop_other_subgraphs, inline_composites
from tilewright.jit.source.tflite.file import unpacked
from tilewright.quantize.base import Array, QuantizeError
from tilewright.runtime.apart import Apart
from tilewright.runtime.litert.kernels import Kernels
from tilewright.runtime.litert.schema import (
    DTYPES,
    PACKED,
    blocks_of,
    keep_used_codes,
    kinds,
    read_model,
    schema,
    text,
    vector,
    written,
)

SIGNATURE = "main"


def float_form(content: bytes) -> bytes:
    """The model with constants of float32 in place of float16 and of dynamic-range quantisation's integers.

    Both keep activations of float32: a DEQUANTIZE gives the constant, or the operator reads the integers itself, as
    LiteRT's hybrid kernels do. Weights that are quantised again, to as many bits, get the same integers. Composites
    and sparse constants are written out, which the quantiser passes by; signatures that are models of their own are
    left out, as it would miss their ranges.
    Raises QuantizeError for scales that do not fit their constant.
    """
    model = read_model(content)
    inline_composites(model)
    drop_other_subgraphs(model)
    _densify(model)
    names = kinds(model)
    for subgraph in vector(model.subgraphs):
        stored = {i: x for i in range(len(subgraph.tensors)) if (x := _real(model, subgraph, i)) is not None}
        kept, changed = [], {}
        for op in vector(subgraph.operators):
            if names[op.opcodeIndex] == "DEQUANTIZE" and int(op.inputs[0]) in stored:  # sound: it has one
                changed[int(op.outputs[0])] = stored[int(op.inputs[0])]
                continue
            kept.append(op)
            if any(subgraph.tensors[int(i)].type == schema().TensorType.FLOAT32 for i in vector(op.outputs)):
                changed |= {int(i): stored[int(i)] for i in vector(op.inputs) if int(i) in stored}
        for index, values in changed.items():
            _store(model, subgraph.tensors[index], values)
        subgraph.operators = kept
    keep_used_codes(model)
    return written(model)


def _densify(model: Any) -> None:
    """Puts constants in the place of what DENSIFY makes of sparse ones: LiteRT runs them by themselves, once."""
    names, main = kinds(model), model.subgraphs[0]
    found = [op for op in vector(main.operators) if names[op.opcodeIndex] == "DENSIFY"]
    if not found:
        return
    made = [int(op.outputs[0]) for op in found]
    alone, part = copy.copy(model), copy.copy(main)
    part.operators, part.inputs, part.outputs = [copy.copy(op) for op in found], [], made
    alone.subgraphs, alone.signatureDefs, alone.metadata = [part], None, None
    keep_used_codes(alone)
    for index, values in zip(made, Apart(Kernels, written(alone), True)([]), strict=True):
        main.tensors[index] = _constant(model, main.tensors[index], values)
    main.operators = [op for op in main.operators if names[op.opcodeIndex] != "DENSIFY"]


def _constant(model: Any, tensor: Any, values: Array) -> Any:
    buffer, made = schema().BufferT(), copy.copy(tensor)
    buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    model.buffers.append(buffer)
    made.buffer = len(model.buffers) - 1
    return made


def signed(content: bytes) -> bytes:
    """The model with one signature, by which the quantiser runs it, whatever signatures it has, and more results.

    What operators make and none reads (the gate of a state that is still zero) LiteRT gives no memory, and the
    quantiser asks for its range, nor gives it the type of the operator's other results. So it is a result of the model
    until :func:`with_results`.

    Files of old converters have their operators' codes in the field of old alone, where the quantiser does not look.
    """
    model = read_model(content)
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    main = model.subgraphs[0]
    read = {int(i) for op in vector(main.operators) for i in vector(op.inputs)} | {int(i) for i in main.outputs}
    made = [int(i) for op in vector(main.operators) for i in vector(op.outputs)]
    main.outputs = [int(i) for i in main.outputs] + [i for i in made if i not in read]
    signature = schema().SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = SIGNATURE, 0
    signature.inputs = [_named(f"x{k}", index) for k, index in enumerate(main.inputs)]
    signature.outputs = [_named(f"y{k}", index) for k, index in enumerate(main.outputs)]
    model.signatureDefs = [signature]
    return written(model)


def with_results(content: bytes, count: int) -> bytes:
    """The model with its first ``count`` results alone, without what only served to convert the others."""
    model = read_model(content)
    main = model.subgraphs[0]
    if len(main.outputs) == count:
        return content
    names = kinds(model)
    dropped = {int(i) for i in main.outputs[count:]} - {int(i) for i in main.outputs[:count]}
    read = {int(i) for op in main.operators for i in vector(op.inputs)}
    main.outputs = [int(i) for i in main.outputs[:count]]
    main.operators = [
        op
        for op in main.operators
        if names[op.opcodeIndex] not in ("DEQUANTIZE", "QUANTIZE") or int(op.outputs[0]) not in dropped - read
    ]
    for signature in vector(model.signatureDefs):
        signature.outputs = signature.outputs[:count]
    keep_used_codes(model)
    return written(model)


def has_scales(content: bytes) -> bool:
    """Whether any tensor of the main subgraph is of 8 or 16 bits with a scale."""
    tensors = read_model(content).subgraphs[0].tensors
    stored = [t for t in tensors if DTYPES.get(t.type) in ("int8", "int16") and t.quantization is not None]
    return any(len(vector(t.quantization.scale)) for t in stored)


def _named(name: str, index: int) -> Any:
    entry = schema().TensorMapT()
    entry.name, entry.tensorIndex = name, int(index)
    return entry


def _real(model: Any, subgraph: Any, index: int) -> Array | None:
    """The real numbers that a constant of float16, or of integers with scales, stands for; None where it is neither."""
    tensor = subgraph.tensors[index]
    stored = model.buffers[tensor.buffer].data
    if stored is None or not len(stored) or tensor.sparsity or tensor.isVariable:
        return None
    shape, content = tuple(int(d) for d in vector(tensor.shape)), np.asarray(stored, np.uint8)
    if DTYPES.get(tensor.type) == "float16":
        return content.view(np.float16).reshape(shape).astype(np.float32)
    blocks = _blocks(model, subgraph, tensor)
    scales = np.asarray(vector(tensor.quantization.scale) if tensor.quantization is not None else [], np.float32)
    if (blocks is None and not scales.size) or (
        DTYPES.get(tensor.type) not in ("int8", "uint8") and tensor.type not in PACKED
    ):
        return None
    if tensor.type in PACKED:
        values = unpacked(content, PACKED[tensor.type][1], shape)
    else:
        values = content.view(DTYPES[tensor.type]).reshape(shape)
    if blocks is not None:
        return np.asarray(values.reshape(blocks.size, -1).astype(np.float32) * blocks[:, None]).reshape(shape)
    zero_points = np.asarray(vector(tensor.quantization.zeroPoint), np.float32)
    along, axis = [1] * len(shape), int(tensor.quantization.quantizedDimension)
    if scales.size > 1:
        if not (0 <= axis < len(shape) and scales.size == shape[axis] and zero_points.size in (0, scales.size)):
            name = text(tensor.name)
            raise QuantizeError(f"constant {name!r} of shape {shape} has {scales.size} scales along axis {axis}")
        along[axis] = -1
    offset = zero_points[: scales.size].reshape(along) if zero_points.size else np.float32(0)
    return np.asarray((values.astype(np.float32) - offset) * scales.reshape(along), np.float32)


def _blocks(model: Any, subgraph: Any, tensor: Any) -> Array | None:
    """The scale of each block that the rows of a constant are cut into; None where there are no blocks.

    They are a constant of float16 of their own. Raises QuantizeError where it does not fit.
    """
    details, name = blocks_of(tensor), text(tensor.name)
    if details is None:
        return None
    if details.zeroPoints >= 0:
        raise QuantizeError(f"constant {name!r} has blocks with zero points; give them none")
    size, shape, stored = int(details.blockSize), [int(d) for d in tensor.shape], np.zeros(0, np.uint8)
    if 0 <= details.scales < len(subgraph.tensors):
        stored = np.asarray(vector(model.buffers[subgraph.tensors[details.scales].buffer].data), np.uint8)
    if size < 1 or shape[-1] % size or stored.size < 2 * (math.prod(shape) // size):
        raise QuantizeError(f"constant {name!r} of shape {shape} has blocks of {size} and scales that do not fit")
    return stored[: stored.size // 2 * 2].view(np.float16)[: math.prod(shape) // size].astype(np.float32)


def _store(model: Any, tensor: Any, values: Array) -> None:
    tensor.buffer, tensor.type = _constant(model, tensor, values).buffer, schema().TensorType.FLOAT32
    tensor.quantization = None
