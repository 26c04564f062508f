"""The compiled heart of the latency model: rows of layers on four engines, as the compiler's scheduler sees them.

Every step takes what comes first: the next constants or input row on the bus, or the work that can start soonest. Work
that nothing can come between is one step: a row of a layer whose constants are all there, or a chunk of constants over
a group of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.timing import ALU_DEPTH, GEMM_DEPTH
from tilewright.jit.cost.loading import use_bus
from tilewright.jit.cost.state import (
    ACC,
    ACT,
    ALU,
    BUS,
    FAR,
    FIRST,
    GEMM,
    GROUP,
    LIVE,
    PRM,
    Q_BUFFER,
    Q_COUNT,
    Q_TOP,
    QUEUE,
    R_TAKEN,
    R_UNSTORED,
    S_CHUNK,
    S_COMPLETED,
    S_DONE,
    S_GROUP,
    S_LOADED,
    S_ROW,
    S_TIMES,
    STORE,
    STUCK,
    TAIL,
    UNBORN,
    WGT,
    State,
    Work,
    begin,
    chunk_size,
    dies,
    is_born,
    last_row,
    look_at_readers,
    lowest_row,
)
from tilewright.jit.cost.storing import free_slot, has_read, is_due, share_bank, store_next
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as a
from tilewright.jit.plan.native import compiled, inlined, uncounted

OK = 0
_TASK_GAP = GEMM_DEPTH + 2
_DONE_GAP = ALU_DEPTH + 2


@compiled
def run_timeline(w: Work, planned: bool, deep: bool, share: float, busy: Any) -> tuple[int, int, float]:
    """One schedule: (``OK`` or what it is stuck for, first unfinished layer, cycles).

    Fills busy[engine] (LOAD, GEMM, ALU, STORE). ``planned``: buffers come to life group by group; ``deep``: of layers
    that can start at the same time the last one does; ``share``: of the bus for constants.
    """
    return run_steps(w, begin(w, busy), planned, deep, share)


@uncounted
def run_steps(w: Work, p: State, planned: bool, deep: bool, share: float) -> tuple[int, int, float]:
    """Steps until there are none: the result of :func:`run_timeline`."""
    while True:
        layer, start = best_step(w, p, planned, deep)
        if is_due(w, p, start if layer >= 0 else np.inf):
            store_next(w, p)
            continue
        if layer < 0 or start > p.at[BUS]:
            if use_bus(w, p, planned, share, layer < 0):
                continue
            if layer < 0:
                break
            p.at[BUS] = max(p.at[BUS], start)
        until, end = span(layer, w, p)
        rows = end - p.layers[layer, S_ROW]
        run_tasks(layer, until, end, start, w, p)
        if step_on(layer, until, end, w, p):
            hand_on(layer, rows, w, p)
        let_go(layer, w, p)
    if p.now[FIRST] < len(w.nodes):
        return p.now[STUCK], p.now[FIRST], 0.0
    return OK, 0, max(max(p.at[GEMM], p.at[ALU]), max(p.at[BUS], p.at[STORE] + w.c[a.C_LATENCY]))


@inlined
def best_step(w: Work, p: State, planned: bool, deep: bool) -> tuple[int, float]:
    """The layer whose next task can start soonest, and when; -1 where none can."""
    n_nodes, first = len(w.nodes), p.now[FIRST]
    while first < n_nodes and p.layers[first, S_DONE]:
        first += 1
    p.now[FIRST] = first
    best, best_start = -1, 0.0
    gemm, alu = max(p.at[GEMM], p.acc_free[p.now[ACC]]), p.at[ALU]
    for layer in range(first, min(n_nodes, p.now[QUEUE] + 1)):
        if p.layers[layer, S_DONE]:
            continue
        if p.dirty[layer]:
            p.dirty[layer] = False
            p.starts[layer] = earliest(layer, w, p, planned)
        t = p.starts[layer]
        if t == np.inf:
            continue
        t = max(t, gemm if w.nodes[layer, a.N_GEMM] else alu)
        if best < 0 or t < best_start or (t == best_start and deep):
            best, best_start = layer, t
    return best, best_start


@inlined
def earliest(layer: int, w: Work, p: State, planned: bool) -> float:
    """When the layer's next task has its constants and rows; infinite while one is missing, or room for results."""
    nodes, edges, buffers, state = w.nodes, w.edges, w.buffers, p.layers
    item = state[layer, S_GROUP] * nodes[layer, a.N_PIECES] + state[layer, S_CHUNK]
    if item >= state[layer, S_LOADED]:
        return np.inf
    t = p.chunks[state[layer, S_TIMES] + item]
    row = last_row(nodes[layer], state[layer])
    for e in range(w.layers[layer, a.L_EDGE], w.layers[layer, a.L_EDGE] + w.layers[layer, a.L_EDGES]):
        k = w.edge_buffer[e]
        last = max(0, min(a.last_read(edges[e], row) + buffers[k, b.B_TOP], buffers[k, b.B_ROWS] - 1))
        if last >= p.ready[k]:
            return np.inf
        t = max(t, p.rows[buffers[k, b.B_FIRST] + last])
        if p.store_end[k] > t:
            lowest = a.first_read(edges[e], state[layer, S_ROW]) + buffers[k, b.B_TOP]
            if share_bank(buffers[k], p.read[k, R_TAKEN], lowest, last, w.c):
                t = p.store_end[k]
    need = 0
    for slot in range(2):
        k = w.outputs[layer, slot]
        if k < 0:
            continue
        if p.live[k] == LIVE:
            top = row + buffers[k, b.B_TOP]
            if row == buffers[k, b.B_HEIGHT] - 1:
                top = buffers[k, b.B_ROWS] - 1
            lowest = lowest_row(k, buffers, w.readers, edges, nodes, state)
            if buffers[k, b.B_STORED] and p.read[k, R_UNSTORED] < p.ready[k]:
                lowest = min(lowest, p.read[k, R_UNSTORED])
            if top >= lowest + buffers[k, b.B_CAPACITY]:
                return np.inf
        elif planned and buffers[k, b.B_GROUP] > p.now[GROUP]:
            return np.inf
        else:
            need += buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY]
    return np.inf if need > p.now[ACT] else t


