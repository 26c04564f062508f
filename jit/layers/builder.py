"""The integer graph under construction, and what a lowering rule of any front end works with.

Model files (``jit/source``) and Relax modules (``jit/relax``) meet here: both describe operands and results as
:class:`Operand` and :class:`Quantisation`, and emit operators through an :class:`Emitter`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Graph, HostCast, Op, Reshape, TensorSpec

#: whose arithmetic the integers must equal: LiteRT's reference kernels, or ONNX Runtime's float32 scaling
LITERT, ONNX_RUNTIME = "litert", "onnxruntime"


@dataclass(frozen=True)
class Quantisation:
    """Scale (exactly the file's float32) and zero point; uint8 tensors are held as int8, so theirs is less 128."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Operand:
    """A tensor a rule reads."""

    name: str
    shape: tuple[int, ...]  #: NHWC
    quantisation: Quantisation

    @property
    def scale(self) -> float:
        return self.quantisation.scale

    @property
    def zero_point(self) -> int:
        return self.quantisation.zero_point


@dataclass(frozen=True)
class Output:
    """What a layer's result is clamped and quantised to.

    ``stage``: of layers with weights, what the oracle makes of accumulators where that is not one product with a scale:
    a staircase of (C, n) accumulators, as ``jit/numbers/float_scaling.thresholds`` takes it.
    """

    quantisation: Quantisation
    lo: int = -128
    hi: int = 127
    stage: Callable[..., NDArray[np.int64]] | None = None


@dataclass(frozen=True)
class Weights:
    """The constants of a layer with weights, less their zero points, an output channel (OC) after the other."""

    values: NDArray[np.integer]  #: (OC, ...)
    scales: NDArray[np.float64]  #: (OC,)
    bias: NDArray[np.int64]  #: (OC,), in units of the sum


@dataclass(frozen=True)
class QuantisedConstant:
    """A constant that reaches a float operator through dequantize: integers, and a scale for each of them."""

    values: NDArray[Any]
    scales: NDArray[np.float32]  #: of the shape of ``values``

    def channel_scales(self, axis: int) -> NDArray[np.float64]:
        """One scale per index of ``axis``; raises Unsupported where it varies along the others."""
        rows = np.moveaxis(self.scales, axis, 0).reshape(self.scales.shape[axis], -1)
        if (rows != rows[:, :1]).any():
            raise Unsupported("the weight scale varies along an axis other than the output channel")
        return rows[:, 0].astype(np.float64)


def nhwc(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The graph's shape of a tensor of rank 0 to 4: ones go in front."""
    if len(shape) > 4:
        raise Unsupported(f"a tensor of rank {len(shape)} (shape {shape})")
    full = (1,) * (4 - len(shape)) + tuple(shape)
    if full[0] != 1:
        raise Unsupported(f"batch {shape[0]} (shape {shape}); only batch 1 is lowered")
    return full[0], full[1], full[2], full[3]


def stacked(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The graph's shape of a tensor of any rank and batch, for what works on pixels by themselves: all axes ahead of
    the last two become rows. That of an image is :func:`nhwc`."""
    return 1, math.prod(shape[:-2]), shape[-2] if len(shape) > 1 else 1, shape[-1] if shape else 1


@dataclass
class GraphBuilder:
    """A graph under construction."""

    semantics: str = LITERT
    ops: list[Op] = field(default_factory=list)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    exactness: list[LayerExactness] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)  #: of the network, as :meth:`finish` was told

    def declare(self, name: str, shape: tuple[int, ...], dtype: str = "int8", like: Quantisation | None = None) -> str:
        """A new tensor; its name is made unique."""
        unique, n = name, 1
        while unique in self.tensors:
            n += 1
            unique = f"{name}_{n}"
        scale, zero_point = (like.scale, like.zero_point) if like else (1.0, 0)
        self.tensors[unique] = TensorSpec(unique, shape, dtype, scale, zero_point)
        return unique

    def append(
        self,
        kind: type[Op],
        name: str,
        inputs: list[str],
        out_shape: tuple[int, ...],
        out_dtype: str = "int8",
        *,
        like: Quantisation | None = None,
        source: str = "",
        **fields: Any,
    ) -> str:
        """Appends an operator whose output tensor bears its name; returns that name.

        Raises Unsupported for tensors without elements, of which there is nothing to schedule.
        """
        shapes = [out_shape, *(self.tensors[tensor].shape for tensor in inputs if tensor in self.tensors)]
        if any(0 in shape for shape in shapes):
            raise Unsupported(f"{name}: a tensor without elements")
        output = self.declare(name, out_shape, out_dtype, like or self.quantisation(inputs[0]))
        self.ops.append(kind(name=output, inputs=inputs, output=output, source=source, **fields))
        return output

    def quantisation(self, tensor: str) -> Quantisation:
        spec = self.tensors[tensor]
        return Quantisation(spec.scale, spec.zero_point)

    def learn(self, tensor: str, quantisation: Quantisation) -> None:
        """Records the quantisation under which a consumer reads ``tensor``, also back through host steps."""
        spec = self.tensors[tensor]
        self.tensors[tensor] = replace(spec, scale=quantisation.scale, zero_point=quantisation.zero_point)
        producer = next((op for op in self.ops if op.output == tensor), None)
        if isinstance(producer, Reshape):
            self.learn(producer.inputs[0], quantisation)
        elif isinstance(producer, HostCast):
            moved = Quantisation(quantisation.scale, quantisation.zero_point - producer.offset)
            self.learn(producer.inputs[0], moved)

    def finish(self, name: str, inputs: list[str], outputs: list[str]) -> Graph:
        self.inputs = inputs
        return Graph(name, inputs, outputs, self.tensors, self.ops)


@dataclass
class Layer:
    """One operator of the model as a lowering rule sees it: where it emits, and under which name.

    ``name``: of the operator and its result; ``source``: as reports show it; ``covers``: the positions in the model
    file that it stands for.
    """

    builder: GraphBuilder
    name: str
    source: str = ""
    covers: tuple[int, ...] = ()

    @property
    def semantics(self) -> str:
        return self.builder.semantics

    def emit(
        self, kind: type[Op], inputs: list[str], out_shape: tuple[int, ...], like: Quantisation, **fields: Any
    ) -> str:
        """Appends the layer's operator; returns the name of its result."""
        return self.builder.append(
            kind, self.name, inputs, out_shape, like=like, source=self.source, covers=self.covers, **fields
        )

    def report(self, exactness: LayerExactness) -> None:
        """Notes what can be promised about the layer's integers."""
        self.builder.exactness.append(exactness)

    def report_exact(self, channels: int, method: str = "") -> None:
        """Notes that the layer's arithmetic is the oracle's own."""
        entry = LayerExactness(self.name, self.semantics, channels, channels)
        self.report(replace(entry, method=method) if method else entry)
