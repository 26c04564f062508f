"""Passes over Relax, and the packed functions it calls: a part of :mod:`tilewright.jit.relax.compat`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax.transform import FuseOpsByPattern, FusionPattern, MergeCompositeFunctions

from tilewright.jit.relax.compat import (
    Binding,
    Expr,
    Pattern,
    Var,
    array,
    attribute,
    bindings,
    call_like,
    callee,
    constant,
    fields,
    functions,
    is_call,
    is_global,
    is_tuple,
    is_tuple_item,
    is_var,
    result,
    with_attribute,
)

#: (variable, matched expression, bindings of the match) -> whether to accept it
Check = Callable[[Var, Expr, Mapping[Var, Expr]], bool]


Fusion = tuple[str, Pattern, Check]


def fuse_by_pattern(mod: IRModule, patterns: Sequence[Fusion]) -> IRModule:
    """FuseOpsByPattern with constants bound."""

    def wrap(check: Check) -> Callable[[Any], bool]:
        def checked(context: Any) -> bool:
            root, bound = context.matched_expr, dict(context.matched_bindings.items())
            var = next((v for v, value in bound.items() if value.same_as(root)), None)
            return var is not None and check(var, root, bound)

        return checked

    fusion = [FusionPattern(name, pattern, {"root": pattern}, wrap(check)) for name, pattern, check in patterns]
    return _on_main(FuseOpsByPattern(fusion, bind_constants=True), mod)


def merge_composites(mod: IRModule) -> IRModule:
    """MergeCompositeFunctions: neighbouring composites become one region function."""
    return _on_main(MergeCompositeFunctions(), mod)


def _on_main(passed: Any, mod: IRModule) -> IRModule:
    """What a pass makes of ``main`` and what it calls as composites: MergeCompositeFunctions fails at composites of
    other functions, which are another back end's meanwhile."""
    others = [
        gv
        for gv, function in functions(mod)
        if str(gv.name_hint) != "main" and not any(attribute(function, name) for name in ("Codegen", "Composite"))
    ]
    marked = IRModule({**dict(mod.functions_items()), **{gv: with_attribute(mod[gv], "Codegen", "-") for gv in others}})
    found = passed(marked)
    for gv, function in functions(found):
        if attribute(function, "Codegen") == "-":
            found[gv] = function.without_attr("Codegen")
    return found


def inline_into_main(mod: IRModule) -> IRModule:
    """The module with what ``main`` calls written out in it, but for what a back end has taken."""
    found, main = mod, mod["main"]
    inlined = {gv: f for gv, f in functions(mod) if str(gv.name_hint) != "main" and not attribute(f, "Codegen")}
    if any(callee(binding.value) in inlined for binding in bindings(main)):
        found = IRModule(dict(mod.functions_items()))
        found["main"] = main.inline_functions(inlined)
    return found


def rename_functions(mod: IRModule, names: Mapping[str, str]) -> IRModule:
    """The module with some functions under other names; ``names``: old -> new."""
    moved: dict[str, Any] = {}

    def visit(rewriter: Rewriter, binding: Binding) -> Expr:
        value = rewriter.rebuild(binding.value)
        target = callee(value)
        if target is not None and is_global(target):
            old = str(target.name_hint)
            if old not in names:
                return rewriter.emit(value, binding.name)
            if old not in moved:
                moved[old] = rewriter.builder.add_func(_unnamed(mod[target]), names[old])
            value = call_like(relax.Call(moved[old], value.args), value.args)
        return rewriter.emit(value, binding.name)

    return Rewriter(mod, [gv for gv, _ in functions(mod) if str(gv.name_hint) in names]).run(visit)


def _unnamed(function: Expr) -> Expr:
    """A function without its global symbol, so that it may take the name it is added under."""
    return function.without_attr("global_symbol")


