"""Everything that depends on the version of TVM (written for 0.27), in one place, with its other half beside it
(:mod:`tilewright.jit.relax.compat_passes`).

The rest of the front end reads Relax through these few functions: constants, types, bindings, calls, passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.ir import GenericConst, GlobalVar, IRModule
from tvm.relax import dpl

from tilewright.jit.errors import Unsupported

Expr = Any  # relax expressions have no useful static types
Var = Any
Pattern = Any


@dataclass(frozen=True)
class Binding:
    """``var = value`` in a Relax function."""

    var: Var
    value: Expr

    @property
    def name(self) -> str:
        return str(self.var.name)


def bindings(function: Expr) -> list[Binding]:
    """All bindings of a straight-line Relax function, in order."""
    if not isinstance(function.body, relax.SeqExpr):
        return []
    return [Binding(b.var, b.value) for block in function.body.blocks for b in block.bindings]


def result(function: Expr) -> Expr:
    """The expression a function returns."""
    body = function.body
    return body.body if isinstance(body, relax.SeqExpr) else body


def is_var(expr: Expr) -> bool:
    """Whether this is a variable."""
    return isinstance(expr, relax.Var)


def is_tuple(expr: Expr) -> bool:
    """Whether this is a tuple expression."""
    return isinstance(expr, relax.Tuple)


def is_tuple_item(expr: Expr) -> bool:
    """Whether this takes an element of a tuple."""
    return isinstance(expr, relax.TupleGetItem)


def is_function(expr: Expr) -> bool:
    """Whether this is a Relax function."""
    return isinstance(expr, relax.Function)


def is_constant(expr: Expr) -> bool:
    """Whether this is a constant."""
    return isinstance(expr, GenericConst)


def array(expr: Expr) -> NDArray[Any]:
    """The value of a constant."""
    return np.asarray(expr.value.numpy())


def constant(value: NDArray[Any]) -> Expr:
    """A Relax constant."""
    value = np.asarray(value)
    return relax.const(value, str(value.dtype))


def is_module(value: Any) -> bool:
    """Whether this is a module of TVM."""
    return isinstance(value, IRModule)


def is_branch(expr: Expr) -> bool:
    """Whether this is one of two expressions, by a condition."""
    return isinstance(expr, relax.If)


def op_name(expr: Expr) -> str:
    """``relax.nn.conv2d`` for a call of that operator; "" for anything else."""
    if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
        return str(expr.op.name)
    return ""


def callee(expr: Expr) -> Expr | None:
    """The function a call calls (GlobalVar, Var or Function); None for operators and other expressions."""
    if isinstance(expr, relax.Call) and not isinstance(expr.op, tvm.ir.Op):
        return expr.op
    return None


def is_global(expr: Expr) -> bool:
    """Whether this names a function of the module."""
    return isinstance(expr, GlobalVar)


def arguments(expr: Expr) -> list[Expr]:
    """The arguments of a call."""
    return list(expr.args)


def operands(expr: Expr) -> list[Expr]:
    """What an expression reads: the arguments of a call, tuples among them taken apart; itself if it is a variable."""
    if isinstance(expr, relax.Call):
        called = [expr.op] if is_var(expr.op) else []
        return called + [o for arg in expr.args for o in operands(arg)]
    if isinstance(expr, relax.Tuple):
        return [o for field in expr.fields for o in operands(field)]
    return [expr.tuple_value] if isinstance(expr, relax.TupleGetItem) else [expr]


def fields(expr: Expr) -> list[Expr]:
    """The elements of a Relax tuple."""
    return list(expr.fields)


def make_tuple(values: Sequence[Expr]) -> Expr:
    """A Relax tuple."""
    return relax.Tuple(list(values))


def is_call(expr: Expr) -> bool:
    """Whether this is a call."""
    return isinstance(expr, relax.Call)


def call_like(call: Expr, args: Sequence[Expr]) -> Expr:
    """The same call with other arguments."""
    return relax.Call(call.op, list(args), call.attrs, call.ty_args)


def number(expr: Expr) -> float:
    """The value of a scalar immediate argument (clip bounds, pad values) or scalar constant."""
    if is_constant(expr):
        return float(array(expr).reshape(()))
    return float(expr.value)


def shape(expr: Expr) -> tuple[int, ...]:
    """The static shape of a tensor expression; raises ValueError where it is not static."""
    dims = getattr(expr.ty, "shape", None)
    if dims is None:
        raise ValueError("unknown shape")
    values = dims.values if hasattr(dims, "values") else dims
    out = []
    for dim in values:
        if not hasattr(dim, "value"):
            raise ValueError(f"symbolic dimension {dim}")
        out.append(int(dim.value))
    return tuple(out)


def symbol(expr: Expr) -> str | None:
    """The first dimension of a tensor, or of a tuple's, that is no number; "?" where not even the rank is known."""
    if isinstance(expr.ty, relax.TupleType):
        return next((found for field in expr.ty.fields if (found := _symbol(field)) is not None), None)
    return _symbol(expr.ty)


