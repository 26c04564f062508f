"""Operators that only the host computes, in NumPy or in an interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.ir.base import Graph, Op
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.regions import Array
from tilewright.runtime import host
from tilewright.runtime.steps import (
    CastStep,
    ConstantStep,
    DequantizeStep,
    QuantizeStep,
    SoftmaxStep,
    Step,
    TableSoftmaxStep,
    TransposeStep,
)


@dataclass(kw_only=True)
class HostOp(Op):
    """An operator that only the host computes."""

    because: ClassVar[str] = "change of representation"
    refusable = False

    def compute(self, x: Array) -> Array:
        """The result, in NumPy."""
        raise NotImplementedError(f"{self.kind} is not computed in NumPy")

    def meaning(self, d: Domain, x: Any) -> Any:
        return d.on_host(self.compute, x)

    def why_host(self, graph: Graph) -> str | None:
        return self.because


@dataclass(kw_only=True)
class Softmax(HostOp):
    """TFLite int8 softmax over the last axis, exact integers."""

    multiplier: int
    left_shift: int
    diff_min: int
    because = "softmax is exact on the host"

    def compute(self, x: Array) -> Array:
        return host.softmax_int8(x, self.multiplier, self.left_shift, self.diff_min)

    def host_step(self, graph: Graph) -> Step:
        return SoftmaxStep(self.inputs[0], self.output, self.multiplier, self.left_shift, self.diff_min)


@dataclass(kw_only=True)
class TableSoftmax(HostOp):
    """ONNX Runtime's softmax of uint8 (here 128 less) over the last axis: each value's place below the row's greatest
    is looked up in ``table``, of 256 float32, and its share of the sum times ``factor`` is rounded; ``zero_point`` as
    of uint8."""

    table: tuple[float, ...]
    factor: float
    zero_point: int
    because = "softmax is exact on the host"

    def compute(self, x: Array) -> Array:
        return host.softmax_by_table(x, np.array(self.table, np.float32), self.factor, self.zero_point)

    def host_step(self, graph: Graph) -> Step:
        return TableSoftmaxStep(self.inputs[0], self.output, self.table, self.factor, self.zero_point)


@dataclass(kw_only=True)
class HostCast(HostOp):
    """Change of representation, e.g. uint8 <-> int8 (``x - 128``): ``y = (x + offset)`` as ``dtype``."""

    offset: int
    dtype: str

    def compute(self, x: Array) -> Array:
        return host.cast(x, self.offset, self.dtype)

    def host_step(self, graph: Graph) -> Step:
        return CastStep(self.inputs[0], self.output, self.offset, self.dtype)


@dataclass(kw_only=True)
class QuantizeFloat(HostOp):
    """float32 -> ``dtype``: ``clamp(round(x / scale) + zero_point)``; ``rounding`` of ties: even or away."""

    scale: float
    zero_point: int
    dtype: str
    rounding: Literal["even", "away"]

    def compute(self, x: Array) -> Array:
        return host.quantize(x, self.scale, self.zero_point, self.dtype, self.rounding)

    def host_step(self, graph: Graph) -> Step:
        return QuantizeStep(self.inputs[0], self.output, self.scale, self.zero_point, self.dtype, self.rounding)


@dataclass(kw_only=True)
class DequantizeFloat(HostOp):
    """Integers -> float32: ``(x - zero_point) * scale``."""

    scale: float
    zero_point: int

    def compute(self, x: Array) -> Array:
        return host.dequantize(x, self.scale, self.zero_point)

    def host_step(self, graph: Graph) -> Step:
        return DequantizeStep(self.inputs[0], self.output, self.scale, self.zero_point)


@dataclass(kw_only=True)
class Transpose(HostOp):
    """Axes in the order ``permutation``."""

    permutation: tuple[int, ...]

    def compute(self, x: Array) -> Array:
        return np.ascontiguousarray(x.transpose(self.permutation))

    def host_step(self, graph: Graph) -> Step:
        return TransposeStep(self.inputs[0], self.output, self.permutation)


@dataclass(kw_only=True)
class Constant(HostOp):
    """``values`` for every inference. Of ``inputs``, what the network is given, nothing is read."""

    values: NDArray[Any]
    because = "a constant of the model"

    def compute(self, x: Array) -> Array:
        return self.values

    def host_step(self, graph: Graph) -> Step:
        return ConstantStep.of(self.inputs[0], self.output, self.values)


@dataclass(kw_only=True)
class Interpreted(HostOp):
    """One operator of the model file that the interpreter the file came from runs on the host.

    ``results`` are all its outputs (``output`` the first, "" where there is none). Operators with a common ``state``
    must run in one interpreter: they read and write the same variable.
    """

    results: tuple[str, ...]
    reason: str
    state: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.results

    def meaning(self, d: Domain, *inputs: Any) -> Any:
        raise ValueError(f"{self.name} ({self.kind}) runs in an interpreter")

    def why_host(self, graph: Graph) -> str | None:
        return self.reason