@inlined
def span(layer: int, w: Work, p: State) -> tuple[int, int]:
    """(chunk, row) behind the last of the step: one task, or all that follow of which nothing can come between."""
    node, state = w.nodes[layer], p.layers[layer]
    pieces, chunk = node[a.N_PIECES], state[S_CHUNK]
    until, end = chunk + 1, last_row(node, state) + 1
    if node[a.N_GROUPS] == 0:
        if state[S_LOADED] == pieces:
            until = pieces
    elif 0 < chunk < pieces - 1:
        end = node[a.N_HEIGHT] * (state[S_GROUP] + 1) // node[a.N_GROUPS]
    return until, end


@inlined
def run_tasks(layer: int, until: int, end: int, start: float, w: Work, p: State) -> None:
    """The chunks up to ``until`` of the rows up to ``end`` on the engines, from ``start`` on."""
    node, c, outputs = w.nodes[layer], w.c, w.outputs
    pieces, chunk, row, banks = node[a.N_PIECES], p.layers[layer, S_CHUNK], p.layers[layer, S_ROW], c[a.C_ACC_BANKS]
    vectors = node[a.N_VECTORS] * until // pieces - node[a.N_VECTORS] * chunk // pieces
    parts = (until - chunk) * -(-vectors // ((until - chunk) * node[a.N_ROOM]))
    tasks = -(-(end - row) // node[a.N_ROWS])
    outputs_of, less = vectors * (end - row), vectors * node[a.N_LESS] if end == node[a.N_HEIGHT] else 0
    vectors, parts = vectors * tasks, parts * tasks
    results = 1 if outputs[layer, 1] < 0 else 2
    free = 0.0
    for slot in range(2):
        k = outputs[layer, slot]
        if k >= 0 and p.live[k] == UNBORN:
            is_born(k, w, p)
        if k >= 0:
            free = max(free, free_slot(k, min(row + node[a.N_ROWS], end) - 1 + w.buffers[k, b.B_TOP], w, p))
    p.at[BUS] += parts * p.fetch * (node[a.N_INSTRUCTIONS] + results * node[a.N_ROWS])
    work = outputs_of * (node[a.N_TERMS_EACH] + node[a.N_OUT_EACH] * results) * 1.0
    if node[a.N_TERMS_EACH] > 0 and outputs_of * node[a.N_OUT_EACH] < parts * ALU_DEPTH:
        work += parts * ALU_DEPTH
    p.busy[2] += work
    alu, acc = max(p.at[ALU], free), p.now[ACC]
    if node[a.N_GEMM]:
        array = vectors * node[a.N_GEMM_EACH] + parts * node[a.N_GEMM_FIXED] - less * 1.0
        p.busy[1] += array
        alu = max(max(alu, start + array / parts + _TASK_GAP) + work, start + array + _TASK_GAP + work / parts)
        done = start + array
        p.at[GEMM] = max(done, alu - banks * work / parts)
        apart = max(array, work) / parts
        for k in range(min(parts, banks)):
            p.acc_free[(acc + parts - 1 - k) % banks] = alu - k * apart + ALU_DEPTH
    else:
        alu = max(alu, start) + work
        done = alu
    for e in range(w.layers[layer, a.L_EDGE], w.layers[layer, a.L_EDGE] + w.layers[layer, a.L_EDGES]):
        k = w.edge_buffer[e]
        top = w.buffers[k, b.B_TOP]
        last = min(a.last_read(w.edges[e], end - 1) + top, w.buffers[k, b.B_ROWS] - 1)
        has_read(k, a.first_read(w.edges[e], row) + top, last, done, w, p)
    p.at[ALU], p.now[ACC] = alu, (acc + parts) % banks


@inlined
def step_on(layer: int, until: int, end: int, w: Work, p: State) -> bool:
    """Where the layer stands after the step; whether its rows up to ``end`` are complete."""
    node, state = w.nodes[layer], p.layers[layer]
    pieces, groups, chunk = node[a.N_PIECES], node[a.N_GROUPS], state[S_CHUNK]
    freed_until = chunk
    if groups == 0:
        completes = until == pieces
        state[S_CHUNK] = until
        if end == node[a.N_HEIGHT]:
            freed_until = until
        if completes:
            state[S_CHUNK], state[S_ROW] = 0, end
            state[S_DONE] = end == node[a.N_HEIGHT]
    else:
        completes = chunk == pieces - 1
        state[S_ROW] = end
        if end == node[a.N_HEIGHT] * (state[S_GROUP] + 1) // groups:
            freed_until = chunk + 1
            state[S_CHUNK], state[S_ROW] = chunk + 1, node[a.N_HEIGHT] * state[S_GROUP] // groups
            if chunk + 1 == pieces:
                state[S_CHUNK], state[S_ROW] = 0, end
                state[S_GROUP] += 1
                state[S_DONE] = state[S_GROUP] == groups
    for k in range(chunk, freed_until):
        wgt, prm = chunk_size(node, k)
        p.now[WGT] += wgt
        p.now[PRM] += prm
    p.dirty[layer] = True
    if completes:
        state[S_COMPLETED] = end
    return completes


@inlined
def hand_on(layer: int, rows: int, w: Work, p: State) -> None:
    """Rows that are complete are there for their readers, and go to DRAM where they are stored, ``rows`` at least."""
    buffers, done = w.buffers, p.at[ALU] + _DONE_GAP
    for slot in range(2):
        k = w.outputs[layer, slot]
        if k < 0:
            continue
        complete = FAR
        for m in range(buffers[k, b.B_MAKE], buffers[k, b.B_MAKE] + buffers[k, b.B_MAKES]):
            complete = min(complete, p.layers[w.makers[m], S_COMPLETED])
        top = buffers[k, b.B_TOP] + complete if complete else 0
        if complete == buffers[k, b.B_HEIGHT]:
            top = buffers[k, b.B_ROWS]
        if top <= p.ready[k]:
            continue
        if buffers[k, b.B_STORED]:
            tail = p.now[TAIL]
            p.waiting[tail, Q_BUFFER], p.waiting[tail, Q_TOP] = k, top
            p.waiting[tail, Q_COUNT] = top - p.ready[k] if p.is_source[k] else rows
            p.now[TAIL] = tail + 1
        first = buffers[k, b.B_FIRST]
        for r in range(p.ready[k], top):
            p.rows[first + r] = done
        p.ready[k] = top
        look_at_readers(k, w, p)


@inlined
def let_go(layer: int, w: Work, p: State) -> None:
    """Rows and buffers that nobody needs any more."""
    buffers = w.buffers
    low, high = w.layers[layer, a.L_EDGE], w.layers[layer, a.L_EDGE] + w.layers[layer, a.L_EDGES]
    for slot in range(low, high + 2):
        k = w.edge_buffer[slot] if slot < high else w.outputs[layer, slot - high]
        if k < 0:
            continue
        if slot < high:
            for m in range(buffers[k, b.B_MAKE], buffers[k, b.B_MAKE] + buffers[k, b.B_MAKES]):
                p.dirty[w.makers[m]] = True
        if (
            p.live[k] == LIVE
            and p.ready[k] == buffers[k, b.B_ROWS]
            and not (buffers[k, b.B_STORED] and p.read[k, R_UNSTORED] < p.ready[k])
            and lowest_row(k, buffers, w.readers, w.edges, w.nodes, p.layers) >= FAR
        ):
            dies(k, w, p)
