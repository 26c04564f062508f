"""Float networks out of quantised ones: what a quantiser is given where no float file of a network is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fuzz.flatbuffer import packed
from tilewright.jit.source.tflite.file import File, unpacked
from tilewright.runtime.litert.schema import DTYPES, read_model, schema, written

_FLOAT32 = 0  #: TensorType of the schema


def float_tflite(content: bytes) -> bytes:
    """A ``.tflite`` file of 8-bit tensors with float32 in the place of each that has a scale."""
    model = read_model(content)
    for tensor in model.subgraphs[0].tensors:
        numbers, dtype = tensor.quantization, DTYPES.get(tensor.type)
        if dtype not in ("int8", "int32") or numbers is None or numbers.scale is None:
            continue
        data = model.buffers[tensor.buffer].data
        if data is not None:
            values = np.asarray(data, np.uint8).view(dtype).reshape(tensor.shape)
            axis = int(numbers.quantizedDimension)
            real = _real(values, np.asarray(numbers.scale), np.asarray(numbers.zeroPoint), axis)
            model.buffers[tensor.buffer] = schema().BufferT()  # no other tensor has it in these networks
            model.buffers[tensor.buffer].data = real.reshape(-1).view(np.uint8)
        tensor.type, tensor.quantization = _FLOAT32, None
    return written(model)


def float_onnx(model: Any) -> Any:
    """A QDQ model between int8 tensors with float32 in their place; a QuantizeLinear whose zero point is the least
    number of its type lets nothing below zero through, and becomes a Relu."""
    import onnx
    from onnx import helper, numpy_helper

    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    constants, nodes = [], []
    stands: dict[str, str] = {}  #: for each tensor that is quantised or dequantised, the float one
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in arrays:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
            values, scales, zeros = (arrays[name] for name in node.input)
            real = _real(values, scales, zeros, axis)
            constants.append(numpy_helper.from_array(real, node.output[0]))
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            stands[node.output[0]] = source = stands.get(node.input[0], node.input[0])
            zero_point = arrays[node.input[2]]
            if node.op_type == "QuantizeLinear" and zero_point == np.iinfo(zero_point.dtype).min:
                stands[node.output[0]] = f"{source}_relu"
                nodes.append(helper.make_node("Relu", [source], [f"{source}_relu"], f"{source}_relu"))
        else:
            inputs = [stands.get(name, name) for name in node.input]
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            nodes.append(helper.make_node(node.op_type, inputs, list(node.output), node.name, **attributes))
    shapes = [
        [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (model.graph.input[0], model.graph.output[0])
    ]
    last = stands[model.graph.output[0].name]
    ends = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in zip((model.graph.input[0].name, last), shapes, strict=True)
    ]
    graph = helper.make_graph(nodes, "float", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _real(values: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any], axis: int) -> NDArray[np.float32]:
    along = [1] * values.ndim
    if scales.size > 1:
        along[axis] = scales.size
    scales, zeros = (np.asarray(v, np.float64).reshape(along if v.size > 1 else ()) for v in (scales, zeros))
    return np.asarray((values - zeros) * scales, np.float32)


def ternary(path: Path) -> bytes:
    """A file (``.onnx`` or ``.tflite``) with its INT4 constants cut to -1, 0 and 1."""
    return _ternary_onnx(path) if path.suffix == ".onnx" else _ternary_tflite(path)


def _ternary_onnx(path: Path) -> bytes:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT4:
            values = numpy_helper.to_array(tensor)
            cut = np.clip(values.astype(np.int8), -1, 1).astype(values.dtype)
            tensor.CopyFrom(numpy_helper.from_array(cut, tensor.name))
    return bytes(model.SerializeToString())


def _ternary_tflite(path: Path) -> bytes:
    model = File(path).model
    for tensor in model.subgraphs[0].tensors:
        if tensor.type == schema().TensorType.INT4:
            data = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
            cut = np.clip(unpacked(data, 4, (2 * data.size,)), -1, 1)
            model.buffers[tensor.buffer].data = packed(cut, 4)
    return written(model)