class Rewriter:
    """Rebuilds ``main``, a straight-line function, binding by binding, keeping variable names.

    Unlike TVM's mutators it never merges equal expressions.
    """

    def __init__(self, mod: IRModule, without: Iterable[Any] = ()) -> None:
        """Rewrites ``main`` of ``mod``; its other functions stay, but for the GlobalVars in ``without``."""
        self.function = mod["main"]
        dropped = {str(gv.name_hint) for gv in without} | {"main"}
        others = {gv: f for gv, f in mod.functions_items() if str(gv.name_hint) not in dropped}
        self.builder = relax.BlockBuilder(IRModule(others))
        self.mapping: dict[Var, Expr] = {}

    def lookup(self, expr: Expr) -> Expr:
        """``expr`` with its variables replaced by their new values."""
        if is_var(expr):
            return self.mapping.get(expr, expr)
        if is_tuple(expr):
            return relax.Tuple([self.lookup(field) for field in fields(expr)])
        if is_tuple_item(expr):
            return relax.TupleGetItem(self.lookup(expr.tuple_value), expr.index)
        return expr

    def rebuild(self, value: Expr) -> Expr:
        """``value`` with its variables replaced."""
        if is_call(value):
            return call_like(value, [self.lookup(a) for a in value.args])
        return self.lookup(value)

    def emit(self, value: Expr, name: str = "") -> Expr:
        return self.builder.emit(value, name_hint=name)

    def repeat(self, bound: Iterable[Binding]) -> None:
        """Emit bindings of the old function, but for those that have a new value already."""
        for binding in bound:
            if binding.var not in self.mapping:
                self.mapping[binding.var] = self.emit(self.rebuild(binding.value), binding.name)

    def call(self, function: Expr, name: str, arguments: Sequence[Var], results: Sequence[Var]) -> None:
        """Emit a call of a function, added under a name, that gives new values for ``results``."""
        target = self.builder.add_func(function, name)
        value = self.emit(relax.Call(target, [self.lookup(a) for a in arguments]), "region")
        for n, var in enumerate(results):
            self.mapping[var] = self.emit(relax.TupleGetItem(value, n), str(var.name)) if len(results) > 1 else value

    def run(self, visit: Callable[[Rewriter, Binding], Expr], finish: Callable[[Expr], Expr] | None = None) -> IRModule:
        """A module whose ``main`` is the function with ``visit(self, binding)`` bound in place of each value.

        ``finish`` turns the old result into the new one, where looking up its variables is not enough.
        """

        def write() -> None:
            for binding in bindings(self.function):
                self.mapping[binding.var] = visit(self, binding)

        return self.write(write, finish)

    def write(self, body: Callable[[], None], finish: Callable[[Expr], Expr] | None = None) -> IRModule:
        """A module whose ``main`` has the bindings that ``body`` emits, of which it notes the new values."""
        function = self.function
        with self.builder.function("main", list(function.params)):
            with self.builder.dataflow():
                body()
                value = result(function)
                output = self.builder.emit_output(finish(value) if finish else self.lookup(value))
            self.builder.emit_func_output(output)
        mod = self.builder.get()
        attrs = {str(k): v for k, v in (function.attrs or {}).items() if str(k) not in ("global_symbol", "params")}
        if attrs:
            mod["main"] = mod["main"].with_attrs(attrs)
        return mod


def function_of(
    inputs: Sequence[Var],
    bound: Iterable[Binding],
    outputs: Sequence[Var],
    attributes: Mapping[str, str],
    handed_over: Mapping[Var, Expr],
) -> tuple[Expr, dict[Var, Expr]]:
    """A function of its own that takes ``inputs`` and gives ``outputs``, a tuple if there are several; and the new
    variable of each old one.

    ``handed_over``: int8 inputs that become uint8 first, each with a dequantize of it.
    """
    params = [relax.Var(str(var.name), var.ty) for var in inputs]
    rewriter = Rewriter(IRModule({"main": relax.Function(params, relax.Tuple([]))}))
    rewriter.mapping = dict(zip(inputs, params, strict=True))
    result = relax.Tuple(list(outputs)) if len(outputs) > 1 else outputs[0]

    def body() -> None:
        for var, call in handed_over.items():
            real = rewriter.emit(rewriter.rebuild(call))
            axis = int(call.attrs.axis)
            rewriter.mapping[var] = rewriter.emit(relax.op.quantize(real, call.args[1], _as_uint8(call), axis, "uint8"))
        for binding in bound:
            value = rewriter.rebuild(binding.value)
            if is_call(binding.value) and binding.value.args and binding.value.args[0] in handed_over:
                value = call_like(value, [value.args[0], value.args[1], _as_uint8(value)])
            if binding.var not in rewriter.mapping:
                rewriter.mapping[binding.var] = rewriter.emit(value, binding.name)

    made = rewriter.write(body, lambda _: rewriter.lookup(result))["main"]
    return _unnamed(made).with_attrs(dict(attributes)), rewriter.mapping


def _as_uint8(call: Expr) -> Expr:
    """The zero point of a dequantize of int8, of the same numbers held as uint8."""
    return constant((array(call.args[2]).astype(np.int64) + 128).astype(np.uint8))


def packed_call(name: str, args: Sequence[Expr], like: Expr) -> Expr:
    """``call_dps_packed`` of a packed function whose results have the types of the call ``like``."""
    ty = like.ty
    outputs = list(ty.fields) if isinstance(ty, relax.TupleType) else ty
    return relax.op.call_dps_packed(name, relax.Tuple(list(args)), out_ty=outputs)


def module_pass(transform: Callable[[IRModule], IRModule], name: str) -> Any:
    """A TVM module pass."""
    return tvm.transform.module_pass(lambda mod, context: transform(mod), opt_level=0, name=name)


def before_default_pipeline(first: Any) -> Any:
    """A Relax pipeline that runs ``first`` and then what ``relax.build`` runs by default."""

    def transform(mod: IRModule) -> IRModule:
        target = tvm.target.Target.current(allow_none=True) or tvm.target.Target("llvm")
        return relax.get_default_pipeline(target)(first(mod))

    return module_pass(transform, "TilewrightThenDefault")
