"""Relax passes that run between import and partitioning."""

from __future__ import annotations

from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Binding, Expr
from tilewright.jit.relax.compat_passes import Rewriter
from tilewright.jit.source.operators import relax_row


def unshare_dequantize(mod: compat.IRModule) -> compat.IRModule:
    """Gives every consumer its own copy of each dequantize (and of views of dequantised constants).

    Importers share them, and passes merge them; a composite must own what it fuses, or it grows a second output.
    """
    held: dict[Expr, Expr] = {}  # variable of the old function -> the value to repeat at each use

    def repeat(rewriter: Rewriter, expr: Expr) -> Expr:
        if compat.is_tuple(expr):
            return compat.make_tuple([repeat(rewriter, field) for field in compat.fields(expr)])
        if compat.is_var(expr) and expr in held:
            return rewriter.emit(rebuild(rewriter, held[expr]))
        return rewriter.lookup(expr)

    def rebuild(rewriter: Rewriter, value: Expr) -> Expr:
        if compat.is_call(value):
            return compat.call_like(value, [repeat(rewriter, arg) for arg in compat.arguments(value)])
        return repeat(rewriter, value)

    def visit(rewriter: Rewriter, binding: Binding) -> Expr:
        value = binding.value
        name = compat.op_name(value)
        source = compat.arguments(value)[0] if name else None
        if name == "relax.dequantize" or (relax_row(name).is_view and source in held and _constant(held, source)):
            held[binding.var] = value
            return binding.var
        return rewriter.emit(rebuild(rewriter, value), binding.name)

    rewriter = Rewriter(mod)
    return rewriter.run(visit, lambda value: repeat(rewriter, value))


def _constant(held: dict[Expr, Expr], expr: Expr) -> bool:
    """Whether a held expression comes from a constant."""
    while compat.is_var(expr):
        if expr not in held:
            return False
        expr = compat.arguments(held[expr])[0]
    return compat.is_constant(expr) or compat.op_name(expr) == "relax.permute_dims"
