"""How many rows a ring must hold at least: the one rule, for whole networks and for groups of nodes.

The schedule keeps a row as long as a consumer reads it, until every producer has written it, and until STORE has
taken it (:meth:`tilewright.jit.schedule.Scheduler`). A ring that holds the rows counted here lets its producers
and all its consumers always advance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.jit.kernels.base import Node
from tilewright.jit.layout import Buffer, origin


class RingSizes:
    """Least ring sizes of tensors within a range of nodes, remembered.

    ``known``: those of the same nodes bound to other buffers. What depends on a node alone is counted once, for a plan
    binds its nodes a hundred times.
    """

    def __init__(
        self, nodes: Sequence[Node], buffers: Mapping[str, Buffer], known: RingSizes | None = None
    ) -> None:  # fmt: skip
        self.nodes, self.buffers = nodes, buffers
        self.producers: dict[str, list[int]] = {name: [] for name in buffers}
        self.consumers: dict[str, list[tuple[int, int]]] = {name: [] for name in buffers}
        twins: dict[str, list[str]] = {}
        for name in buffers:
            twins.setdefault(origin(name), []).append(name)
        #: buffers that each node writes
        self.made = [twins.get(node.output, []) for node in nodes]
        for index, node in enumerate(nodes):
            for name in self.made[index]:
                self.producers[name].append(index)
            for k, name in enumerate(node.inputs):
                self.consumers[name].append((index, k))
        self._windows: dict[tuple[int, int, tuple[int, ...]], int] = {} if known is None else known._windows
        self._lags: dict[tuple[str, int, int], int] = {}
        #: output rows of each node that are begun but not complete at once
        self.open: list[int] = [open_rows(node) for node in nodes] if known is None else known.open

    def least(self, name: str, first: int, last: int) -> int:
        """Rows that a ring of this tensor needs if the nodes ``first`` to ``last`` stream."""
        buffer, begun = self.buffers[name], self._begun(name, first, last)
        rows = begun + max(buffer.pad[0], buffer.pad[2]) if begun else 1
        readers = [(index, k) for index, k in self.consumers[name] if first <= index <= last]
        shared = len(readers) > 1 and not self.producers[name]  # loaded once for several readers
        for index, k in readers:
            rows = max(rows, self._window(name, index, k) + max(0, begun - 1))
            if (begun or shared) and len(self.nodes[index].inputs) > 1:
                rows = max(rows, self._lag(name, index, k, first) + buffer.pad[2])
        return min(buffer.rows, rows)

    def made_rows(self, name: str) -> int:
        """Rows that the producers alone need: those begun but not complete, and the padding beside the first or last.

        They lie there together until STORE has taken them.
        """
        pad = self.buffers[name].pad
        return self._begun(name, 0, len(self.nodes)) + max(pad[0], pad[2])

    def _begun(self, name: str, first: int, last: int) -> int:
        """Most rows that one producer among these nodes has begun but not completed; 0 without a producer."""
        return max((self.open[index] for index in self.producers[name] if first <= index <= last), default=0)

    def _window(self, name: str, index: int, k: int) -> int:
        buffer = self.buffers[name]
        key = (index, k, buffer.pad)  # its rows are the tensor's, however it is bound
        if key not in self._windows:
            self._windows[key] = window_rows(self.nodes[index], k, buffer)
        return self._windows[key]

    def _lag(self, name: str, index: int, k: int, first: int) -> int:
        key = (name, index, first)
        if key not in self._lags:
            self._lags[key] = lag_rows(name, self.nodes[index], k, list(self.nodes[first:]))
        return self._lags[key]


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
        if highest.get(node.output, -1) >= 0:  # negative: no more than the padding above it is read
            row = min(highest[node.output], node.height - 1)
            demand(node, next(i for i, t in enumerate(node.tasks) if t.row == row and t.completes_row))
    return highest[origin(name)] - join.needs(middle, index)[0] + 2
