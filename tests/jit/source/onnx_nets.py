"""Quantised networks as ONNX exporters write them, operator by operator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from ml_dtypes import iinfo
from numpy.typing import NDArray
from onnx import helper, numpy_helper

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}
_IR_VERSIONS = {21: 10, 25: 13}  #: by the first opset that needs them
F = np.float32


@dataclass(frozen=True)
class Tensor:
    """A dequantised tensor: its name, shape, scale and standard deviation."""

    name: str
    shape: tuple[int, ...]
    scale: float
    spread: float


class NetBuilder:
    """Nodes, constants and edges of a model; activations are ``int8`` or ``uint8``."""

    def __init__(self, seed: int = 0, activations: str = "uint8", opset: int = 13) -> None:
        self.rng = np.random.default_rng(seed)
        self.activations, self.opset = activations, opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value: Any) -> str:
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        output = self.name(kind.lower() + "_")
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def input(self, shape: tuple[int, ...], dtype: str = "float32") -> str:
        name = self.name("x")
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))
        return name

    def output(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> None:
        self.outputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))

    def zero(self, value: int) -> Any:
        """A zero point given as of int8."""
        return np.asarray(value + (128 if self.activations == "uint8" else 0), self.activations)

    def quantise(self, name: str, scale: float, zero_point: int) -> str:
        return self.op("QuantizeLinear", [name, self.constant(F(scale)), self.constant(self.zero(zero_point))])

    def dequantise(self, name: str, scale: Any, zero_point: Any, **attributes: Any) -> str:
        constants = [self.constant(np.asarray(scale, F)), self.constant(zero_point)]
        return self.op("DequantizeLinear", [name, *constants], **attributes)

    def pair(self, name: str, shape: tuple[int, ...], scale: float, zero_point: int, spread: float = 1.0) -> Tensor:
        """QuantizeLinear and DequantizeLinear."""
        quantised = self.quantise(name, scale, zero_point)
        return Tensor(self.dequantise(quantised, scale, self.zero(zero_point)), shape, scale, spread)

    def real_input(self, shape: tuple[int, ...], scale: float = 0.0217, zero_point: int = 3) -> Tensor:
        return self.pair(self.input(shape), shape, scale, zero_point)

    def raw_input(self, shape: tuple[int, ...], scale: float = 0.0217, zero_point: int = 3) -> Tensor:
        name = self.dequantise(self.input(shape, self.activations), scale, self.zero(zero_point))
        return Tensor(name, shape, scale, 1.0)

    def fitted(self, name: str, shape: tuple[int, ...], spread: float) -> Tensor:
        """A pair that suits values of this spread."""
        scale = float(F(spread * self.rng.uniform(4, 8) / 255))
        return self.pair(name, shape, scale, int(self.rng.integers(-40, 40)), spread)

    def weight(
        self,
        shape: tuple[int, ...],
        axis: int = 0,
        per_channel: bool = True,
        dtype: str = "int8",
        zero_point: int = 0,
        cast: str = "",
    ) -> tuple[str, NDArray[Any]]:
        """(dequantised weights, their scales). ``cast``: the type that they become first."""
        info = iinfo(dtype)
        values = self.rng.integers(info.min + 1, info.max + 1, shape).astype(dtype)
        scales = self.rng.uniform(0.002, 0.006, shape[axis] if per_channel else ()).astype(F)
        zeros = np.full(scales.shape, zero_point, cast or dtype)
        extra = {"axis": axis} if per_channel else {}
        stored = self.constant(values)
        if cast:
            stored = self.op("Cast", [stored], to=_TYPES[cast])
        return self.dequantise(stored, scales, zeros, **extra), scales

    def bias(self, x: Tensor, scales: NDArray[Any], channels: int) -> str:
        values = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        product = F(x.scale) * scales
        extra = {"axis": 0} if product.ndim else {}
        return self.dequantise(self.constant(values), product, np.zeros(product.shape, np.int32), **extra)

    def conv(self, x: Tensor, channels: int, kernel: int = 3, group: int = 1, bias: bool = True, **more: Any) -> str:
        """A convolution of x, float32; ``more``: attributes."""
        axes = len(x.shape) - 2
        shape = (channels, x.shape[1] // group, *(kernel,) * axes)
        weight, scales = self.weight(shape, per_channel=bool(self.rng.integers(0, 4)))
        operands = [x.name, weight] + ([self.bias(x, scales, channels)] if bias else [])
        return self.op("Conv", operands, kernel_shape=[kernel] * axes, group=group, **more)

    def gemm(self, x: str, like: Tensor, rows: int, columns: int, bias: bool = True) -> str:
        weight, scales = self.weight((columns, rows))
        operands = [x, weight] + ([self.bias(like, scales, columns)] if bias else [])
        return self.op("Gemm", operands, transB=1)

    def save(self, path: Path) -> Path:
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        ir_version = max([8, *(ir for opset, ir in _IR_VERSIONS.items() if self.opset >= opset)])
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=ir_version), str(path))
        return path
