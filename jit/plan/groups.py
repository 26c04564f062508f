"""Which consecutive layers stream together: dynamic programming over the cuts of a network.

The layers of a group interleave row by row: the constants of all of them lie on the chip together, and what
passes between them lies in rings of a few rows. What crosses from one group to another lies in act as a whole,
or goes through DRAM. A good partition has few and small tensors across its cuts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.rings import in_twos, least_rows, open_rows, readers_among

CUT_COST = 300  #: cost of a cut beside its tensors, in units of act moved
#: rows that rings have beyond the least, and the cost of a group that can have no more
_COMFORT = ((2, 0.0), (1, 1000.0), (0, 4000.0))


@compiled
def group_layers(
    layers: Any, nodes: Any, edges: Any, c: Any, buffers: Any, edge_buffer: Any, outputs: Any, readers: Any,
    makers: Any, window: Any, lags: Any, share: float, group_of: Any,
) -> int:  # fmt: skip
    """Fills the group of every layer; returns how many there are.

    Constants of a group take at most ``share`` of wgt and of prm.
    """
    count = len(layers)
    crossing = _crossing_units(edges, c, buffers, readers, makers, count)
    best, start = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    best[0] = 0.0
    stamp, seen = np.zeros(len(buffers), np.int64), 0
    for stop in range(1, count + 1):
        wgt = prm = 0
        for first in range(stop - 1, max(-1, stop - 1 - t.LONGEST), -1):
            node, cost = nodes[first], 0.0
            repeats = max(1, node[t.N_GROUPS])
            wgt += repeats * (node[t.N_VECTORS] * node[t.N_WGT_EACH] + node[t.N_PIECES] * node[t.N_WGT_FIXED])
            prm += repeats * (node[t.N_VECTORS] * node[t.N_PRM_EACH] + node[t.N_PIECES] * node[t.N_PRM_FIXED])
            if first < stop - 1:
                if wgt > c[t.C_WGT] * share or prm > c[t.C_PRM] * share:
                    break
                if (node[t.N_GROUPS] and node[t.N_OPEN] > 1) or (
                    nodes[stop - 1, t.N_GROUPS] and nodes[stop - 1, t.N_OPEN] > 1
                ):
                    break
                cost = -1.0
                for slack, price in _COMFORT:
                    seen += 1
                    held = _held(
                        first, stop - 1, slack, seen, stamp, layers, nodes, edges, buffers, edge_buffer, outputs,
                        readers, makers, window, lags, c[t.C_ACT],
                    )  # fmt: skip
                    if held <= c[t.C_ACT]:
                        cost = price
                        break
                if cost < 0:
                    break
            total = best[first] + cost + (crossing[stop] + CUT_COST if stop < count else 0)
            if total <= best[stop]:
                best[stop], start[stop] = total, first
    groups, stop = 0, count
    while stop:
        groups += 1
        stop = start[stop]
    number, stop = groups - 1, count
    while stop:
        group_of[start[stop] : stop] = number
        number -= 1
        stop = start[stop]
    return groups


@compiled
def _crossing_units(edges: Any, c: Any, buffers: Any, readers: Any, makers: Any, count: int) -> Any:
    """Units of act that lie across a cut in front of each layer; what is too large for act counts twice."""
    crossing = np.zeros(count + 1)
    for k in range(len(buffers)):
        row = buffers[k]
        if row[b.B_MAKES] == 0 or row[b.B_READS] == 0:
            continue
        size = row[b.B_ROWS] * row[b.B_UNITS]
        size *= 2 if size > c[t.C_ACT] // 2 else 1
        last = edges[readers[row[b.B_READ] + row[b.B_READS] - 1], t.E_LAYER]
        for k in range(makers[row[b.B_MAKE]] + 1, last + 1):
            crossing[k] += size
    return crossing


@compiled
def _held(
    first: int, last: int, slack: int, seen: int, stamp: Any, layers: Any, nodes: Any, edges: Any, buffers: Any,
    edge_buffer: Any, outputs: Any, readers: Any, makers: Any, window: Any, lags: Any, most: int,
) -> int:  # fmt: skip
    """Least units of act that a group takes; stops counting beyond ``most``.

    A tensor takes a ring if all its layers are in the group. Otherwise it is held whole, or goes through DRAM: a ring
    for STORE if the group makes it, and one for each reader's copy.
    """
    total = 0
    for layer in range(first, last + 1):
        low, high = layers[layer, t.L_EDGE], layers[layer, t.L_EDGE] + layers[layer, t.L_EDGES]
        for slot in range(low, high + 2):
            k = edge_buffer[slot] if slot < high else outputs[layer, slot - high]
            if k < 0 or stamp[k] == seen:
                continue
            stamp[k] = seen
            row = buffers[k]
            rows = least_rows(row, first, last, layers, nodes, edges, readers, makers, window, lags)
            ring = min(row[b.B_ROWS], in_twos(rows + slack, row)) * row[b.B_UNITS]
            made = open_rows(row, first, last, nodes, makers) > 0
            inside = readers_among(row, first, last, edges, readers)
            if inside < row[b.B_READS] or not (made or row[b.B_MAKES] == 0):
                ring = min(row[b.B_ROWS] * row[b.B_UNITS], ring * (made + inside))
            total += ring
            if total > most:
                return total
    return total
