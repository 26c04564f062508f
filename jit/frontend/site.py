"""Where a lowering rule works: one composite's expressions on one side, the graph being built on the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import compat
from tilewright.jit.compat import Expr, Var
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Graph, HostCast, Op, Reshape, TensorSpec

#: whose arithmetic the integers must equal: LiteRT's reference kernels, or ONNX Runtime's float32 scaling
LITERT, ONNX_RUNTIME = "litert", "onnxruntime"
SEMANTICS_ATTRIBUTE = "tilewright.semantics"  #: on main and on regions: one of these
SOURCE_ATTRIBUTE = "tilewright.source"  #: on composites: the model file's operator


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
    """The graph's shape of a tensor of rank 1 to 4: ones go in after the batch axis."""
    if len(shape) > 4:
        raise Unsupported(f"a tensor of rank {len(shape)} (shape {shape})")
    if len(shape) > 1 and shape[0] != 1:
        raise Unsupported(f"batch {shape[0]} (shape {shape}); only batch 1 is lowered")
    rest = shape[1:] if len(shape) > 1 else shape
    full = (1,) * (4 - len(rest)) + rest
    return full[0], full[1], full[2], full[3]


@dataclass
class GraphBuilder:
    """A graph under construction, and the tensor that each Relax variable became."""

    semantics: str = LITERT
    ops: list[Op] = field(default_factory=list)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    names: dict[Var, str] = field(default_factory=dict)
    exactness: list[LayerExactness] = field(default_factory=list)

    def declare(self, name: str, shape: tuple[int, ...], dtype: str = "int8", like: Quantisation | None = None) -> str:
        """A new tensor; its name is made unique."""
        unique, n = name, 1
        while unique in self.tensors:
            n += 1
            unique = f"{name}_{n}"
        scale, zero_point = (like.scale, like.zero_point) if like else (1.0, 0)
        self.tensors[unique] = TensorSpec(unique, shape, dtype, scale, zero_point)
        return unique

    def add_input(self, var: Var, label: str = "", interface: bool = True) -> str:
        """A graph input for ``var``, named ``label``, and the host steps that make it NHWC int8.

        At the model's ``interface`` the input keeps the model's dtype; elsewhere (behind a quantise step of the edge)
        uint8 is already held as int8.
        """
        shape, dtype = compat.shape(var), compat.dtype(var)
        if dtype not in ("int8", "uint8"):
            raise Unsupported(f"input {label or var.name!r} is {dtype}; int8 or uint8 is needed")
        name = current = self.declare(label or str(var.name), shape, dtype if interface else "int8")
        if self.tensors[name].dtype == "uint8":
            current = self.append(HostCast, "cast_" + name, [current], shape, offset=-128, dtype="int8")
        if len(shape) != 4:
            target = nhwc(shape)
            current = self.append(Reshape, "reshape_" + name, [current], target, shape=target)
        self.names[var] = current
        return name

    def add_output(self, var: Var, interface: bool = True) -> str:
        """The graph tensor that holds ``var`` in the model's own shape, after any host steps needed.

        At the model's ``interface`` also in its dtype; behind a dequantise step of the edge uint8 stays int8.
        """
        shape, dtype = compat.shape(var), compat.dtype(var)
        current = self.names[var]
        if self.tensors[current].shape != shape:
            like = self.quantisation(current)
            current = self.append(Reshape, f"reshape_{current}", [current], shape, like=like, shape=shape)
        if dtype == "uint8" and interface:
            like = self.quantisation(current)
            stored = Quantisation(like.scale, like.zero_point + 128)
            current = self.append(
                HostCast, f"cast_{current}", [current], shape, "uint8", like=stored, offset=128, dtype="uint8"
            )
        return current

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
        """Appends an operator whose output tensor bears its name; returns that name."""
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
        return Graph(name, inputs, outputs, self.tensors, self.ops)


