"""How many rows of each tensor act holds: everything at first, then less of the largest until it fits."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.config import Config
from tilewright.jit.kernels.base import Node
from tilewright.jit.layout import Buffer
from tilewright.jit.schedule import Policy, ScheduleError, Scheduler

INPUT_LEAD = 4  #: rows of a network input that may be loaded ahead of need
_SLACK = 2  #: rows beyond the least, so that producer and consumer overlap
_ATTEMPTS = 200


def least_capacity(name: str, buffer: Buffer, nodes: list[Node]) -> int:
    """Rows a ring needs so that its producer and all its consumers can always advance.

    A tensor that joins a longer path (a residual add) must keep its rows while that path catches up.
    """
    rows = 1
    for node in nodes:
        if name not in node.inputs:
            continue
        if not _row_major(node):
            return buffer.rows
        middle = node.tasks[len(node.tasks) // 2]
        low = min(node.needs(middle, k)[0] for k, t in enumerate(node.inputs) if t == name)
        rows = max(rows, _furthest(name, node, middle.row, nodes) - low + 1 + node_stride(node))
    if any(node.output == name and not _row_major(node) for node in nodes):
        return buffer.rows
    return min(buffer.rows, rows + max(0, buffer.pad[2]))


def node_stride(node: Node) -> int:
    """Rows by which a node's input window moves from one output row to the next (1 for a single row)."""
    rows = sorted({(t.row, node.needs(t, 0)[0]) for t in node.tasks})
    return max(1, rows[1][1] - rows[0][1]) if len(rows) > 1 else 1


def _row_major(node: Node) -> bool:
    return all(a.row <= b.row for a, b in zip(node.tasks[:-1], node.tasks[1:], strict=True))


def _furthest(name: str, join: Node, row: int, nodes: list[Node]) -> int:
    """The highest row of ``name`` that output ``row`` of ``join`` depends on, along any path."""
    highest: dict[str, int] = {}

    def demand(node: Node, out_row: int) -> None:
        task = min(node.tasks, key=lambda t: abs(t.row - out_row))
        for k, tensor in enumerate(node.inputs):
            highest[tensor] = max(highest.get(tensor, -1), node.needs(task, k)[1])

    demand(join, row)
    for node in reversed(nodes[: nodes.index(join)]):
        if node.output in highest:
            demand(node, min(highest[node.output], node.height - 1))
    return highest[name]


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
        lead = min(buffer.rows, least[name] + INPUT_LEAD)
        buffer.capacity = lead if name in inputs else buffer.rows
    for _ in range(_ATTEMPTS):
        scheduler = Scheduler(config, nodes, buffers, inputs, stored, policy)
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
