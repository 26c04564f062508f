"""Orders that a schedule keeps: constants as they are loaded, rows as they are needed last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.jit.kernels.base import Node
from tilewright.jit.plan.layout import origin


def chunk_order(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """(node, chunk) in the order of loading: the nodes' own, but what adds up slices comes as they are made.

    A slice's weights follow the constants of the node behind its maker, which works while they come.
    """
    makers = {node.output: index for index, node in enumerate(nodes)}
    order: list[tuple[float, int, int]] = []
    for index, node in enumerate(nodes):
        sources = {task.chunk: task.source for task in node.tasks} if node.by_inputs else {}
        for chunk in range(len(node.chunks)):
            maker = makers.get(origin(node.inputs[sources[chunk]]), index) if sources else index
            order.append((min(index, maker + 2.5) if sources else index, index, chunk))
    return [(index, chunk) for _, index, chunk in sorted(order)]


def suffix_lowest(node: Node, index: int) -> list[int]:
    """For each task, the lowest input row that it or any later task reads."""
    lows = np.array([node.needs(task, index)[0] for task in node.tasks], np.int64)
    return np.minimum.accumulate(lows[::-1])[::-1].tolist()
