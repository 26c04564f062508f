"""How many rows of each tensor act holds: everything at first, then less of the largest until it fits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.config import Config
from tilewright.jit.actions import Policy, ScheduleError
from tilewright.jit.kernels.base import Node
from tilewright.jit.layout import Buffer, origin
from tilewright.jit.schedule import Scheduler

INPUT_LEAD = 4  #: rows of a network input that may be loaded ahead of need
_SLACK = 2  #: rows beyond the least, so that producer and consumer overlap
_ATTEMPTS = 200


def least_capacity(name: str, buffer: Buffer, nodes: list[Node]) -> int:
    """Rows a ring needs so that its producers and all its consumers can always advance.

    A tensor that joins a longer path (a residual add) must keep its rows while that path catches up.
    """
    rows = 1
    for node in nodes:
        if node.output == origin(name):
            rows = max(rows, open_rows(node))
        for k, tensor in enumerate(node.inputs):
            if tensor == name:
                rows = max(rows, window_rows(node, k, buffer), lag_rows(name, node, k, nodes) + buffer.pad[2])
    return min(buffer.rows, rows)


def open_rows(node: Node) -> int:
    """Most output rows that are begun but not complete at once."""
    complete, most = 0, 1
    for task in node.tasks:
        most = max(most, task.row - complete + 1)
        complete = max(complete, task.row + 1) if task.completes_row else complete
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


def lag_rows(name: str, join: Node, index: int, nodes: list[Node]) -> int:
    """Rows of ``name`` between what a middle task of ``join`` reads and what its other inputs depend on."""
    if len(join.inputs) == 1:
        return 1
    middle = join.tasks[len(join.tasks) // 2]
    highest: dict[str, int] = {}

    def demand(node: Node, last: int) -> None:
        for k, tensor in enumerate(node.inputs):
            top = max(node.needs(task, k)[1] for task in node.tasks[: last + 1])
            highest[origin(tensor)] = max(highest.get(origin(tensor), -1), top)

    demand(join, len(join.tasks) // 2)
    for node in reversed(nodes[: nodes.index(join)]):
        if node.output in highest:
            row = min(highest[node.output], node.height - 1)
            demand(node, next(i for i, t in enumerate(node.tasks) if t.row == row and t.completes_row))
    return highest[origin(name)] - join.needs(middle, index)[0] + 2


def fit(
    config: Config,
    nodes: list[Node],
    buffers: Mapping[str, Buffer],
    inputs: list[str],
    stored: list[str],
    policy: Policy,
) -> Scheduler:
    """A complete schedule, shrinking rings until act holds them. Raises :class:`ScheduleError` if none does."""
    least = {name: least_capacity(name, buffer, nodes) for name, buffer in buffers.items()}
    for name, buffer in buffers.items():
        slack = INPUT_LEAD if name in inputs else buffer.rows if policy.slack is None else policy.slack
        buffer.capacity = min(buffer.rows, least[name] + slack)
    for _ in range(_ATTEMPTS):
        scheduler = Scheduler(config, nodes, buffers, inputs, stored, policy, {})
        try:
            scheduler.run()
            return scheduler
        except ScheduleError as error:
            failure = error
            if not _shrink(failure.tensors, buffers, least):
                break
    raise failure


def _shrink(names: list[str], buffers: Mapping[str, Buffer], least: Mapping[str, int]) -> bool:
    """Take rows from the tensor that can give most; False if all are at their least."""
    for slack in (_SLACK, 0):
        spare = {n: (buffers[n].capacity - least[n] - slack) * buffers[n].stride for n in names}
        largest = max(spare, key=lambda n: spare[n], default=None)
        if largest is not None and spare[largest] > 0:
            buffer, floor = buffers[largest], least[largest] + slack
            buffer.capacity = max(floor, min(buffer.capacity - 1, buffer.capacity * 5 // 8))
            return True
    return False
