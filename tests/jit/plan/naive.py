"""What the planner's tables say in closed form, counted task by task."""

from __future__ import annotations

import numpy as np

from tilewright.jit.kernels.base import Node
from tilewright.jit.plan.layout import Buffer


def open_rows(node: Node) -> int:
    """Most output rows that are begun but not complete at once."""
    complete, most = 0, 1
    for task in node.tasks:
        most = max(most, task.last - complete + 1)
        complete = max(complete, task.last + 1) if task.completes_row else complete
    return most


def window_rows(node: Node, index: int, buffer: Buffer) -> int:
    """Rows held at once if rows are written one by one and every task runs as soon as its rows are there."""
    top, _, bottom, _ = buffer.pad
    needs = [node.needs(task, index) for task in node.tasks]
    lowest = np.minimum.accumulate([low for low, _ in needs][::-1])[::-1]
    most, position = 1, 0
    for row in range(buffer.height):
        highest = row + (bottom if row == buffer.height - 1 else 0)
        if position < len(needs):
            most = max(most, highest - max(-top, int(lowest[position])) + 1)
        while position < len(needs) and min(needs[position][1], buffer.height - 1) <= row:
            position += 1
    return most


def lag_rows(tensor: str, join: Node, index: int, nodes: list[Node]) -> int:
    """Rows of a tensor between what a middle task of ``join`` reads and what its other inputs depend on."""
    middle = join.tasks[len(join.tasks) // 2]
    highest: dict[str, int] = {}

    def demand(node: Node, last: int) -> None:
        for k, name in enumerate(node.inputs):
            top = max(node.needs(task, k)[1] for task in node.tasks[: last + 1])
            highest[name] = max(highest.get(name, -1), top)

    demand(join, len(join.tasks) // 2)
    for node in reversed(nodes[: nodes.index(join)]):
        if highest.get(node.output, -1) >= 0:
            row = min(highest[node.output], node.height - 1)
            demand(node, next(i for i, t in enumerate(node.tasks) if t.row <= row <= t.last and t.completes_row))
    return highest[tensor] - join.needs(middle, index)[0] + 2
