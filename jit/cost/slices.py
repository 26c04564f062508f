"""Into how many slices wide tensors are cut: as few as fit, and more where taller strips are thought to be worth it."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.config import Config
from tilewright.jit.cost.estimate import Estimate, grouped
from tilewright.jit.cost.slicing import finer_slices, slice_graph
from tilewright.jit.graph import Graph
from tilewright.jit.ir.base import Sliced
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.planner import Planner


def best_slices(
    graph: Graph, config: Config, tables: Callable[[Sliced], NetworkTables],
    fits: Callable[[NetworkTables], bool] = lambda _: True,
) -> Sliced:  # fmt: skip
    """The graph with wide tensors in slices, by the estimate of the network in groups; ``tables`` lowers it.

    Tensors are looked at one after another: finer slices stay if they take fewer cycles with all before. Of all that
    were looked at the best is taken that ``fits``: the estimate knows of room in act, but not of places in one piece.
    """

    def cycles(cut: Sliced) -> float:
        found = grouped(Planner(tables(cut), config))
        return found.cycles if isinstance(found, Estimate) else float("inf")

    coarsest = slice_graph(graph, config)
    finer = finer_slices(graph, config)
    if not finer:
        return coarsest
    counts: dict[str, int] = {}
    least = cycles(coarsest)
    found = [(least, coarsest)]
    for tensor, numbers in finer.items():
        for number in numbers:
            trial = slice_graph(graph, config, {**counts, tensor: number})
            taken = cycles(trial)
            found.append((taken, trial))
            if taken < least:
                least, counts[tensor] = taken, number
    found.sort(key=lambda each: each[0])
    return next((cut for taken, cut in found if taken < float("inf") and fits(tables(cut))), coarsest)
