"""Random quantised networks as ONNX exporters write them, and some as they had better not."""

from __future__ import annotations

from collections.abc import Callable
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


def random_net(path: Path, seed: int) -> Path:
    """A network of 5 to 10 random operators on images, and a classifier."""
    rng = np.random.default_rng(seed)
    b = NetBuilder(seed, activations=str(rng.choice(["int8", "uint8"])))
    first = b.raw_input if rng.random() < 0.3 else b.real_input
    tensors = [first((1, int(rng.integers(2, 9)), 10, 9))]
    for _ in range(int(rng.integers(5, 11))):
        x = tensors[-1] if rng.random() < 0.7 else tensors[int(rng.integers(len(tensors)))]
        made = _STEPS[int(rng.integers(len(_STEPS)))](b, x, tensors)
        if made is None:
            continue
        name, shape, spread = made
        tail = rng.random()
        if tail < 0.4:
            name = b.op("Relu", [name])
        elif tail < 0.5:
            name = b.op("Clip", [name, b.constant(F(-0.4 * spread)), b.constant(F(1.5 * spread))])
        if rng.random() < 0.3 and tail < 0.4:
            tensors.append(b.pair(name, shape, float(F(spread * 4 / 255)), -128, spread))
        else:
            tensors.append(b.fitted(name, shape, spread))
        if rng.random() < 0.1:
            scale = float(F(tensors[-1].scale * rng.uniform(0.7, 1.4)))
            again = b.dequantise(b.nodes[-1].input[0], scale, b.zero(int(rng.integers(-20, 20))))
            tensors[-1] = Tensor(again, shape, scale, spread)
        if rng.random() < 0.15:
            b.output(tensors[-1].name, shape)
    _classifier(b, tensors[-1])
    return b.save(path)


def _classifier(b: NetBuilder, x: Tensor) -> None:
    if b.rng.random() < 0.5:
        pooled = b.op("GlobalAveragePool", [x.name])
        x = b.fitted(pooled, (1, x.shape[1], 1, 1), x.spread / 3)
    count = int(np.prod(x.shape))
    flat = b.op("Flatten", [x.name], axis=1)
    if b.rng.random() < 0.5:
        flat = b.pair(flat, (1, count), x.scale, 0).name if b.rng.random() < 0.3 else flat
    y = b.gemm(flat, x, count, 7)
    ending = b.rng.random()
    if ending < 0.2:
        b.output(y, (1, 7))
    elif ending < 0.5:
        b.output(b.quantise(y, 0.05, 3), (1, 7), b.activations)
    else:
        b.output(b.fitted(y, (1, 7), 0.4 * x.spread * count**0.5).name, (1, 7))


_Made = tuple[str, tuple[int, ...], float] | None


def _convolution(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    channels = int(b.rng.integers(2, 12))
    group, kernel, stride = 1, int(b.rng.choice([1, 3])), int(b.rng.integers(1, 3))
    if b.rng.random() < 0.3:
        group = channels = x.shape[1]
    if min(x.shape[2:]) < kernel:
        return None
    pad = int(b.rng.integers(0, kernel // 2 + 1))
    size = tuple((n + 2 * pad - kernel) // stride + 1 for n in x.shape[2:])
    bias = bool(b.rng.integers(0, 2))
    y = b.conv(x, channels, kernel, group, bias, strides=[stride] * 2, pads=[pad] * 4)
    return y, (1, channels, *size), 0.25 * x.spread * (kernel**2 * x.shape[1] / group) ** 0.5


def _add(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    others = [t for t in tensors if t.shape == x.shape]
    other = others[int(b.rng.integers(len(others)))]
    return b.op("Add", [x.name, other.name]), x.shape, x.spread + other.spread


def _concat(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    others = [t for t in tensors if t.shape[2:] == x.shape[2:]]
    other = others[int(b.rng.integers(len(others)))]
    shape = (1, x.shape[1] + other.shape[1], *x.shape[2:])
    return b.op("Concat", [x.name, other.name], axis=1), shape, max(x.spread, other.spread)


def _pool(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    kind = str(b.rng.choice(["MaxPool", "AveragePool"]))
    if min(x.shape[2:]) < 3:
        return None
    y = b.op(kind, [x.name], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1])
    return y, (1, x.shape[1], (x.shape[2] - 2) // 2 + 1, x.shape[3]), x.spread


def _pad(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    y = b.op("Pad", [x.name, b.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))])
    return y, (1, x.shape[1], x.shape[2] + 1, x.shape[3] + 2), x.spread


def _unary(kind: str) -> Callable[[NetBuilder, Tensor, list[Tensor]], _Made]:
    return lambda b, x, tensors: (b.op(kind, [x.name]), x.shape, min(x.spread, 1.0))


def _same(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    return b.op("Identity", [x.name]), x.shape, x.spread


def _float_product(b: NetBuilder, x: Tensor, tensors: list[Tensor]) -> _Made:
    return b.op("Mul", [b.op("Sin", [x.name]), b.constant(F(1.3))]), x.shape, 1.0


_STEPS: list[Callable[[NetBuilder, Tensor, list[Tensor]], _Made]] = [
    _convolution, _convolution, _convolution, _convolution, _add, _add, _concat, _pool, _pad, _unary("Sigmoid"),
    _unary("LeakyRelu"), _same, _float_product,
]  # fmt: skip
