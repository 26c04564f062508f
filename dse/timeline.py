"""The compiled heart of the latency model: rows of layers on four engines, as the compiler's scheduler sees them.

Every step takes what comes first: the next constants or input row on the bus, or the task that can start soonest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tilewright.isa.timing import ALU_DEPTH, GEMM_DEPTH, LOAD_DEPTH, LOAD_SETUP, STORE_DEPTH, STORE_SETUP

# columns of the tables
N_HEIGHT, N_PART, N_PARTS, N_CHUNK, N_CHUNKS, N_GROUPS, N_EDGE, N_EDGES, N_OUT, N_TWIN, N_GEMM, N_TIMES = range(12)
P_CHUNK, P_GEMM, P_TERMS, P_OUT, P_FETCH = range(5)
C_WGT, C_PRM, C_BUS = range(3)
E_NODE, E_BUFFER, E_STRIDE, E_OFFSET, E_SPAN = range(5)
(B_HEIGHT, B_TOP, B_ROWS, B_UNITS, B_CAPACITY, B_LOADED, B_STORED, B_SOURCE, B_LOAD, B_STORE,
 B_FIRST, B_LAST, B_READ, B_READS, B_MADE) = range(15)  # fmt: skip

OK, STUCK_ACT, STUCK_WGT, STUCK_PRM = range(4)
FAR = 1 << 40
_TASK_GAP = GEMM_DEPTH + 2
_DONE_GAP = ALU_DEPTH + 2


@njit(cache=True)  # type: ignore[untyped-decorator]
def run_timeline(
    nodes: Any, parts: Any, chunks: Any, edges: Any, buffers: Any, readers: Any, act: int, wgt: int, prm: int,
    banks: int, deep: bool, share: float, ahead: int, latency: float, start: float, times: Any,
    row_times: Any, held: Any, busy: Any,
) -> tuple[int, float]:  # fmt: skip
    """Fills busy[engine] (LOAD, GEMM, ALU, STORE) and ``held`` when stuck; returns (state, cycles).

    At most ``ahead`` layers from the first unfinished one on are worked on at once.
    """
    n_nodes, n_buffers = len(nodes), len(buffers)
    group, chunk = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    row, part = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    finished = np.zeros(n_nodes, np.bool_)
    ready = np.zeros(n_buffers, np.int64)
    live = np.zeros(n_buffers, np.int64)  # 0 not yet, 1 live, 2 dead
    completed = np.zeros(n_nodes, np.int64)
    acc_free = np.zeros(banks)
    acc_next, first, queue_node, queue_item = 0, 0, 0, 0
    bus, gemm, alu, store = start * 1.0, 0.0, 0.0, 0.0
    constants, moved = 0.0, 0.0
    chunk_stuck = OK
    times[:] = -1.0

    while True:
        for b in range(n_buffers):
            held[b] = live[b] == 1
        while first < n_nodes and finished[first]:
            first += 1
        # the best task
        best, best_start, best_key = -1, 0.0, 0.0
        limit = min(n_nodes, queue_node + 1, first + ahead)
        for n in range(first, limit):
            if finished[n]:
                continue
            c = group[n] * nodes[n, N_CHUNKS] + chunk[n]
            t = times[nodes[n, N_TIMES] + c]
            if t < 0:
                continue
            possible = True
            for e in range(nodes[n, N_EDGE], nodes[n, N_EDGE] + nodes[n, N_EDGES]):
                b = edges[e, E_BUFFER]
                last = row[n] * edges[e, E_STRIDE] + edges[e, E_OFFSET] + edges[e, E_SPAN] - 1 + buffers[b, B_TOP]
                last = max(0, min(last, buffers[b, B_ROWS] - 1))
                if last >= ready[b]:
                    possible = False
                    break
                t = max(t, row_times[buffers[b, B_FIRST] + last])
            if not possible:
                continue
            need = 0
            for k in range(2):
                b = nodes[n, N_OUT + k]
                if b < 0:
                    continue
                if live[b] == 1:
                    top = row[n] + buffers[b, B_TOP]
                    if row[n] == buffers[b, B_HEIGHT] - 1:
                        top = buffers[b, B_ROWS] - 1
                    if (
                        top
                        >= _lowest(b, buffers, readers, edges, nodes, group, chunk, row, finished)
                        + buffers[b, B_CAPACITY]
                    ):
                        possible = False
                else:
                    need += buffers[b, B_UNITS] * buffers[b, B_CAPACITY]
            if possible and need > act:
                possible = False
                held[nodes[n, N_OUT]] = True
            if not possible:
                continue
            engine = alu
            if nodes[n, N_GEMM]:
                t = max(t, acc_free[acc_next])
                engine = gemm
            key = max(t, engine)
            if best < 0 or key < best_key or (key == best_key and deep):
                best, best_key, best_start = n, key, key
        run = best >= 0 and best_start <= bus
        if not run:
            # something for the bus
            loaded = False
            for attempt in range(2):
                rows_first = (constants * (1 - share) > moved * share) == (attempt == 0)
                if rows_first:
                    for patient in range(2):
                        if loaded or (patient == 1 and (best >= 0 or queue_node < n_nodes)):
                            break
                        for b in range(n_buffers):
                            if not buffers[b, B_LOADED] or ready[b] >= buffers[b, B_ROWS] or live[b] == 2:
                                continue
                            if edges[readers[buffers[b, B_READ]], E_NODE] >= first + ahead:
                                continue
                            arrival = 0.0
                            source = buffers[b, B_SOURCE]
                            if source >= 0:
                                if ready[source] <= ready[b]:
                                    continue
                                arrival = row_times[buffers[source, B_FIRST] + ready[b]] + buffers[b, B_LOAD] + latency
                                if patient == 0 and arrival > bus:
                                    continue
                            if live[b] == 0:
                                need = buffers[b, B_UNITS] * buffers[b, B_CAPACITY]
                                if need > act:
                                    held[b] = True
                                    continue
                                act -= need
                                live[b] = 1
                            low = _lowest(b, buffers, readers, edges, nodes, group, chunk, row, finished)
                            if ready[b] >= low + buffers[b, B_CAPACITY]:
                                continue
                            bus = max(bus, arrival) + buffers[b, B_LOAD]
                            moved += buffers[b, B_LOAD]
                            busy[0] += buffers[b, B_LOAD]
                            row_times[buffers[b, B_FIRST] + ready[b]] = bus + latency + LOAD_DEPTH + LOAD_SETUP
                            ready[b] += 1
                            loaded = True
                            break
                elif queue_node < n_nodes:
                    c = nodes[queue_node, N_CHUNK] + queue_item % nodes[queue_node, N_CHUNKS]
                    if chunks[c, C_WGT] > wgt:
                        chunk_stuck = STUCK_WGT
                    elif chunks[c, C_PRM] > prm:
                        chunk_stuck = STUCK_PRM
                    else:
                        wgt -= chunks[c, C_WGT]
                        prm -= chunks[c, C_PRM]
                        bus += chunks[c, C_BUS]
                        constants += chunks[c, C_BUS]
                        busy[0] += chunks[c, C_BUS]
                        times[nodes[queue_node, N_TIMES] + queue_item] = bus + latency + LOAD_DEPTH + LOAD_SETUP
                        queue_item += 1
                        if queue_item == nodes[queue_node, N_CHUNKS] * max(1, nodes[queue_node, N_GROUPS]):
                            queue_node, queue_item = queue_node + 1, 0
                        loaded = True
                if loaded:
                    break
            if loaded:
                continue
            if best < 0:
                break
            run = True
            bus = max(bus, best_start)
        # run it
        n = best
        p = nodes[n, N_PART] + part[n]
        outputs = 1 if nodes[n, N_TWIN] < 0 else 2
        for k in range(2):
            b = nodes[n, N_OUT + k]
            if b >= 0 and live[b] == 0:
                act -= buffers[b, B_UNITS] * buffers[b, B_CAPACITY]
                live[b] = 1
        bus += parts[p, P_FETCH] / 1024.0
        begin = best_start
        if nodes[n, N_GEMM]:
            gemm = best_start + parts[p, P_GEMM]
            busy[1] += parts[p, P_GEMM]
            begin = gemm + _TASK_GAP
        work = parts[p, P_TERMS] + parts[p, P_OUT] * outputs
        alu = max(alu, begin) + work
        if parts[p, P_TERMS] > 0:
            alu += ALU_DEPTH if parts[p, P_OUT] < ALU_DEPTH else 0
        busy[2] += work
        if nodes[n, N_GEMM]:
            acc_free[acc_next] = alu + ALU_DEPTH
        acc_next = (acc_next + 1) % banks
        done = alu + _DONE_GAP
        completes = part[n] == nodes[n, N_PARTS] - 1
        this_row = row[n]
        freed = _advance(n, nodes, parts, group, chunk, row, part, finished)
        if freed >= 0:
            c = nodes[n, N_CHUNK] + freed
            wgt += chunks[c, C_WGT]
            prm += chunks[c, C_PRM]
        if completes:
            completed[n] = this_row + 1
            for k in range(2):
                b = nodes[n, N_OUT + k]
                if b < 0:
                    continue
                rows = FAR
                for m in range(n_nodes):
                    if nodes[m, N_OUT] == nodes[n, N_OUT]:
                        rows = min(rows, completed[m])
                until = buffers[b, B_ROWS] if rows == buffers[b, B_HEIGHT] else buffers[b, B_TOP] + rows if rows else 0
                when = done
                if until > ready[b] and buffers[b, B_STORED]:
                    store = max(store, done + STORE_SETUP) + buffers[b, B_STORE]
                    busy[3] += buffers[b, B_STORE]
                    when = max(done, store + latency + STORE_DEPTH + 1) if buffers[b, B_MADE] else done
                for r in range(ready[b], until):
                    row_times[buffers[b, B_FIRST] + r] = when
                ready[b] = max(ready[b], until)
        for b in range(n_buffers):
            if live[b] != 1 or ready[b] < buffers[b, B_ROWS]:
                continue
            if _lowest(b, buffers, readers, edges, nodes, group, chunk, row, finished) >= FAR:
                live[b] = 2
                act += buffers[b, B_UNITS] * buffers[b, B_CAPACITY]
    for n in range(n_nodes):
        if not finished[n]:
            blocked = False
            for b in range(n_buffers):
                blocked = blocked or (held[b] and live[b] == 0)
            state = STUCK_ACT if blocked or chunk_stuck == OK or queue_node == n_nodes else chunk_stuck
            return state, 0.0
    return OK, max(max(gemm, alu), max(bus, store + latency))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _lowest(
    b: int, buffers: Any, readers: Any, edges: Any, nodes: Any, group: Any, chunk: Any, row: Any, finished: Any
) -> int:
    """The lowest row of a buffer that a task to come reads."""
    lowest = FAR
    for k in range(buffers[b, B_READ], buffers[b, B_READ] + buffers[b, B_READS]):
        e = readers[k]
        n = edges[e, E_NODE]
        if finished[n]:
            continue
        r = row[n]
        if nodes[n, N_GROUPS] > 0 and chunk[n] < nodes[n, N_CHUNKS] - 1:
            r = nodes[n, N_HEIGHT] * group[n] // nodes[n, N_GROUPS]
        lowest = min(lowest, max(0, r * edges[e, E_STRIDE] + edges[e, E_OFFSET] + buffers[b, B_TOP]))
    return lowest


@njit(cache=True)  # type: ignore[untyped-decorator]
def _advance(n: int, nodes: Any, parts: Any, group: Any, chunk: Any, row: Any, part: Any, finished: Any) -> int:
    """Step to a node's next task; returns the chunk (within a group) that has been used for the last time, or -1."""
    used = chunk[n]
    base, count = nodes[n, N_PART], nodes[n, N_PARTS]
    groups = nodes[n, N_GROUPS]
    leaves = part[n] + 1 == count or parts[base + part[n] + 1, P_CHUNK] != used
    if groups == 0:
        last_row = row[n] == nodes[n, N_HEIGHT] - 1
        part[n] += 1
        if part[n] == count:
            part[n] = 0
            row[n] += 1
            finished[n] = last_row
        chunk[n] = parts[base + part[n], P_CHUNK]
        return used if last_row and leaves else -1
    low, high = nodes[n, N_HEIGHT] * group[n] // groups, nodes[n, N_HEIGHT] * (group[n] + 1) // groups
    if not leaves:
        part[n] += 1
        return -1
    row[n] += 1
    if row[n] < high:
        while part[n] > 0 and parts[base + part[n] - 1, P_CHUNK] == used:
            part[n] -= 1
        return -1
    row[n] = low
    part[n] += 1
    if part[n] == count:
        part[n] = 0
        group[n] += 1
        row[n] = high
        finished[n] = group[n] == groups
    chunk[n] = parts[base + part[n], P_CHUNK]
    return used


def int_table(rows: list[Any], columns: int) -> NDArray[np.int64]:
    """A table of the kernel; ``columns`` matters where there are no rows."""
    return np.array(rows, np.int64).reshape(-1, columns)
