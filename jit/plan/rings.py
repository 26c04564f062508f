"""How many rows a ring must hold at least: the one rule, for whole networks and for groups of layers.

The schedule keeps a row as long as a consumer reads it, until every producer has written it, and until STORE has
taken it (:meth:`tilewright.jit.schedule.scheduler.Scheduler`). A ring that holds the rows counted here lets its
producers and all its consumers always advance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.strips import is_twin


@compiled
def window_rows(nodes: Any, edges: Any, buffers: Any, edge_buffer: Any) -> Any:
    """For each edge, rows held at once if rows are written one by one and every task runs as soon as it can.

    What is read in twos lies in twos: ``B_STEP``.
    """
    rows = np.empty(len(edges), np.int64)
    for e in range(len(edges)):
        row, node = buffers[edge_buffer[e]], nodes[edges[e, t.E_LAYER]]
        stride, offset, span = edges[e, t.E_STRIDE], edges[e, t.E_OFFSET], edges[e, t.E_SPAN]
        every = edges[e, t.E_EVERY]
        row[b.B_STEP] = 2 if is_twin(node[t.N_MODE]) else 1
        span = in_twos((node[t.N_ROWS] - 1) * stride + span, row) - (node[t.N_ROWS] - 1) * stride
        rows[e] = ((node[t.N_OPEN] - 1) * stride + span - 1) // every + 1
        last = row[b.B_HEIGHT] - 1
        position = max(0, (last * every - offset - span) // stride + 1) if stride else 0
        position -= position % node[t.N_ROWS]
        if node[t.N_GROUPS]:
            position = node[t.N_HEIGHT] - node[t.N_OPEN]
        if position < node[t.N_HEIGHT]:
            lowest = max(-row[b.B_TOP], t.first_read(edges[e], position))
            rows[e] = max(rows[e], last + row[b.B_BOTTOM] - lowest + 1)
        rows[e] = in_twos(rows[e], row)
    return rows


@compiled
def in_twos(rows: int, row: Any) -> int:
    """So many rows of a buffer, and another one where rows lie in twos and one would be alone."""
    return rows + rows % row[b.B_STEP]


@compiled
def open_rows(row: Any, first: int, last: int, nodes: Any, makers: Any) -> int:
    """Most rows that one producer of a buffer among these layers has begun but not completed; 0 without one."""
    begun = 0
    for m in range(row[b.B_MAKE], row[b.B_MAKE] + row[b.B_MAKES]):
        if first <= makers[m] <= last:
            begun = max(begun, nodes[makers[m], t.N_OPEN])
    return begun


@compiled
def made_rows(row: Any, nodes: Any, makers: Any) -> int:
    """Rows that the producers alone need: those begun but not complete, and the padding beside the first or last.

    They lie there together until STORE has taken them.
    """
    return open_rows(row, 0, len(nodes), nodes, makers) + max(row[b.B_TOP], row[b.B_BOTTOM])


@compiled
def readers_among(row: Any, first: int, last: int, edges: Any, readers: Any) -> int:
    """How often these layers read a buffer."""
    inside = 0
    for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
        inside += first <= edges[readers[r], t.E_LAYER] <= last
    return inside


@compiled
def least_rows(
    row: Any, first: int, last: int, layers: Any, nodes: Any, edges: Any, readers: Any, makers: Any, window: Any,
    lags: Any,
) -> int:  # fmt: skip
    """Rows that a ring needs if the layers ``first`` to ``last`` stream; ``window``: of :func:`window_rows`."""
    begun = open_rows(row, first, last, nodes, makers)
    rows = begun + max(row[b.B_TOP], row[b.B_BOTTOM]) if begun else 1
    shared = readers_among(row, first, last, edges, readers) > 1 and row[b.B_MAKES] == 0  # loaded once for several
    for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
        e = readers[r]
        layer = edges[e, t.E_LAYER]
        if first <= layer <= last:
            rows = max(rows, window[e] + max(0, begun - 1))
            if (begun or shared) and layers[layer, t.L_EDGES] > 1:
                rows = max(rows, lags[e, min(layer - first, t.LONGEST + 1)] + row[b.B_BOTTOM])
    return min(row[b.B_ROWS], in_twos(rows, row))


@compiled
def join_lags(layers: Any, edges: Any, nodes: Any, tensors: int) -> Any:
    """lags[e, d]: rows held for edge e of a join if d layers before it stream with it; the last column: all do."""
    lags = np.ones((len(edges), t.LONGEST + 2), np.int64)
    for e in range(len(edges)):
        layer = edges[e, t.E_LAYER]
        if layers[layer, t.L_EDGES] < 2:
            continue
        for d in range(t.LONGEST + 1):
            lags[e, d] = _lag(e, max(0, layer - d), layers, edges, nodes, tensors)
        lags[e, t.LONGEST + 1] = _lag(e, 0, layers, edges, nodes, tensors)
    return lags


@compiled
def _lag(edge: int, first: int, layers: Any, edges: Any, nodes: Any, tensors: int) -> int:
    """Rows between what a middle row of a join reads by an edge and what its other inputs depend on.

    Only what the layers from ``first`` on make counts: the rest is there as a whole.
    """
    join = edges[edge, t.E_LAYER]
    middle = layers[join, t.L_HEIGHT] // 2
    highest = np.full(tensors, -1, np.int64)
    for layer in range(join, first - 1, -1):
        row = middle
        if layer < join:
            row = min(highest[layers[layer, t.L_OUTPUT]], layers[layer, t.L_HEIGHT] - 1)
            if row < 0:  # no more than the padding above it is read
                continue
        row = _group(nodes[layer], row)[1]
        for e in range(layers[layer, t.L_EDGE], layers[layer, t.L_EDGE] + layers[layer, t.L_EDGES]):
            highest[edges[e, t.E_TENSOR]] = max(highest[edges[e, t.E_TENSOR]], t.last_read(edges[e], row))
    low = t.first_read(edges[edge], _group(nodes[join], middle)[0])
    return highest[edges[edge, t.E_TENSOR]] - low + 2


@compiled
def _group(node: Any, row: int) -> tuple[int, int]:
    """First and last row of the group of rows that must be begun before a row of it is complete."""
    groups, height = node[t.N_GROUPS], node[t.N_HEIGHT]
    if groups == 0:
        first = row - row % node[t.N_ROWS]
        return first, min(first + node[t.N_ROWS], height) - 1
    number = ((row + 1) * groups - 1) // height
    return height * number // groups, height * (number + 1) // groups - 1
