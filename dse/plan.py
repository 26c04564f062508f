"""The compiler's plan for networks larger than the chip, on tables: groups, spills and ring sizes.

Follows ``jit.groups`` (dynamic programming over the cuts) and ``jit.plan`` (what goes through DRAM, how long each ring
is) rule by rule, but for the places of buffers: act is taken to be one pool of units without fragmentation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dse import arrays as a
from tilewright.dse import buffers as b
from tilewright.dse import lowering as n
from tilewright.dse.arrays import compiled
from tilewright.dse.buffers import bind_buffers
from tilewright.jit.groups import CUT_COST, LONGEST_GROUP

if LONGEST_GROUP != a.LONGEST:
    raise ImportError("dse.arrays.LONGEST must be the compiler's longest group")

_FAR = 1 << 60


@compiled
def window_rows(nodes: Any, edges: Any, buffers: Any, edge_buffer: Any, windows: Any) -> Any:
    """Rows that each edge's reader holds at once (``jit.rings.window_rows``)."""
    rows = np.empty(len(edges), np.int64)
    for e in range(len(edges)):
        row, node = buffers[edge_buffer[e]], nodes[edges[e, a.E_LAYER]]
        stride, offset, span = windows[e, 0], windows[e, 1], windows[e, 2]
        rows[e] = (node[n.N_OPEN] - 1) * stride + span
        last = row[b.B_HEIGHT] - 1
        position = max(0, (last - offset - span) // stride + 1)
        if node[n.N_GROUPS]:
            position = node[n.N_HEIGHT] - node[n.N_OPEN]
        if position < node[n.N_HEIGHT]:
            lowest = max(-row[b.B_TOP], position * stride + offset)
            rows[e] = max(rows[e], last + row[b.B_BOTTOM] - lowest + 1)
    return rows


@compiled
def least_rows(
    row: Any, first: int, last: int, layers: Any, nodes: Any, edges: Any, readers: Any, window: Any, lags: Any
) -> int:
    """Rows that a ring needs if the layers ``first`` to ``last`` stream (``jit.rings.RingSizes.least``)."""
    rows, begun = 1, 0
    maker = row[b.B_MAKER]
    while 0 <= maker < len(layers) and layers[maker, a.L_OUTPUT] == row[b.B_TENSOR]:
        if first <= maker <= last:
            begun = max(begun, nodes[maker, n.N_OPEN])
        maker += 1
    if begun:
        rows = begun + max(row[b.B_TOP], row[b.B_BOTTOM])
    inside = 0
    for k in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
        inside += first <= edges[readers[k], a.E_LAYER] <= last
    shared = inside > 1 and row[b.B_MAKER] < 0
    for k in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
        e = readers[k]
        layer = edges[e, a.E_LAYER]
        if first <= layer <= last:
            rows = max(rows, window[e] + max(0, begun - 1))
            if (begun or shared) and layers[layer, a.L_EDGES] > 1:
                rows = max(rows, lags[e, min(layer - first, a.LONGEST + 1)] + row[b.B_BOTTOM])
    return min(row[b.B_ROWS], rows)


@compiled
def group_layers(
    layers: Any, nodes: Any, edges: Any, c: Any, buffers: Any, edge_buffer: Any, outputs: Any, readers: Any,
    window: Any, lags: Any, share: float, group_of: Any,
) -> int:  # fmt: skip
    """Fills the group of every layer; returns how many there are (``jit.groups.group_nodes``)."""
    count = len(layers)
    crossing = np.zeros(count + 1)
    for k in range(len(buffers)):
        row = buffers[k]
        if row[b.B_MAKER] < 0 or row[b.B_READS] == 0:
            continue
        size = row[b.B_ROWS] * row[b.B_UNITS]
        size *= 2 if size > c[a.C_ACT] // 2 else 1
        for cut in range(row[b.B_MAKER] + 1, edges[readers[row[b.B_READ] + row[b.B_READS] - 1], a.E_LAYER] + 1):
            crossing[cut] += size
    best, start = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    best[0] = 0.0
    stamp, seen = np.zeros(len(buffers), np.int64), 0
    for stop in range(1, count + 1):
        wgt = prm = 0
        for first in range(stop - 1, max(-1, stop - 1 - a.LONGEST), -1):
            node, cost = nodes[first], 0.0
            repeats = max(1, node[n.N_GROUPS])
            wgt += repeats * (node[n.N_VECTORS] * node[n.N_WGT_EACH] + node[n.N_PIECES] * node[n.N_WGT_FIXED])
            prm += repeats * (node[n.N_VECTORS] * node[n.N_PRM_EACH] + node[n.N_PIECES] * node[n.N_PRM_FIXED])
            if first < stop - 1:
                if wgt > c[a.C_WGT] * share or prm > c[a.C_PRM] * share:
                    break
                if node[n.N_OPEN] > 1 or nodes[stop - 1, n.N_OPEN] > 1:
                    break
                cost = -1.0
                for slack, price in ((2, 0.0), (1, 1000.0), (0, 4000.0)):
                    seen += 1
                    held = _held(
                        first, stop - 1, slack, seen, stamp, layers, nodes, edges, buffers, edge_buffer, outputs,
                        readers, window, lags, c[a.C_ACT],
                    )  # fmt: skip
                    if held <= c[a.C_ACT]:
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
def _held(
    first: int, last: int, slack: int, seen: int, stamp: Any, layers: Any, nodes: Any, edges: Any, buffers: Any,
    edge_buffer: Any, outputs: Any, readers: Any, window: Any, lags: Any, most: int,
) -> int:  # fmt: skip
    """Units of act that a group takes; stops counting beyond ``most``."""
    total = 0
    for layer in range(first, last + 1):
        low, high = layers[layer, a.L_EDGE], layers[layer, a.L_EDGE] + layers[layer, a.L_EDGES]
        for slot in range(low, high + 2):
            k = edge_buffer[slot] if slot < high else outputs[layer, slot - high]
            if k < 0 or stamp[k] == seen:
                continue
            stamp[k] = seen
            row = buffers[k]
            rows = least_rows(row, first, last, layers, nodes, edges, readers, window, lags)
            ring = min(row[b.B_ROWS], rows + slack) * row[b.B_UNITS]
            made = first <= row[b.B_MAKER] <= last
            inside = 0
            for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
                inside += first <= edges[readers[r], a.E_LAYER] <= last
            if inside < row[b.B_READS] or not (made or row[b.B_MAKER] < 0):
                ring = min(row[b.B_ROWS] * row[b.B_UNITS], ring * (made + inside))
            total += ring
            if total > most:
                return total
    return total


@compiled
def make_plan(
    layers: Any, edges: Any, tensors: Any, nodes: Any, c: Any, lags: Any, share: float, most_slack: int, spills: Any,
    buffers: Any, edge_buffer: Any, outputs: Any, windows: Any, readers: Any, group_of: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Groups, spills, and every buffer's capacity; returns (buffers, groups, units missing: 0 if it fits).

    If it does not fit, ``group_of[0]`` is the group that does not.
    """
    spills[:] = b.KEPT
    count = bind_buffers(
        layers, edges, tensors, nodes, c, spills, buffers, edge_buffer, outputs, windows, readers
    )  # fmt: skip
    window = window_rows(nodes, edges, buffers, edge_buffer, windows)
    groups = group_layers(
        layers, nodes, edges, c, buffers[:count], edge_buffer, outputs, readers, window, lags, share, group_of
    )  # fmt: skip
    need, bounds = np.zeros(groups, np.int64), _group_bounds(group_of, groups)
    settled = np.zeros(groups, np.bool_)
    while True:
        _set_least(layers, nodes, edges, c, buffers[:count], readers, window, lags, group_of, bounds, need)
        settled[:] = False
        changed = False
        while True:  # the worst group first, then those that its choice does not touch
            worst = -1
            for group in range(groups):
                if not settled[group] and need[group] > c[a.C_ACT] and (worst < 0 or need[group] > need[worst]):
                    worst = group
            if worst < 0:
                break
            settled[worst] = True
            choice = _choose(worst, layers, nodes, edges, buffers[:count], readers, window, lags, bounds)
            if choice < 0:
                group_of[0] = worst
                return count, groups, need[worst] - c[a.C_ACT]
            row = buffers[choice]
            spills[row[b.B_TENSOR]] = b.ALU_SPILLED if row[b.B_KIND] == b.TWIN else b.SPILLED
            settled[row[b.B_GROUP] : row[b.B_LAST_GROUP] + 1] = True
            changed = True
        if not changed:
            break
        count = bind_buffers(
            layers, edges, tensors, nodes, c, spills, buffers, edge_buffer, outputs, windows, readers
        )  # fmt: skip
        window = window_rows(nodes, edges, buffers, edge_buffer, windows)
    _set_slack(c, buffers[:count], need, most_slack)
    return count, groups, 0


@compiled
def _align(units: int, c: Any) -> int:
    align = max(c[a.C_IN_UNITS], c[a.C_OUT_UNITS])
    return -(-units // align) * align


@compiled
def _group_bounds(group_of: Any, groups: int) -> Any:
    """First and last layer of each group."""
    bounds = np.zeros((groups, 2), np.int64)
    for layer in range(len(group_of)):
        if layer == 0 or group_of[layer] != group_of[layer - 1]:
            bounds[group_of[layer], 0] = layer
        bounds[group_of[layer], 1] = layer
    return bounds


@compiled
def _set_least(
    layers: Any, nodes: Any, edges: Any, c: Any, buffers: Any, readers: Any, window: Any, lags: Any, group_of: Any,
    bounds: Any, need: Any,
) -> None:  # fmt: skip
    """Least capacities, the groups that each buffer lives in, and the units that each group needs."""
    need[:] = 0
    for k in range(len(buffers)):
        row = buffers[k]
        low, high = _FAR, -1
        maker = row[b.B_MAKER]
        while 0 <= maker < len(layers) and layers[maker, a.L_OUTPUT] == row[b.B_TENSOR]:
            low, high = min(low, group_of[maker]), max(high, group_of[maker])
            maker += 1
        for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
            group = group_of[edges[readers[r], a.E_LAYER]]
            low, high = min(low, group), max(high, group)
        row[b.B_GROUP], row[b.B_LAST_GROUP] = low, high
        row[b.B_CAPACITY] = row[b.B_ROWS]
        if low == high or (row[b.B_LOADED] and row[b.B_SOURCE] < 0):
            first, last = bounds[low, 0], bounds[high, 1]
            row[b.B_CAPACITY] = least_rows(row, first, last, layers, nodes, edges, readers, window, lags)
        for group in range(low, high + 1):
            need[group] += _align(row[b.B_CAPACITY] * row[b.B_UNITS], c)


@compiled
def _choose(
    group: int, layers: Any, nodes: Any, edges: Any, buffers: Any, readers: Any, window: Any, lags: Any, bounds: Any
) -> int:
    """The buffer to send through DRAM, -1 for none: untouched ones first, then the most room for the traffic."""
    chosen, chosen_free, chosen_gain = -1, False, 0
    first, last = bounds[group, 0], bounds[group, 1]
    for k in range(len(buffers)):
        row = buffers[k]
        if not row[b.B_GROUP] <= group <= row[b.B_LAST_GROUP] or row[b.B_GROUP] == row[b.B_LAST_GROUP]:
            continue
        if row[b.B_LOADED]:
            continue
        left = 0
        for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
            layer = edges[readers[r], a.E_LAYER]
            if first <= layer <= last:
                left += least_rows(row, layer, layer, layers, nodes, edges, readers, window, lags)
        if row[b.B_KIND] != b.TWIN and first <= row[b.B_MAKER] <= last:
            left += nodes[row[b.B_MAKER], n.N_OPEN] + max(row[b.B_TOP], row[b.B_BOTTOM])
        left *= row[b.B_UNITS]
        size = row[b.B_CAPACITY] * row[b.B_UNITS]
        if size <= left:
            continue
        gain = size - left - (row[b.B_READS] - 1) * size // 4
        free = left == 0
        if chosen < 0 or (free and not chosen_free) or (free == chosen_free and gain > chosen_gain):
            chosen, chosen_free, chosen_gain = k, free, gain
    return chosen


@compiled
def _set_slack(c: Any, buffers: Any, need: Any, most: int) -> None:
    """Spare rows for the rings of each group in turn, short rows first, while act has room."""
    order, least = np.empty(len(buffers), np.int64), np.empty(len(buffers), np.int64)
    for k in range(len(buffers)):
        least[k] = buffers[k, b.B_CAPACITY]
        place = k
        while place and buffers[order[place - 1], b.B_UNITS] > buffers[k, b.B_UNITS]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = k
    for slack in range(1, most + 1):
        for place in range(len(order)):
            k = order[place]
            row = buffers[k]
            group = row[b.B_GROUP]
            if group != row[b.B_LAST_GROUP] or least[k] + slack > row[b.B_ROWS]:
                continue
            more = _align((least[k] + slack) * row[b.B_UNITS], c)
            grown = need[group] + more - _align(row[b.B_CAPACITY] * row[b.B_UNITS], c)
            if grown <= c[a.C_ACT]:
                row[b.B_CAPACITY], need[group] = least[k] + slack, grown
