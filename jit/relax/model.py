"""Calls of Relax as the nodes of an ONNX model, and dequantised constants as its initializers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Expr, Var
from tilewright.jit.source.operators import relax_row

#: gives the names of a call's results; with the element types that its operands may have
Row = tuple[Sequence[str], Callable[["Call"], "str | list[str]"]]


@dataclass(frozen=True)
class Quantised:
    """A constant ahead of its dequantize. ``scale`` and ``zero_point``: one number, or as many as ``axis`` is long."""

    values: NDArray[Any]
    scale: NDArray[Any]
    zero_point: NDArray[Any]
    axis: int

    def transposed(self, axes: Sequence[int]) -> Quantised:
        axis = list(axes).index(self.axis) if self.values.ndim else 0
        return Quantised(self.values.transpose(axes), self.scale, self.zero_point, axis)

    def reshaped(self, shape: Sequence[int]) -> Quantised | None:
        """None where the numbers do not lie along an axis of that shape."""
        axis, before = 0, self.values.shape
        if max(self.scale.size, self.zero_point.size) > 1:
            outer, size = int(np.prod(before[: self.axis])), before[self.axis]
            fits = [a for a, n in enumerate(shape) if n == size and int(np.prod(shape[:a])) == outer]
            if not fits:
                return None
            axis = fits[0]
        return Quantised(self.values.reshape(shape), self.scale, self.zero_point, axis)


@dataclass
class Model:
    """Nodes and constants of a model as they are written.

    ``rows``: how each operator is written; ``bound``: variable -> value, of all that may be; ``origin``: of each node,
    the variables it computes.
    """

    rows: Mapping[str, Row]
    bound: Mapping[Var, Expr]
    names: dict[Any, str] = field(default_factory=dict)  #: of variables, and of (tuple, index)
    nodes: list[Any] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    origin: list[set[Var]] = field(default_factory=list)
    added: dict[Var, tuple[Var, Expr]] = field(default_factory=dict)  #: sum -> the product in it, and the bias

    def constant(self, value: NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"constant{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], outputs: int, made: set[Var], attributes: Any) -> list[str]:
        from onnx import helper

        results = [f"tensor{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, results, name=f"{kind}_{len(self.nodes)}", **attributes))
        self.origin.append(made)
        return results

    def name(self, expr: Expr) -> str:
        """The tensor of an expression, which is written if it is not there yet."""
        if compat.is_constant(expr):
            return self.constant(compat.array(expr))
        if expr not in self.names:
            if expr not in self.bound:
                raise Unsupported("an operand that is no tensor")
            self.write(expr)
        return self.names[expr]

    def write(self, var: Var) -> None:
        """Write the call that gives ``var``."""
        value = self.bound[var]
        if compat.is_var(value):
            self.names[var] = self.name(value)
        elif compat.is_constant(value):
            self.names[var] = self.constant(compat.array(value))
        elif compat.is_tuple_item(value):
            self.write_once(value.tuple_value)
            self.names[var] = self.names[value.tuple_value, int(value.index)]
        elif (whole := self.quantised(var)) is not None:
            self.names[var] = self.dequantized(whole, {var})
        elif (plain := self.plain(var)) is not None:
            self.names[var] = self.constant(plain)
        elif var in self.added:
            product, bias = self.added[var]
            self.names[var] = self._call(product, {product, var}, bias)[0]
        else:
            results = self._call(var, {var})
            self.names[var] = results[0]
            self.names |= {(var, n): result for n, result in enumerate(results)}

    def write_once(self, var: Var) -> None:
        if var not in self.names:
            self.write(var)

    def _call(self, var: Var, made: set[Var], bias: Expr | None = None) -> list[str]:
        expr = self.bound[var]
        operator = compat.op_name(expr)
        if operator.removeprefix("relax.") not in self.rows:
            called = compat.callee(expr)
            raise Unsupported(f"a call of {called}" if called is not None else "ONNX has no operator for it")
        types, row = self.rows[operator.removeprefix("relax.")]
        call = Call(self, expr, var, made, bias)
        call.require([a for a in call.arguments if compat.is_tensor(a)], types)
        results = row(call)
        return [results] if isinstance(results, str) else results

    # -- constants

    def plain(self, expr: Expr) -> NDArray[Any] | None:
        """The value of a constant, through reshapes and transposes; None for other expressions."""
        if compat.is_constant(expr):
            return compat.array(expr)
        call = self.bound.get(expr)
        if not relax_row(compat.op_name(call)).is_view:
            return self.plain(call) if compat.is_var(call) or compat.is_constant(call) else None
        inner = self.plain(compat.arguments(call)[0])
        if inner is None:
            return None
        turned = compat.op_name(call) == "relax.permute_dims"
        return inner.transpose(compat.permutation(call)) if turned else inner.reshape(compat.shape(call))

    def quantised(self, expr: Expr) -> Quantised | None:
        """A dequantised constant, through reshapes and transposes; None for other expressions."""
        call: Expr = self.bound.get(expr)
        if compat.is_var(call):
            return self.quantised(call)
        name = compat.op_name(call)
        if name == "relax.dequantize" and compat.dtype(expr) == "float32":
            values, scale, zero = (self.plain(a) for a in compat.arguments(call))
            if values is None or scale is None or zero is None:
                return None
            axis = int(call.attrs.axis) % max(values.ndim, 1)
            return Quantised(values, scale.reshape(-1), zero.reshape(-1), axis)
        inner = self.quantised(compat.arguments(call)[0]) if relax_row(name).is_view else None
        if inner is None:
            return None
        if name == "relax.permute_dims":
            return inner.transposed(compat.permutation(call))
        return inner.reshaped(compat.shape(call))

    def dequantized(self, constant: Quantised, made: set[Var]) -> str:
        single = max(constant.scale.size, constant.zero_point.size) == 1
        shape = () if single else (constant.values.shape[constant.axis],)
        scale = np.broadcast_to(constant.scale if not single else constant.scale[0], shape).astype(np.float32)
        zero = np.broadcast_to(constant.zero_point if not single else constant.zero_point[0], shape)
        inputs = [constant.values, scale, zero.astype(constant.values.dtype)]
        axis = {} if single else {"axis": constant.axis}
        return self.node("DequantizeLinear", [self.constant(value) for value in inputs], 1, made, axis)[0]


@dataclass
class Call:
    """A call of Relax that a row writes as ONNX. ``made``: the variables of its nodes; ``added``: the bias in them."""

    model: Model
    expr: Expr
    var: Var
    made: set[Var]
    added: Expr | None = None

    @property
    def operator(self) -> str:
        return compat.op_name(self.expr)

    @property
    def attrs(self) -> Any:
        return self.expr.attrs

    @property
    def arguments(self) -> list[Expr]:
        return compat.arguments(self.expr)

    @property
    def shape(self) -> tuple[int, ...]:
        return compat.shape(self.var)

    @property
    def dtype(self) -> str:
        return compat.dtype(self.var)

    def require(self, exprs: Sequence[Expr], types: Collection[str]) -> None:
        """Raise Unsupported for an operand of another element type."""
        for expr in exprs:
            if compat.dtype(expr) not in types:
                raise Unsupported(f"an operand of type {compat.dtype(expr)}")

    def name(self, index: int) -> str:
        return self.model.name(self.arguments[index])

    def names(self) -> list[str]:
        return [self.model.name(argument) for argument in self.arguments]

    def elements(self, index: int) -> list[str]:
        """The tensors of an argument that is a tuple."""
        value = self.arguments[index]
        while compat.is_var(value):
            value = self.model.bound.get(value)
        if not compat.is_tuple(value):
            raise Unsupported("a tuple that another operator gives")
        self.require(compat.fields(value), (self.dtype,))
        return [self.model.name(item) for item in compat.fields(value)]

    def constant(self, value: NDArray[Any]) -> str:
        return self.model.constant(value)

    def emit(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.model.node(kind, inputs, 1, self.made, attributes)[0]

    def emit_several(self, kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        return self.model.node(kind, inputs, count, self.made, attributes)

    def scale_and_zero(self, dtype: str) -> list[str]:
        """Of quantize and dequantize: one number each, or those of the channels; the zero point of this type."""
        numbers = [self.model.plain(argument) for argument in self.arguments[1:3]]
        if any(value is None for value in numbers):
            raise Unsupported("scales that are not constant")
        scale, zero = (np.asarray(value).reshape(-1) for value in numbers)
        count = () if scale.size == zero.size == 1 else (max(scale.size, zero.size),)
        if not np.array_equal(zero.astype(dtype), zero):
            raise Unsupported(f"a zero point that {dtype} does not hold")
        typed = (scale.astype(np.float32), zero.astype(dtype))
        return [self.constant(np.broadcast_to(value if count else value[0], count)) for value in typed]

    def axis(self) -> dict[str, int]:
        """The axis along which the scales lie; none for one scale."""
        sizes = [np.asarray(self.model.plain(argument)).size for argument in self.arguments[1:3]]
        return {"axis": int(self.attrs.axis) % len(self.shape)} if max(sizes) > 1 else {}

    def in_layout(self, index: int, given: str, wanted: str) -> str:
        """An operand in another layout, constants as such."""
        axes = [given.index(letter) for letter in wanted]
        if given == wanted:
            return self.name(index)
        constant = self.model.quantised(self.arguments[index])
        if constant is not None:
            return self.model.dequantized(constant.transposed(axes), self.made)
        return self.emit("Transpose", [self.name(index)], perm=axes)

    def from_layout(self, result: str, given: str, wanted: str) -> str:
        axes = [given.index(letter) for letter in wanted]
        return result if given == wanted else self.emit("Transpose", [result], perm=axes)

    def bias(self) -> list[str]:
        """What is added per channel, as an operand of the product itself; nothing where there is none."""
        if self.added is None:
            return []
        constant = self.model.quantised(self.added)
        if constant is not None:
            flat = constant.reshaped((constant.values.size,))
            assert flat is not None  # a sum with a bias of other scales is written as it is
            return [self.model.dequantized(flat, self.made)]
        plain = self.model.plain(self.added)
        assert plain is not None
        return [self.constant(plain.reshape(-1))]
