"""From partitioned Relax to the integer graph of one region."""

from __future__ import annotations

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Graph
from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Expr, Var
from tilewright.jit.relax.patterns import BY_NAME
from tilewright.jit.relax.site import BATCH_ATTRIBUTE, RelaxBuilder, Site


def extract(function: Expr, name: str, batch: int = 1) -> Graph:
    """The graph of a function that only calls composites, for one image of the batch.

    Raises Unsupported at the first binding that is none.
    """
    builder = RelaxBuilder(batch=batch)
    inputs = [builder.add_input(var) for var in function.params]
    local: dict[Var, Expr] = {}
    for binding in compat.bindings(function):
        value = binding.value
        if compat.is_function(value):
            local[binding.var] = value
        elif compat.is_var(value):
            if value in builder.names:
                builder.names[binding.var] = builder.names[value]
        elif compat.callee(value) is not None:
            composite = local.get(compat.callee(value))
            if composite is None:
                raise Unsupported(f"a call of {compat.callee(value)}")
            builder.names[binding.var] = _lower(builder, composite, compat.arguments(value), binding.name)
        elif not compat.is_tuple(value):
            raise Unsupported(compat.op_name(value) or "an expression that is no call")
    return builder.finish(name, inputs, [builder.add_output(var) for var in _results(function)])


def _results(function: Expr) -> list[Var]:
    """The variables a function returns, its result tuple taken apart."""
    value = compat.result(function)
    bound = {b.var: b.value for b in compat.bindings(function)}
    while compat.is_var(value) and (compat.is_tuple(bound.get(value)) or compat.is_var(bound.get(value))):
        value = bound[value]
    return compat.fields(value) if compat.is_tuple(value) else [value]


def _lower(builder: RelaxBuilder, composite: Expr, args: list[Expr], name: str) -> str:
    site = Site(
        builder=builder, root=compat.result(composite), bound={b.var: b.value for b in compat.bindings(composite)},
        arguments=dict(zip(composite.params, args, strict=True)), name=name, source=name,
    )  # fmt: skip
    site.root = site.value(site.root)
    return BY_NAME[compat.attribute(composite, "Composite")].lower(site)


def batch_of(function: Expr) -> int:
    """The batch of a region's images, or of ``main``'s."""
    return int(compat.attribute(function, BATCH_ATTRIBUTE) or 1)