@dataclass
class Site:
    """One composite: resolves its expressions and emits operators into ``builder``.

    ``arguments`` maps the composite's parameters to the caller's variables (empty where they are the same).
    """

    builder: GraphBuilder
    root: Expr
    bound: Mapping[Var, Expr]
    arguments: Mapping[Var, Var]
    name: str
    source: str = ""

    @property
    def semantics(self) -> str:
        return self.builder.semantics

    def value(self, expr: Expr) -> Expr:
        """``expr``, looked up through the composite's bindings."""
        while compat.is_var(expr) and expr in self.bound:
            expr = self.bound[expr]
        return expr

    def op(self, expr: Expr) -> str:
        return compat.op_name(self.value(expr))

    def argument(self, expr: Expr, index: int = 0) -> Expr:
        """Argument ``index`` of the call ``expr``, looked up."""
        return self.value(self.value(expr).args[index])

    def tensor(self, expr: Expr) -> Operand:
        """The int8 tensor a composite reads as it is."""
        var = self.value(expr)
        if not compat.is_var(var):
            raise Unsupported(f"a {'constant' if compat.is_constant(var) else compat.op_name(var)} as an operand")
        var = self.arguments.get(var, var)
        if compat.dtype(var) not in ("int8", "uint8"):
            raise Unsupported(f"an operand of type {compat.dtype(var)} where int8 is needed")
        if var not in self.builder.names:
            self.builder.add_input(var)
        name = self.builder.names[var]
        spec = self.builder.tensors[name]
        return Operand(name, spec.shape, self.builder.quantisation(name))

    def dequantised(self, expr: Expr) -> Operand:
        """The int8 tensor behind ``dequantize(tensor, scale, zero_point)``, per tensor."""
        call = self.value(expr)
        if compat.op_name(call) != "relax.dequantize":
            raise Unsupported(f"{compat.op_name(call) or 'an operand'} where a dequantised tensor is needed")
        operand = self.tensor(compat.arguments(call)[0])
        quantisation = self.quantisation(call, compat.dtype(self.argument(call)))
        self.builder.learn(operand.name, quantisation)
        return Operand(operand.name, operand.shape, quantisation)

    def quantisation(self, call: Expr, dtype: str) -> Quantisation:
        """Scale and zero point of a per-tensor quantize or dequantize call."""
        scale = compat.array(self.argument(call, 1)).reshape(-1)
        zero_point = compat.array(self.argument(call, 2)).reshape(-1)
        if (scale != scale[0]).any() or (zero_point != zero_point[0]).any():
            raise Unsupported("activations quantised per channel")
        if dtype not in ("int8", "uint8"):
            raise Unsupported(f"activations quantised to {dtype}")
        if not (np.isfinite(scale[0]) and scale[0] > 0):
            raise Unsupported(f"the scale {scale[0]} of an activation")
        return Quantisation(float(scale[0]), int(zero_point[0]) - (128 if dtype == "uint8" else 0))

    def output_quantisation(self, call: Expr) -> Quantisation:
        """Of a quantize call: the quantisation of its result."""
        return self.quantisation(call, compat.dtype(self.value(call)))

    def constant(self, expr: Expr) -> QuantisedConstant:
        """A dequantised constant, through any reshape or transpose before or after dequantisation."""
        call = self.value(expr)
        name = compat.op_name(call)
        if name == "relax.dequantize":
            return self._dequantised_constant(call)
        if name not in ("relax.reshape", "relax.permute_dims", "relax.expand_dims", "relax.squeeze"):
            raise Unsupported(f"{name or 'an expression'} where a quantised constant is needed")
        inner = self.constant(self.argument(call))
        shape = compat.shape(call)
        if name == "relax.permute_dims":
            axes = compat.permutation(call)
            return QuantisedConstant(inner.values.transpose(axes), inner.scales.transpose(axes))
        return QuantisedConstant(inner.values.reshape(shape), inner.scales.reshape(shape))

    def _dequantised_constant(self, call: Expr) -> QuantisedConstant:
        values = self._integers(self.argument(call))
        scale = compat.array(self.argument(call, 1)).astype(np.float32)
        zero_point = compat.array(self.argument(call, 2)).astype(np.int64)
        if scale.size > 1:
            axis = int(call.attrs.axis) % values.ndim
            along = [1] * values.ndim
            along[axis] = scale.size
            scale = scale.reshape(along)
            zero_point = zero_point.reshape(along) if zero_point.size > 1 else zero_point
        if zero_point.any():
            moved = values.astype(np.int64) - zero_point
            if values.dtype not in (np.int8, np.uint8) or moved.min() < -128 or moved.max() > 127:
                raise Unsupported("weights with a zero point that do not fit int8 without it")
            values = moved.astype(np.int8)
        elif values.dtype == np.uint8:
            raise Unsupported("uint8 weights with zero point 0")
        return QuantisedConstant(values, np.broadcast_to(scale, values.shape))

    def _integers(self, expr: Expr) -> NDArray[Any]:
        call = self.value(expr)
        if compat.is_constant(call):
            return compat.array(call)
        if compat.op_name(call) == "relax.permute_dims":
            return self._integers(self.argument(call)).transpose(compat.permutation(call))
        if compat.op_name(call) == "relax.reshape":
            return self._integers(self.argument(call)).reshape(compat.shape(call))
        raise Unsupported("weights that are not constant")

    def emit(
        self, kind: type[Op], inputs: list[str], out_shape: tuple[int, ...], like: Quantisation, **fields: Any
    ) -> str:
        """Appends the composite's operator."""
        return self.builder.append(kind, self.name, inputs, out_shape, like=like, source=self.source, **fields)
