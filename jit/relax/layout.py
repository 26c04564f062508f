"""NCHW modules (ONNX) rewritten to NHWC, the layout of the graph, with transposes only at the edges.

Each variable of the old function is stored in the new one with its axes in some order; operators are rebuilt on what
is stored, a transpose in the model merely relabels it, and where an operator cannot be rebuilt its operands are
brought back to the model's own order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Binding, Expr, Var
from tilewright.jit.relax.compat_passes import Rewriter

NHWC_OF_NCHW = (0, 2, 3, 1)
_WINDOWED = ("relax.nn.conv2d", "relax.nn.avg_pool2d", "relax.nn.max_pool2d")
_UNARY = (
    *("relax.quantize", "relax.dequantize", "relax.nn.relu", "relax.clip", "relax.astype"),
    *("relax.sigmoid", "relax.tanh", "relax.exp", "relax.sqrt", "relax.abs", "relax.negative", "relax.nn.leakyrelu"),
)
_BINARY = ("relax.add", "relax.subtract", "relax.multiply", "relax.maximum", "relax.minimum")
_RESHAPING = ("relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten")
_REDUCING = ("relax.mean", "relax.max", "relax.sum")


@dataclass(frozen=True)
class Stored:
    """How an old tensor lies in the new function: ``value = transpose(old, order)``, then flattened to ``flat``."""

    value: Expr
    order: tuple[int, ...]
    flat: tuple[int, ...] | None = None  #: shape before a flatten from axes in ``order``

    @property
    def plain(self) -> bool:
        return self.flat is None and self.order == tuple(range(len(self.order)))


def has_nchw(mod: Any) -> bool:
    """Whether any convolution, pooling or mean of ``main`` works on NCHW tensors."""
    return any(_is_nchw(b.value) for b in compat.bindings(mod["main"]))


def _is_nchw(call: Expr) -> bool:
    """Whether a call works over the height and width of an NCHW tensor."""
    name = compat.op_name(call)
    if name == "relax.mean" and call.attrs.axis is not None and len(compat.shape(compat.arguments(call)[0])) == 4:
        return sorted(axis % 4 for axis in compat.ints(call.attrs.axis)) == [2, 3]
    if name not in _WINDOWED:
        return False
    layout = call.attrs.data_layout if name == "relax.nn.conv2d" else call.attrs.layout
    return str(layout) == str(call.attrs.out_layout) == "NCHW"


def to_nhwc(mod: Any) -> Any:
    """``mod`` with its NCHW convolutions and pools on NHWC tensors."""
    return _Pass(mod).run() if has_nchw(mod) else mod


class _Pass:
    def __init__(self, mod: Any) -> None:
        self.main = mod["main"]
        self.rewriter = Rewriter(mod)
        self.stored: dict[Var, Stored] = {}
        self.bound = {b.var: b.value for b in compat.bindings(self.main)}
        self.users: dict[Var, list[Binding]] = {}
        for binding in compat.bindings(self.main):
            for arg in compat.arguments(binding.value) if compat.is_call(binding.value) else []:
                if compat.is_var(arg):
                    self.users.setdefault(arg, []).append(binding)

    def run(self) -> Any:
        return self.rewriter.run(self._visit, self._result)

    def _result(self, value: Expr) -> Expr:
        if compat.is_tuple(value):
            return compat.make_tuple([self.plain(field) for field in compat.fields(value)])
        return self.plain(value)

    # ---- operands

    def get(self, expr: Expr) -> Stored:
        """How ``expr`` is stored; parameters that convolutions want in NHWC are transposed at their first use."""
        if not compat.is_var(expr) or not compat.is_tensor(expr):
            rank = len(compat.shape(expr)) if compat.is_constant(expr) else 0
            return Stored(self.rewriter.lookup(expr), tuple(range(rank)))
        if expr not in self.stored:
            self.stored[expr] = self._as_wanted(expr, expr)
        return self.stored[expr]

    def _as_wanted(self, var: Var, value: Expr) -> Stored:
        """``value``, the new ``var`` in the model's order, transposed at once if a convolution will want it so."""
        order = tuple(range(len(compat.shape(var))))
        wanted = self._wanted(var, order) if len(order) == 4 else None
        if not wanted or wanted == order:
            return Stored(value, order)
        return Stored(self.rewriter.emit(compat.permute_dims(value, wanted), f"{var.name}_nhwc"), wanted)

    def _wanted(self, var: Var, order: tuple[int, ...]) -> tuple[int, ...] | None:
        """The order in which the first layout-bound user of ``var`` (through element-wise ones) reads it."""
        for binding in self.users.get(var, ()):
            name = compat.op_name(binding.value)
            if _is_nchw(binding.value):
                return tuple(order[a] for a in NHWC_OF_NCHW)
            after = None
            if name == "relax.permute_dims":
                axes = compat.permutation(binding.value)
                after = self._wanted(binding.var, tuple(order[a] for a in axes))
            elif name in _UNARY or name in _BINARY or name == "relax.nn.pad":
                after = self._wanted(binding.var, order)
            if after:
                return after
        return None

    def ordered(self, expr: Expr, order: tuple[int, ...]) -> Expr:
        """``expr`` stored with its axes in ``order``."""
        stored = self.get(expr)
        if stored.flat is None and stored.order == order:
            return stored.value
        plain = self.plain(expr)
        if order == tuple(range(len(order))):
            return plain
        shape = tuple(compat.shape(expr)[a] for a in order)
        if sum(d != 1 for d in shape) <= 1:  # one axis only: a reshape says the same and stays a constant view
            return self.rewriter.emit(compat.reshape(plain, shape))
        return self.rewriter.emit(compat.permute_dims(plain, order))

    def plain(self, expr: Expr) -> Expr:
        """``expr`` in the model's own order."""
        if compat.is_tuple(expr):
            return compat.make_tuple([self.plain(field) for field in compat.fields(expr)])
        stored = self.get(expr)
        if stored.plain:
            return stored.value
        value = stored.value
        if stored.flat is not None:
            value = self.rewriter.emit(compat.reshape(value, tuple(stored.flat[a] for a in stored.order)))
        value = self.rewriter.emit(compat.permute_dims(value, tuple(int(a) for a in np.argsort(stored.order))))
        return value if stored.flat is None else self.rewriter.emit(compat.reshape(value, compat.shape(expr)))

    # ---- operators

    def _visit(self, rewriter: Rewriter, binding: Binding) -> Expr:
        if not compat.is_tensor(binding.var):
            value = binding.value
            if compat.is_call(value):
                value = compat.call_like(value, [self.plain(a) for a in compat.arguments(value)])
                return rewriter.emit(value, binding.name)
            return rewriter.emit(self.plain(value) if compat.is_tuple(value) else rewriter.rebuild(value), binding.name)
        stored = self._rebuild(binding)
        self.stored[binding.var] = stored
        return stored.value

    def _rebuild(self, binding: Binding) -> Stored:
        call, rank = binding.value, len(compat.shape(binding.var))
        same = tuple(range(rank))
        name = compat.op_name(call)
        if compat.is_var(call):
            return self.get(call)
        if not compat.is_call(call):
            return Stored(self.rewriter.emit(self.rewriter.rebuild(call), binding.name), same)
        args = compat.arguments(call)
        if name in _WINDOWED and _is_nchw(call):
            x = self.ordered(args[0], NHWC_OF_NCHW)
            rebuilt = compat.in_nhwc(call, [x, *(self.plain(a) for a in args[1:])])
            return Stored(self.rewriter.emit(rebuilt, binding.name), NHWC_OF_NCHW)
        if name in _UNARY and not self._per_channel(call):
            x_stored = self.get(args[0])
            rebuilt = compat.call_like(call, [x_stored.value, *(self.rewriter.lookup(a) for a in args[1:])])
            return Stored(self.rewriter.emit(rebuilt, binding.name), x_stored.order, x_stored.flat)
        if name == "relax.permute_dims" and self.get(args[0]).flat is None and not self._constant(args[0]):
            axes, x_stored = compat.permutation(call), self.get(args[0])
            order = tuple(axes.index(a) for a in x_stored.order)
            return Stored(x_stored.value, order)
        if name in _BINARY and all(len(compat.shape(a)) == rank for a in args):
            order = next((s.order for s in map(self.get, args) if not s.plain and s.flat is None), same)
            rebuilt = compat.call_like(call, [self.ordered(a, order) for a in args])
            return Stored(self.rewriter.emit(rebuilt, binding.name), order)
        if name == "relax.concat":
            return self._concat(binding)
        if name in _RESHAPING:
            return self._reshape(binding)
        if name in _REDUCING:
            return self._reduce(binding)
        if name == "relax.nn.pad" and self.get(args[0]).flat is None:
            order = self.get(args[0]).order
            rebuilt = compat.pad_in_order(call, self.get(args[0]).value, order)
            return Stored(self.rewriter.emit(rebuilt, binding.name), order)
        if name == "relax.matmul" and self.get(args[0]).flat is not None and self._takes(args[1], 0):
            stored = self.get(args[0])
            assert stored.flat is not None
            index = np.arange(int(np.prod(stored.flat))).reshape(stored.flat).transpose(stored.order).reshape(-1)
            rebuilt = compat.call_like(call, [stored.value, self._taken(args[1], index, 0)])
            return Stored(self.rewriter.emit(rebuilt, binding.name), same)
        rebuilt = compat.call_like(call, [self.plain(a) for a in args])
        return self._as_wanted(binding.var, self.rewriter.emit(rebuilt, binding.name))

    def _per_channel(self, call: Expr) -> bool:
        scales = [a for a in compat.arguments(call)[1:3] if compat.is_constant(a)]
        return any(compat.array(a).size > 1 for a in scales) and not self.get(compat.arguments(call)[0]).plain

    def _constant(self, expr: Expr) -> bool:
        while compat.is_var(expr) and compat.op_name(self.bound.get(expr)) in (
            "relax.dequantize",
            "relax.permute_dims",
            "relax.reshape",
        ):
            expr = compat.arguments(self.bound[expr])[0]
        return compat.is_constant(expr)

    def _takes(self, expr: Expr, axis: int) -> bool:
        """Whether :meth:`_taken` gives this constant view of one or two axes, its scales as they are."""
        if compat.is_constant(expr):
            return compat.array(expr).ndim <= 2
        call: Expr = self.bound.get(expr)
        if compat.op_name(call) == "relax.permute_dims":
            return self._takes(compat.arguments(call)[0], compat.permutation(call)[axis])
        if compat.op_name(call) != "relax.dequantize":
            return False
        source, *numbers = compat.arguments(call)
        along = int(call.attrs.axis) % len(compat.shape(call))
        one = all(compat.is_constant(n) and compat.array(n).size == 1 for n in numbers)
        return (one or along != axis) and self._takes(source, axis)

    def _taken(self, expr: Expr, index: np.ndarray, axis: int) -> Expr:
        """The constant view ``expr`` with the entries of ``axis`` in the order ``index``; ask :meth:`_takes` first."""
        if compat.is_constant(expr):
            return compat.constant(np.take(compat.array(expr), index, axis=axis))
        call = self.bound[expr]
        args = compat.arguments(call)
        if compat.op_name(call) == "relax.permute_dims":
            axis = compat.permutation(call)[axis]
        return self.rewriter.emit(compat.call_like(call, [self._taken(args[0], index, axis), *args[1:]]))

    def _concat(self, binding: Binding) -> Stored:
        call = binding.value
        rank = len(compat.shape(binding.var))
        parts = self._tuple_fields(compat.arguments(call)[0])
        order = next((s.order for s in map(self.get, parts) if s.flat is None and not s.plain), tuple(range(rank)))
        axis = order.index(int(call.attrs.axis) % rank)
        value = compat.concat([self.ordered(p, order) for p in parts], axis)
        return Stored(self.rewriter.emit(value, binding.name), order)

    def _tuple_fields(self, expr: Expr) -> list[Expr]:
        while compat.is_var(expr):
            expr = self.bound[expr]
        return compat.fields(expr)

    def _reshape(self, binding: Binding) -> Stored:
        source = compat.arguments(binding.value)[0]
        stored, shape = self.get(source), compat.shape(binding.var)
        same = tuple(range(len(shape)))
        before = compat.shape(source)
        if stored.flat is None:
            wide = [a for a in stored.order if before[a] != 1]
            if wide == sorted(wide):  # the axes that matter are in the model's order
                if not stored.plain and len(shape) == 4 and shape == before:
                    return stored
                return Stored(self.rewriter.emit(compat.reshape(stored.value, shape), binding.name), same)
            if len(shape) == 2 and shape[0] == before[0] == 1:
                value = self.rewriter.emit(compat.reshape(stored.value, shape), binding.name)
                return Stored(value, stored.order, before)
        return self._as_wanted(binding.var, self.rewriter.emit(compat.reshape(self.plain(source), shape), binding.name))

    def _reduce(self, binding: Binding) -> Stored:
        call = binding.value
        source = compat.arguments(call)[0]
        stored, rank = self.get(source), len(compat.shape(source))
        if stored.flat is not None or call.attrs.axis is None:
            rebuilt = compat.call_like(call, [self.plain(source)])
            return Stored(self.rewriter.emit(rebuilt, binding.name), tuple(range(len(compat.shape(binding.var)))))
        axes = {int(a) % rank for a in compat.ints(call.attrs.axis)}
        keep = bool(call.attrs.keepdims)
        kept = [a for a in stored.order if a not in axes]
        if not keep and kept != sorted(kept):
            rebuilt = compat.call_like(call, [self.plain(source)])
            return Stored(self.rewriter.emit(rebuilt, binding.name), tuple(range(len(kept))))
        moved = sorted(stored.order.index(a) for a in axes)
        value = self.rewriter.emit(compat.reduce_like(call, stored.value, moved), binding.name)
        return Stored(value, stored.order if keep else tuple(range(len(kept))))
