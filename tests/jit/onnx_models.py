"""Small QDQ ONNX models for tests, and ONNX Runtime as their oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_TYPES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


class QdqBuilder:
    """Builds a QDQ graph node by node; tensors are float names, quantised through :meth:`quantised`."""

    def __init__(self, seed: int = 0, activations: str = "int8", opset: int = 13) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.activations = np.dtype(activations)
        self.opset = opset
        self.scales: dict[str, float] = {}
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value: Any) -> str:
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        output = self.name(kind.lower())
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def input(self, shape: list[int], dtype: str = "float32", scale: float = 0.02, zero_point: int = 3) -> str:
        """A graph input; float ones are quantised at once, integer ones dequantised with the given numbers."""
        name = self.name("x")
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        if dtype == "float32":
            return self.quantised(name, scale, zero_point)
        return self.dequantised(name, scale, zero_point, np.dtype(dtype))

    def quantised(self, tensor: str, scale: float, zero_point: int) -> str:
        """QuantizeLinear and DequantizeLinear."""
        arguments = [self.constant(np.float32(scale)), self.constant(self.activations.type(zero_point))]
        return self.dequantised(self.node("QuantizeLinear", [tensor, *arguments]), scale, zero_point, self.activations)

    def dequantised(self, tensor: str, scale: Any, zero_point: Any, dtype: np.dtype[Any], **attributes: Any) -> str:
        arguments = [self.constant(np.asarray(scale, np.float32)), self.constant(np.asarray(zero_point, dtype))]
        output = self.node("DequantizeLinear", [tensor, *arguments], **attributes)
        self.scales[output] = scale
        return output

    def weight(self, shape: tuple[int, ...], scale: float = 0.01, axis: int | None = 0) -> tuple[str, NDArray[Any]]:
        """A dequantised int8 weight, per channel along ``axis`` unless None; also its scales."""
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        if axis is None:
            scales: Any = np.float32(scale)
            return self.dequantised(self.constant(values), scales, 0, np.dtype(np.int8)), scales
        scales = (scale * self.rng.uniform(0.3, 1.7, shape[axis])).astype(np.float32)
        zeros = np.zeros(shape[axis], np.int8)
        return self.dequantised(self.constant(values), scales, zeros, np.dtype(np.int8), axis=axis), scales

    def bias(self, x: str, scales: Any, channels: int, size: int = 3000) -> str:
        values = self.rng.integers(-size, size, channels).astype(np.int32)
        product = np.float32(self.scales[x]) * np.asarray(scales, np.float32)
        zeros = np.zeros(np.shape(product), np.int32)
        extra = {"axis": 0} if np.ndim(product) else {}
        return self.dequantised(self.constant(values), product, zeros, np.dtype(np.int32), **extra)

    def conv(self, x: str, weight: tuple[int, ...], bias: bool = True, **attributes: Any) -> str:
        w, scales = self.weight(weight)
        operands = [x, w] + ([self.bias(x, scales, weight[0])] if bias else [])
        return self.node("Conv", operands, kernel_shape=list(weight[2:]), **attributes)

    def save(self, path: Path, output: str, shape: list[int], dtype: str = "float32") -> Path:
        """Writes the model; ``dtype`` int8 or uint8 drops the last DequantizeLinear."""
        last = self.nodes[-1]
        if dtype != "float32":
            assert last.op_type == "DequantizeLinear"
            output = last.input[0]
            self.nodes.pop()
        graph = helper.make_graph(
            self.nodes,
            "test",
            self.inputs,
            [helper.make_tensor_value_info(output, _TYPES[dtype], shape)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, str(path))
        return path


def onnx_runtime(path: Path, inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """ONNX Runtime's outputs, without the saturating instructions of older CPUs."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)
