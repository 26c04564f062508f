"""The compiled heart of the latency model: rows of layers on four engines, as the compiler's scheduler sees them.

Every step takes what comes first: the next constants or input row on the bus, or the work that can start soonest. Work
that nothing can come between is one step: a row of a layer whose constants are all there, or a chunk of constants over
a group of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.timing import ALU_DEPTH, GEMM_DEPTH, LOAD_DEPTH, LOAD_SETUP, STORE_DEPTH, STORE_SETUP
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as a
from tilewright.jit.plan.native import compiled

OK, STUCK_ACT, STUCK_WGT, STUCK_PRM = range(4)
_FAR = 1 << 40
_TASK_GAP = GEMM_DEPTH + 2
_DONE_GAP = ALU_DEPTH + 2
_LOAD_WEIGHTS = 64  #: weight entries of one LOAD

# what a step needs to know of a layer's progress
S_GROUP, S_CHUNK, S_ROW, S_DONE, S_LOADED, S_TIMES, S_COMPLETED = range(7)
UNBORN, LIVE, DEAD = range(3)


@compiled
def transfer_cycles(size: int, c: Any) -> float:
    """Bus cycles of a LOAD: its beats, its requests, or the latency that outstanding bursts leave uncovered."""
    if size <= 0:
        return 0.0
    beats = -(-size // c[a.C_BEAT])
    bursts = -(-beats // c[a.C_BURST])
    covered = bursts * (c[a.C_LATENCY] + min(beats, c[a.C_BURST])) / c[a.C_OUTSTANDING]
    return max(float(beats), bursts + LOAD_SETUP + 1.0, covered)


@compiled
def write_cycles(size: int, c: Any) -> float:
    """Bus cycles of a STORE, likewise; its first beat comes ``STORE_SETUP`` later."""
    beats = -(-size // c[a.C_BEAT])
    bursts = -(-beats // c[a.C_BURST])
    return max(float(beats), bursts * (c[a.C_LATENCY] + min(beats, c[a.C_BURST])) / c[a.C_OUTSTANDING])


@compiled
def chunk_size(node: Any, chunk: int) -> tuple[int, int]:
    """wgt and prm entries of a chunk."""
    vectors = node[a.N_VECTORS] * (chunk + 1) // node[a.N_PIECES] - node[a.N_VECTORS] * chunk // node[a.N_PIECES]
    return (
        node[a.N_WGT_FIXED] + vectors * node[a.N_WGT_EACH],
        node[a.N_PRM_FIXED] + vectors * node[a.N_PRM_EACH],
    )


@compiled
def lowest_row(k: int, buffers: Any, readers: Any, edges: Any, nodes: Any, state: Any) -> int:
    """The lowest row of a buffer that work to come reads."""
    lowest = _FAR
    for r in range(buffers[k, b.B_READ], buffers[k, b.B_READ] + buffers[k, b.B_READS]):
        e = readers[r]
        layer = edges[e, a.E_LAYER]
        if state[layer, S_DONE]:
            continue
        row = state[layer, S_ROW]
        groups = nodes[layer, a.N_GROUPS]
        if groups > 0 and state[layer, S_CHUNK] < nodes[layer, a.N_PIECES] - 1:
            row = nodes[layer, a.N_HEIGHT] * state[layer, S_GROUP] // groups
        lowest = min(lowest, max(0, row * edges[e, a.E_STRIDE] + edges[e, a.E_OFFSET] + buffers[k, b.B_TOP]))
    return lowest


@compiled
def last_row(node: Any, state: Any) -> int:
    """The last row of the layer's next task."""
    end, groups = node[a.N_HEIGHT], node[a.N_GROUPS]
    if groups:
        end = node[a.N_HEIGHT] * (state[S_GROUP] + 1) // groups
    return min(state[S_ROW] + node[a.N_ROWS], end) - 1


@compiled
def mark(dirty: Any, first: int, last: int) -> None:
    """Layers whose candidates must be looked at again."""
    for layer in range(first, min(len(dirty), last + 1)):
        dirty[layer] = True


