"""The pattern table: which Relax forms Tilewright claims, in order of priority, each with its lowering rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.jit.defects import why_not
from tilewright.jit.graph import Graph
from tilewright.jit.relax.compat import Expr, Var
from tilewright.jit.relax.compat_passes import Check, Fusion
from tilewright.jit.relax.rules import elementwise, move, pool, weighted
from tilewright.jit.relax.rules.common import Rule
from tilewright.jit.relax.site import RelaxBuilder, Site

RULES: tuple[Rule, ...] = (*weighted.RULES, *pool.RULES, *elementwise.RULES, *move.RULES, *elementwise.LAST)
BY_NAME = {rule.name: rule for rule in RULES}


#: Says why operators cannot run on some accelerator, or None.
Refusal = Callable[[Graph], str | None]


def table(refuse: Refusal | None = None, batch: int = 1) -> list[Fusion]:
    """(composite name, pattern, check) for FuseOpsByPattern, of modules with images of this batch.

    A check tries the lowering on a throw-away graph and hands that to ``refuse``; where it is impossible, or may give
    other integers than the interpreter, the match is refused.
    """

    def checker(rule: Rule) -> Check:
        def check(var: Var, root: Expr, bound: Mapping[Var, Expr]) -> bool:
            builder = RelaxBuilder(batch=batch)
            site = Site(builder=builder, root=root, bound=bound, arguments={}, name=str(var.name))
            try:
                rule.lower(site)
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                why_not(error, site.name)
                return False
            proven = all(entry.proven for entry in builder.exactness)
            return proven and (refuse is None or refuse(_alone(builder)) is None)

        return check

    return [(rule.name, pattern, checker(rule)) for rule in RULES for pattern in rule.patterns]


def _alone(builder: RelaxBuilder) -> Graph:
    """What a check built, as a graph of its own."""
    made = {op.output for op in builder.ops}
    inputs = dict.fromkeys(t for op in builder.ops for t in op.inputs if t not in made)
    return builder.finish("check", list(inputs), [builder.ops[-1].output] if builder.ops else [])
