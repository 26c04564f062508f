"""The pattern table: which Relax forms Tilewright claims, in order of priority, each with its lowering rule."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.jit.compat import Expr, Var
from tilewright.jit.compat_passes import Check, Fusion
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.rules import add, concat, conv, dense, move, pool, requantize, softmax
from tilewright.jit.frontend.rules.common import Rule
from tilewright.jit.frontend.site import GraphBuilder, Site
from tilewright.jit.numbers import NotRepresentable

RULES: tuple[Rule, ...] = (
    *conv.RULES,
    *dense.RULES,
    *add.RULES,
    *pool.RULES,
    *concat.RULES,
    *softmax.RULES,
    *move.RULES,
    *requantize.RULES,
)
BY_NAME = {rule.name: rule for rule in RULES}


def table(semantics: str, reasons: dict[str, str]) -> list[Fusion]:
    """(composite name, pattern, check) for FuseOpsByPattern.

    A check tries the lowering on a throw-away graph; where it is impossible, the match is refused and the reason
    is kept in ``reasons`` under the name of the variable that holds the result.
    """

    def checker(rule: Rule) -> Check:
        def check(var: Var, root: Expr, bound: Mapping[Var, Expr]) -> bool:
            site = Site(GraphBuilder(semantics), root, bound, {}, "check")
            try:
                rule.lower(site)
            except (Unsupported, NotRepresentable) as error:
                reasons.setdefault(str(var.name), str(error))
                return False
            return True

        return check

    return [(rule.name, pattern, checker(rule)) for rule in RULES for pattern in rule.patterns]