def _symbol(kind: Any) -> str | None:
    if not isinstance(kind, relax.TensorType):
        return None
    dims = getattr(kind.shape, "values", kind.shape)
    return "?" if dims is None else next((str(dim) for dim in dims if not hasattr(dim, "value")), None)


def dtype(expr: Expr) -> str:
    """The element type of a tensor expression."""
    return str(expr.ty.dtype)


def is_tensor(expr: Expr) -> bool:
    """Whether this has a tensor type."""
    return isinstance(getattr(expr, "ty", None), relax.TensorType)


def permutation(call: Expr) -> tuple[int, ...]:
    """The axes of a ``permute_dims`` call."""
    rank = len(shape(call))
    axes = call.attrs.axes
    return tuple(range(rank))[::-1] if axes is None else tuple(axis % rank for axis in ints(axes))


def ints(value: Any) -> tuple[int, ...]:
    """An attribute array (or a single integer) as Python integers."""
    try:
        return tuple(int(v) for v in value)
    except TypeError:
        return (int(value),)


def integers(expr: Expr) -> tuple[int, ...]:
    """The values of a tuple of immediate integers, as an operand."""
    items = expr.fields if isinstance(expr, relax.Tuple) else getattr(expr, "values", None)
    if items is None or not all(hasattr(item, "value") for item in items):
        raise Unsupported("places that are not constant")
    return tuple(int(item.value) for item in items)


def pair(value: Any) -> tuple[int, int]:
    """An attribute of two integers."""
    first, second = ints(value)
    return first, second


def quad(value: Any) -> tuple[int, int, int, int]:
    """An attribute of four integers."""
    top, left, bottom, right = ints(value)
    return top, left, bottom, right


def attribute(function: Expr, name: str) -> str:
    """A string attribute of a function; "" where it has none."""
    attrs = function.attrs
    return str(attrs[name]) if attrs and name in attrs else ""


def with_main_attribute(mod: IRModule, name: str, value: str) -> IRModule:
    """A copy of the module whose ``main`` has one more string attribute."""
    others = dict(mod.functions_items())
    main = next(gv for gv in others if str(gv.name_hint) == "main")
    return IRModule({**others, main: others[main].with_attr(name, value)})


def with_attribute(function: Expr, name: str, value: str) -> Expr:
    """The function with one more string attribute."""
    return function.with_attr(name, value)


def functions(mod: IRModule) -> list[tuple[Any, Expr]]:
    """(GlobalVar, function) of all Relax functions of a module."""
    return [(gv, f) for gv, f in mod.functions_items() if isinstance(f, relax.Function)]


def is_op(name: str) -> Pattern:
    """Pattern: a call of this operator."""
    return dpl.is_op(name)


def wildcard() -> Pattern:
    """Pattern: anything."""
    return dpl.wildcard()


def is_const() -> Pattern:
    """Pattern: a constant."""
    return dpl.is_const()


def tuple_of(patterns: Iterable[Pattern]) -> Pattern:
    """Pattern: a tuple of these."""
    return dpl.is_tuple(list(patterns))
