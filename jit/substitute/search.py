"""Which substitutions a graph gets: those of least cost, sought with backtracking.

Best first among graphs that cost at most ``ALPHA`` times the best known, so that a substitution that loses by itself
may open one that wins (MetaFlow: Jia et al., "Optimizing DNN Computation with Relaxed Graph Substitutions", MLSys 2019,
algorithm 1). All that win by themselves are tried together too, since they seldom get in each other's way.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tilewright.jit.graph import Graph
from tilewright.jit.substitute.functions import clamp_in_layer, function_behind_pool, table_where_read
from tilewright.jit.substitute.layers import depthwise_as_dense, layers_joined, pointwise_ahead_of_repetition
from tilewright.jit.substitute.rewrite import Rule

RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        clamp_in_layer, layers_joined, pointwise_ahead_of_repetition, function_behind_pool, table_where_read,
        depthwise_as_dense,
    )
}  # fmt: skip
ALPHA = 1.05
#: operators of all graphs whose cost is asked for, together: some half of a second's work
MOST_OPERATORS = 1500


class Substitution(NamedTuple):
    """A rule of :data:`RULES` applied at an operator, by name."""

    rule: str
    operator: str


Substitutions = tuple[Substitution, ...]


class Found(NamedTuple):
    """The steps of least cost, their cost, and that of the graph as it was."""

    steps: Substitutions
    cost: int
    before: int


def substituted(graph: Graph, steps: Substitutions) -> Graph:
    """The graph after those of the steps that can be taken: a part of a network may lack what others need."""
    for step in steps:
        for op in graph.ops:
            if op.name == step.operator:
                graph = RULES[step.rule](graph, op) or graph
                break
    return graph


def search(graph: Graph, cost: Callable[[Graph], int | None], most: int = MOST_OPERATORS) -> Found | None:
    """The substitutions after which a graph costs least; None if nothing can be substituted, or it has no cost.

    ``cost``: of a graph, None where it cannot be. ``most``: operators of all graphs whose cost is asked for.
    """
    if next(_next(graph), None) is None:
        return None
    left = most - len(graph.ops)
    before = cost(graph)
    if before is None:
        return None
    best = Found((), before, before)
    waiting: list[tuple[int, Substitutions, Graph]] = [(before, (), graph)]
    seen = {frozenset[Substitution]()}

    def look(steps: Substitutions, changed: Graph) -> int | None:
        """What a graph costs, which is looked at but once."""
        nonlocal best, left
        if frozenset(steps) in seen or left < len(changed.ops):
            return None
        seen.add(frozenset(steps))
        left -= len(changed.ops)
        found = cost(changed)
        if found is None or found > ALPHA * best.cost:
            return None
        if found < best.cost:
            best = Found(steps, found, before)
        heapq.heappush(waiting, (found, steps, changed))
        return found

    while waiting and left > 0:
        here, steps, graph = heapq.heappop(waiting)
        if here > ALPHA * best.cost:
            break
        wins: Substitutions = ()
        for step, changed in _next(graph):
            found = look((*steps, step), changed)
            wins += (step,) if found is not None and found < here else ()
        if len(wins) > 1:
            look((*steps, *wins), substituted(graph, wins))
    return best


def _next(graph: Graph) -> Iterator[tuple[Substitution, Graph]]:
    """All that can be done to a graph, and what it is then."""
    for (name, rule), op in itertools.product(RULES.items(), graph.ops):
        changed = rule(graph, op)
        if changed is not None:
            yield Substitution(name, op.name), changed