@compiled
def run_timeline(
    layers: Any, edges: Any, makers: Any, nodes: Any, c: Any, buffers: Any, edge_buffer: Any, outputs: Any,
    readers: Any, planned: bool, deep: bool, share: float, busy: Any,
) -> tuple[int, int, float]:  # fmt: skip
    """One schedule: (``OK`` or what it is stuck for, first unfinished layer, cycles).

    Fills busy[engine] (LOAD, GEMM, ALU, STORE). ``planned``: buffers come to life group by group.
    """
    n_nodes, n_buffers = len(nodes), len(buffers)
    state = np.zeros((n_nodes, 7), np.int64)
    chunks = 0
    for layer in range(n_nodes):
        state[layer, S_TIMES] = chunks
        chunks += nodes[layer, a.N_PIECES] * max(1, nodes[layer, a.N_GROUPS])
    times = np.empty(chunks)
    rows = buffers[n_buffers - 1, b.B_FIRST] + buffers[n_buffers - 1, b.B_ROWS]
    row_times, stored_times = np.zeros(rows), np.zeros(rows)
    ready, live = np.zeros(n_buffers, np.int64), np.zeros(n_buffers, np.int64)
    candidate, dirty = np.full(n_nodes, np.inf), np.ones(n_nodes, np.bool_)
    unborn = np.zeros(n_nodes + 2, np.int64)
    load_cost, is_source = np.zeros(n_buffers), np.zeros(n_buffers, np.bool_)
    size = c[a.C_INSTRUCTION] / c[a.C_BEAT]  # beats, or longer where outstanding bursts do not cover the latency
    size *= max(1.0, (c[a.C_LATENCY] + c[a.C_BURST]) / (c[a.C_OUTSTANDING] * c[a.C_BURST]))
    for k in range(n_buffers):
        unborn[buffers[k, b.B_GROUP]] += 1
        load_cost[k] = round(transfer_cycles(buffers[k, b.B_UNITS] * c[a.C_ACT_BYTES], c) + size)
        if buffers[k, b.B_SOURCE] >= 0:
            is_source[buffers[k, b.B_SOURCE]] = True
    latency, banks = c[a.C_LATENCY], c[a.C_ACC_BANKS]
    arrive = latency + LOAD_DEPTH + LOAD_SETUP
    acc_free, acc_next = np.zeros(banks), 0
    act, wgt, prm = c[a.C_ACT], c[a.C_WGT], c[a.C_PRM]
    bus, gemm, alu, store = latency + size + LOAD_SETUP, 0.0, 0.0, 0.0
    constants, moved = 0.0, 0.0
    first, queue, group, first_load, stuck = 0, 0, 0, 0, STUCK_ACT
    busy[:] = 0.0

    while True:
        while first < n_nodes and state[first, S_DONE]:
            first += 1
        # the best step
        best, best_start = -1, 0.0
        for layer in range(first, min(n_nodes, queue + 1)):
            if state[layer, S_DONE]:
                continue
            if dirty[layer]:
                dirty[layer] = False
                t = np.inf
                item = state[layer, S_GROUP] * nodes[layer, a.N_PIECES] + state[layer, S_CHUNK]
                if item < state[layer, S_LOADED]:
                    t = times[state[layer, S_TIMES] + item]
                    row = last_row(nodes[layer], state[layer])
                    for e in range(layers[layer, a.L_EDGE], layers[layer, a.L_EDGE] + layers[layer, a.L_EDGES]):
                        k = edge_buffer[e]
                        last = row * edges[e, a.E_STRIDE] + edges[e, a.E_OFFSET] + edges[e, a.E_SPAN] - 1
                        last = max(0, min(last + buffers[k, b.B_TOP], buffers[k, b.B_ROWS] - 1))
                        if last >= ready[k]:
                            t = np.inf
                            break
                        t = max(t, row_times[buffers[k, b.B_FIRST] + last])
                    need = 0
                    for slot in range(2):
                        k = outputs[layer, slot]
                        if k < 0 or t == np.inf:
                            continue
                        if live[k] == LIVE:
                            top = row + buffers[k, b.B_TOP]
                            if row == buffers[k, b.B_HEIGHT] - 1:
                                top = buffers[k, b.B_ROWS] - 1
                            low = lowest_row(k, buffers, readers, edges, nodes, state)
                            if top >= low + buffers[k, b.B_CAPACITY]:
                                t = np.inf
                        else:
                            need += buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY]
                            if planned and buffers[k, b.B_GROUP] > group:
                                need = _FAR
                    if need > act:
                        t = np.inf
                candidate[layer] = t
            t = candidate[layer]
            if t == np.inf:
                continue
            t = max(t, gemm, acc_free[acc_next]) if nodes[layer, a.N_GEMM] else max(t, alu)
            if best < 0 or t < best_start or (t == best_start and deep):
                best, best_start = layer, t
        if best < 0 or best_start > bus:
            # something for the bus
            loaded = False
            for attempt in range(3 if best < 0 else 2):
                patient = attempt < 2
                if not patient or (constants * (1 - share) > moved * share) == (attempt == 0):
                    while first_load < n_buffers and (
                        not buffers[first_load, b.B_LOADED] or ready[first_load] == buffers[first_load, b.B_ROWS]
                    ):
                        first_load += 1
                    for k in range(first_load, n_buffers):
                        if not buffers[k, b.B_LOADED] or ready[k] == buffers[k, b.B_ROWS]:
                            continue
                        if planned and buffers[k, b.B_GROUP] > group:
                            break  # so are those that follow
                        arrival, source = 0.0, buffers[k, b.B_SOURCE]
                        if source >= 0:
                            if ready[source] <= ready[k]:
                                continue
                            arrival = stored_times[buffers[source, b.B_FIRST] + ready[k]]
                            if patient and arrival > bus:
                                continue
                        if live[k] == UNBORN:
                            need = buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY]
                            if need > act:
                                continue
                            act -= need
                            live[k] = LIVE
                            unborn[buffers[k, b.B_GROUP]] -= 1
                            mark(dirty, first, queue)
                        low = lowest_row(k, buffers, readers, edges, nodes, state)
                        if ready[k] >= low + buffers[k, b.B_CAPACITY]:
                            continue
                        bus = max(bus, arrival) + load_cost[k]
                        moved += load_cost[k]
                        busy[0] += load_cost[k]
                        row_times[buffers[k, b.B_FIRST] + ready[k]] = bus + arrive
                        ready[k] += 1
                        if ready[k] == buffers[k, b.B_ROWS] and low >= _FAR:  # padding that nobody reads came last
                            live[k] = DEAD
                            act += buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY]
                            mark(dirty, first, queue)
                        for r in range(buffers[k, b.B_READ], buffers[k, b.B_READ] + buffers[k, b.B_READS]):
                            dirty[edges[readers[r], a.E_LAYER]] = True
                        loaded = True
                        break
                elif queue < n_nodes:
                    node = nodes[queue]
                    item = state[queue, S_LOADED]
                    chunk = item % node[a.N_PIECES]
                    need_wgt, need_prm = chunk_size(node, chunk)
                    if need_wgt > wgt:
                        stuck = STUCK_WGT
                    elif need_prm > prm:
                        stuck = STUCK_PRM
                    else:
                        stuck = STUCK_ACT
                        wgt -= need_wgt
                        prm -= need_prm
                        cost = transfer_cycles(need_wgt * c[a.C_WGT_BYTES], c)
                        cost += transfer_cycles(need_prm * c[a.C_PRM_BYTES], c)
                        if item == 0:
                            cost += transfer_cycles(node[a.N_UOPS], c)
                        cost = round(cost + (2 + need_wgt // _LOAD_WEIGHTS) * size)
                        bus += cost
                        constants += cost
                        busy[0] += cost
                        times[state[queue, S_TIMES] + item] = bus + arrive
                        state[queue, S_LOADED] += 1
                        dirty[queue] = True
                        if item + 1 == node[a.N_PIECES] * max(1, node[a.N_GROUPS]):
                            queue += 1
                        loaded = True
                if loaded:
                    break
            while planned and group < n_nodes and unborn[group] == 0:
                group += 1
                mark(dirty, first, queue)
                loaded = True
            if loaded:
                continue
            if best < 0:
                break
            bus = max(bus, best_start)
        # run it
        node = nodes[best]
        pieces, chunk, row = node[a.N_PIECES], state[best, S_CHUNK], state[best, S_ROW]
        grouped = node[a.N_GROUPS] > 0
        until = chunk + 1
        if not grouped and state[best, S_LOADED] == pieces:
            until = pieces
        vectors = node[a.N_VECTORS] * until // pieces - node[a.N_VECTORS] * chunk // pieces
        parts = (until - chunk) * -(-vectors // ((until - chunk) * node[a.N_ROOM]))
        end = last_row(node, state[best]) + 1
        if grouped:
            end_of_group = node[a.N_HEIGHT] * (state[best, S_GROUP] + 1) // node[a.N_GROUPS]
            if 0 < chunk < pieces - 1:
                end = end_of_group
        tasks = -(-(end - row) // node[a.N_ROWS])
        outputs_of, less = vectors * (end - row), vectors * node[a.N_LESS] if end == node[a.N_HEIGHT] else 0
        vectors, parts = vectors * tasks, parts * tasks
        results = 1 if outputs[best, 1] < 0 else 2
        for slot in range(2):
            k = outputs[best, slot]
            if k >= 0 and live[k] == UNBORN:
                act -= buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY]
                live[k] = LIVE
                unborn[buffers[k, b.B_GROUP]] -= 1
                mark(dirty, first, queue)
        bus += parts * size * (node[a.N_INSTRUCTIONS] + results * node[a.N_ROWS])
        work = outputs_of * (node[a.N_TERMS_EACH] + node[a.N_OUT_EACH] * results) * 1.0
        if node[a.N_TERMS_EACH] > 0 and outputs_of * node[a.N_OUT_EACH] < parts * ALU_DEPTH:
            work += parts * ALU_DEPTH
        busy[2] += work
        if node[a.N_GEMM]:
            array = vectors * node[a.N_GEMM_EACH] + parts * node[a.N_GEMM_FIXED] - less * 1.0
            busy[1] += array
            alu = max(max(alu, best_start + array / parts + _TASK_GAP) + work,
                      best_start + array + _TASK_GAP + work / parts)  # fmt: skip
            gemm = max(best_start + array, alu - banks * work / parts)
            apart = max(array, work) / parts
            for k in range(min(parts, banks)):
                acc_free[(acc_next + parts - 1 - k) % banks] = alu - k * apart + ALU_DEPTH
        else:
            alu = max(alu, best_start) + work
        acc_next = (acc_next + parts) % banks
        done = alu + _DONE_GAP
        # where the layer stands now
        completes = (until == pieces) if not grouped else chunk == pieces - 1
        freed, freed_until = chunk, chunk
        if not grouped:
            state[best, S_CHUNK] = until
            if end == node[a.N_HEIGHT]:
                freed_until = until
            if until == pieces:
                state[best, S_CHUNK] = 0
                state[best, S_ROW] = end
                state[best, S_DONE] = end == node[a.N_HEIGHT]
        else:
            state[best, S_ROW] = end
            if end == end_of_group:
                freed_until = chunk + 1
                state[best, S_CHUNK] = chunk + 1
                state[best, S_ROW] = node[a.N_HEIGHT] * state[best, S_GROUP] // node[a.N_GROUPS]
                if chunk + 1 == pieces:
                    state[best, S_CHUNK] = 0
                    state[best, S_GROUP] += 1
                    state[best, S_ROW] = end
                    state[best, S_DONE] = state[best, S_GROUP] == node[a.N_GROUPS]
        for k in range(freed, freed_until):
            free_wgt, free_prm = chunk_size(node, k)
            wgt += free_wgt
            prm += free_prm
        dirty[best] = True
        if completes:
            state[best, S_COMPLETED] = end
            for slot in range(2):
                k = outputs[best, slot]
                if k < 0:
                    continue
                complete = _FAR
                for m in range(buffers[k, b.B_MAKE], buffers[k, b.B_MAKE] + buffers[k, b.B_MAKES]):
                    complete = min(complete, state[makers[m], S_COMPLETED])
                top = buffers[k, b.B_TOP] + complete if complete else 0
                if complete == buffers[k, b.B_HEIGHT]:
                    top = buffers[k, b.B_ROWS]
                if top <= ready[k]:
                    continue
                if buffers[k, b.B_STORED]:
                    count = top - ready[k] if is_source[k] else end - row
                    cost = STORE_SETUP + write_cycles(buffers[k, b.B_UNITS] * c[a.C_ACT_BYTES], c)
                    store = max(store, done) + cost * count
                    busy[3] += cost * count
                for r in range(ready[k], top):
                    row_times[buffers[k, b.B_FIRST] + r] = done
                    stored_times[buffers[k, b.B_FIRST] + r] = store + latency + STORE_DEPTH + 1
                ready[k] = top
                for r in range(buffers[k, b.B_READ], buffers[k, b.B_READ] + buffers[k, b.B_READS]):
                    dirty[edges[readers[r], a.E_LAYER]] = True
        # rows and buffers that nobody needs any more
        low, high = layers[best, a.L_EDGE], layers[best, a.L_EDGE] + layers[best, a.L_EDGES]
        for slot in range(low, high + 2):
            k = edge_buffer[slot] if slot < high else outputs[best, slot - high]
            if k < 0:
                continue
            if slot < high:
                for m in range(buffers[k, b.B_MAKE], buffers[k, b.B_MAKE] + buffers[k, b.B_MAKES]):
                    dirty[makers[m]] = True
            if (
                live[k] == LIVE
                and ready[k] == buffers[k, b.B_ROWS]
                and lowest_row(k, buffers, readers, edges, nodes, state) >= _FAR
            ):
                live[k] = DEAD
                act += buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY]
                mark(dirty, first, queue)
    if first < n_nodes:
        return stuck, first, 0.0
    return OK, 0, max(max(gemm, alu), max(bus, store + latency))
