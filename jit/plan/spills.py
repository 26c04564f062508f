"""What of a network that is cut into groups goes through DRAM, and how many rows every ring has."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.buffers import bind_buffers
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.rings import least_rows, made_rows, window_rows

_FAR = 1 << 60


@compiled
def fit_groups(
    layers: Any, edges: Any, tensors: Any, makers: Any, nodes: Any, c: Any, lags: Any, group_of: Any, budget: Any,
    most_slack: int, spills: Any, buffers: Any, edge_buffer: Any, outputs: Any, readers: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Adds to ``spills`` until every group keeps to its ``budget`` of act, and sets every buffer's capacity.

    Where nothing more can go, all of act will do. Returns (buffers, group that does not fit or -1, units it needs).
    ``most_slack`` bounds the spare rows of rings.
    """
    groups = len(budget)
    need, bounds = np.zeros(groups, np.int64), _group_bounds(group_of, groups)
    settled, hopeless = np.zeros(groups, np.bool_), np.zeros(groups, np.bool_)
    while True:
        count = bind_buffers(layers, edges, tensors, spills, buffers, edge_buffer, outputs, readers)
        window = window_rows(nodes, edges, buffers, edge_buffer)
        _set_least(layers, nodes, edges, c, buffers[:count], readers, makers, window, lags, group_of, bounds, need)
        settled[:] = hopeless
        changed = False
        while True:  # the worst group first, then those that its choice does not touch
            worst = -1
            for group in range(groups):
                excess = need[group] - budget[group]
                if not settled[group] and excess > 0 and (worst < 0 or excess > need[worst] - budget[worst]):
                    worst = group
            if worst < 0:
                break
            settled[worst] = True
            choice = _choose(
                worst, layers, nodes, edges, buffers[:count], readers, makers, window, lags, bounds, spills
            )
            if choice < 0:
                hopeless[worst] = True
                if need[worst] > c[t.C_ACT]:
                    return count, worst, need[worst]
                continue
            row = buffers[choice]
            spills[row[b.B_TENSOR]] = b.ALU_SPILLED if row[b.B_KIND] == b.DUPLICATE else b.SPILLED
            settled[row[b.B_GROUP] : row[b.B_LAST_GROUP] + 1] = True
            changed = True
        if not changed:
            break
    _set_slack(c, buffers[:count], need, budget, most_slack)
    return count, -1, 0


@compiled
def align(units: int, c: Any) -> int:
    """Units up to the next whole read of act."""
    return -(-units // c[t.C_ROW]) * c[t.C_ROW]


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
    layers: Any, nodes: Any, edges: Any, c: Any, buffers: Any, readers: Any, makers: Any, window: Any, lags: Any,
    group_of: Any, bounds: Any, need: Any,
) -> None:  # fmt: skip
    """Least capacities, the groups that each buffer lives in, and the units that each group needs."""
    need[:] = 0
    for k in range(len(buffers)):
        row = buffers[k]
        low, high = _FAR, -1
        for m in range(row[b.B_MAKE], row[b.B_MAKE] + row[b.B_MAKES]):
            low, high = min(low, group_of[makers[m]]), max(high, group_of[makers[m]])
        for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
            group = group_of[edges[readers[r], t.E_LAYER]]
            low, high = min(low, group), max(high, group)
        row[b.B_GROUP], row[b.B_LAST_GROUP] = low, high
        row[b.B_CAPACITY] = row[b.B_ROWS]
        if low == high or (row[b.B_LOADED] and row[b.B_SOURCE] < 0):
            row[b.B_CAPACITY] = least_rows(
                row, bounds[low, 0], bounds[high, 1], layers, nodes, edges, readers, makers, window, lags
            )
        for group in range(low, high + 1):
            need[group] += align(row[b.B_CAPACITY] * row[b.B_UNITS], c)


@compiled
def _choose(
    group: int, layers: Any, nodes: Any, edges: Any, buffers: Any, readers: Any, makers: Any, window: Any, lags: Any,
    bounds: Any, spills: Any,
) -> int:  # fmt: skip
    """The buffer to send through DRAM, -1 for none: untouched ones first, then the most room for the traffic."""
    chosen, chosen_free, chosen_gain = -1, False, 0
    first, last = bounds[group, 0], bounds[group, 1]
    for k in range(len(buffers)):
        row = buffers[k]
        if not row[b.B_GROUP] <= group <= row[b.B_LAST_GROUP] or row[b.B_GROUP] == row[b.B_LAST_GROUP]:
            continue
        if row[b.B_LOADED] or spills[row[b.B_TENSOR]] == b.SPILLED:
            continue
        left = 0
        for r in range(row[b.B_READ], row[b.B_READ] + row[b.B_READS]):
            layer = edges[readers[r], t.E_LAYER]
            if first <= layer <= last:
                left += least_rows(row, layer, layer, layers, nodes, edges, readers, makers, window, lags)
        if row[b.B_KIND] != b.DUPLICATE:
            for m in range(row[b.B_MAKE], row[b.B_MAKE] + row[b.B_MAKES]):
                if first <= makers[m] <= last:
                    left += made_rows(row, nodes, makers)
                    break
        left *= row[b.B_UNITS]
        size = row[b.B_CAPACITY] * row[b.B_UNITS]
        if size <= left:
            continue
        gain = size - left - (row[b.B_READS] - 1) * size // 4  # it is loaded once for each reader
        free = left == 0
        if chosen < 0 or (free and not chosen_free) or (free == chosen_free and gain > chosen_gain):
            chosen, chosen_free, chosen_gain = k, free, gain
    return chosen


@compiled
def _set_slack(c: Any, buffers: Any, need: Any, budget: Any, most: int) -> None:
    """Spare rows for the rings of each group in turn, short rows first, while the budget has room."""
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
            if group != row[b.B_LAST_GROUP] or least[k] + slack > row[b.B_ROWS] or slack % row[b.B_STEP]:
                continue
            more = align((least[k] + slack) * row[b.B_UNITS], c)
            grown = need[group] + more - align(row[b.B_CAPACITY] * row[b.B_UNITS], c)
            if grown <= budget[group]:
                row[b.B_CAPACITY], need[group] = least[k] + slack, grown
