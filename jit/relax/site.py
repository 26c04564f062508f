"""Where a lowering rule works: one composite's expressions on one side, the graph being built on the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import HostCast, Reshape
from tilewright.jit.layers.builder import (
    LITERT,
    ONNX_RUNTIME,
    GraphBuilder,
    Layer,
    Operand,
    Quantisation,
    QuantisedConstant,
    nhwc,
)
from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Expr, Var
from tilewright.jit.source.operators import relax_row

SEMANTICS_ATTRIBUTE = "tilewright.semantics"  #: on main and on regions: one of these

BATCH_ATTRIBUTE = "tilewright.batch"  #: on main and on regions: the leading dimension of their images, as text

__all__ = [
    "BATCH_ATTRIBUTE",
    "LITERT",
    "ONNX_RUNTIME",
    "SEMANTICS_ATTRIBUTE",
    "Operand",
    "Quantisation",
    "QuantisedConstant",
    "RelaxBuilder",
    "Site",
    "nhwc",
]


@dataclass
class RelaxBuilder(GraphBuilder):
    """Also knows the tensor that each Relax variable became.

    ``batch``: the size of every tensor's leading axis in Relax; the graph is that of one element. No rule looks across
    that axis.
    """

    names: dict[Var, str] = field(default_factory=dict)
    batch: int = 1

    def element(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one element of the batch."""
        if self.batch == 1:
            return shape
        if len(shape) < 2 or shape[0] != self.batch:
            raise Unsupported(f"a tensor of shape {shape} in a model of batch {self.batch}")
        return (1, *shape[1:])

    def add_input(self, var: Var) -> str:
        """A graph input for ``var``, and the host steps that make it NHWC int8."""
        shape, dtype = self.element(compat.shape(var)), compat.dtype(var)
        if dtype not in ("int8", "uint8"):
            raise Unsupported(f"input {var.name!r} is {dtype}; int8 or uint8 is needed")
        name = current = self.declare(str(var.name), shape, dtype)
        if self.tensors[name].dtype == "uint8":
            current = self.append(HostCast, "cast_" + name, [current], shape, offset=-128, dtype="int8")
        if len(shape) != 4:
            target = nhwc(shape)
            current = self.append(Reshape, "reshape_" + name, [current], target, shape=target)
        self.names[var] = current
        return name

    def add_output(self, var: Var) -> str:
        """The graph tensor that holds ``var`` in its own shape and dtype, after any host steps needed."""
        shape, dtype = self.element(compat.shape(var)), compat.dtype(var)
        current = self.names[var]
        if self.tensors[current].shape != shape:
            like = self.quantisation(current)
            current = self.append(Reshape, f"reshape_{current}", [current], shape, like=like, shape=shape)
        if dtype == "uint8":
            like = self.quantisation(current)
            stored = Quantisation(like.scale, like.zero_point + 128)
            current = self.append(
                HostCast, f"cast_{current}", [current], shape, "uint8", like=stored, offset=128, dtype="uint8"
            )
        return current


@dataclass(kw_only=True)
class Site(Layer):
    """One composite: resolves its expressions and emits operators into ``builder``.

    ``arguments`` maps the composite's parameters to the caller's variables (empty where they are the same).
    """

    builder: RelaxBuilder
    root: Expr
    bound: Mapping[Var, Expr]
    arguments: Mapping[Var, Var]

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
        self.require_float32(call)
        operand = self.tensor(compat.arguments(call)[0])
        quantisation = self.quantisation(call, compat.dtype(self.argument(call)))
        self.builder.learn(operand.name, quantisation)
        return Operand(operand.name, operand.shape, quantisation)

    def require_float32(self, expr: Expr) -> None:
        """Raises Unsupported for numbers of another float type, which rounds where the integers do not."""
        if compat.dtype(self.value(expr)) != "float32":
            raise Unsupported(f"real numbers of type {compat.dtype(self.value(expr))}")

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
        if not relax_row(name).is_view:
            raise Unsupported(f"{name or 'an expression'} where a quantised constant is needed")
        inner = self.constant(self.argument(call))
        shape = compat.shape(call)
        if name == "relax.permute_dims":
            axes = compat.permutation(call)
            return QuantisedConstant(inner.values.transpose(axes), inner.scales.transpose(axes))
        return QuantisedConstant(inner.values.reshape(shape), inner.scales.reshape(shape))

    def _dequantised_constant(self, call: Expr) -> QuantisedConstant:
        self.require_float32(call)
        values = self._integers(self.argument(call))
        along = [1] * values.ndim
        if values.ndim:
            along[int(call.attrs.axis) % values.ndim] = -1  # that of several scales or zero points
        numbers = (compat.array(self.argument(call, index)) for index in (1, 2))
        scale, zero_point = (n.reshape(along) if n.size > 1 else n.reshape(()) for n in numbers)
        scale, zero_point = scale.astype(np.float32), zero_point.astype(np.int64)
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
