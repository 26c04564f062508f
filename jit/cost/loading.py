"""What the bus brings next to a schedule: a row of a buffer, or a chunk of the next layer's constants."""

from __future__ import annotations

from tilewright.isa.timing import LOAD_DEPTH, LOAD_SETUP
from tilewright.jit.cost.state import (
    ACT,
    BUS,
    CONSTANTS,
    FAR,
    FIRST_LOAD,
    GROUP,
    PRM,
    QUEUE,
    R_UNSTORED,
    ROWS_MOVED,
    S_LOADED,
    S_TIMES,
    STUCK,
    STUCK_ACT,
    STUCK_PRM,
    STUCK_WGT,
    UNBORN,
    WGT,
    State,
    Work,
    chunk_size,
    dies,
    is_born,
    look_again,
    look_at_readers,
    lowest_row,
    transfer_cycles,
)
from tilewright.jit.cost.storing import free_slot, in_dram, store_next
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as a
from tilewright.jit.plan.native import inlined

_LOAD_WEIGHTS = 64  #: weight entries of one LOAD


@inlined
def use_bus(w: Work, p: State, planned: bool, share: float, idle: bool) -> bool:
    """Brings something, or makes room for what can be brought; whether there was anything.

    ``share`` of the bus is for constants where both wait; ``idle``: no engine has work, so the bus waits for rows.
    """
    loaded = False
    for attempt in range(3 if idle else 2):
        patient = attempt < 2
        if not patient or (p.at[CONSTANTS] * (1 - share) > p.at[ROWS_MOVED] * share) == (attempt == 0):
            loaded = load_row(w, p, planned, patient)
        elif p.now[QUEUE] < len(w.nodes):
            loaded = load_chunk(w, p)
        if loaded:
            break
    while planned and p.now[GROUP] < len(w.nodes) and p.unborn[p.now[GROUP]] == 0:
        p.now[GROUP] += 1
        look_again(p)
        loaded = True
    return loaded


@inlined
def load_row(w: Work, p: State, planned: bool, patient: bool) -> bool:
    """The next row of the first buffer that has room for it; ``patient``: only what is in DRAM by now."""
    buffers, ready = w.buffers, p.ready
    k = p.now[FIRST_LOAD]
    while k < len(buffers) and (not buffers[k, b.B_LOADED] or ready[k] == buffers[k, b.B_ROWS]):
        k += 1
    p.now[FIRST_LOAD] = k
    for k in range(p.now[FIRST_LOAD], len(buffers)):
        if not buffers[k, b.B_LOADED] or ready[k] == buffers[k, b.B_ROWS]:
            continue
        if planned and buffers[k, b.B_GROUP] > p.now[GROUP]:
            break  # so are those that follow
        arrival, source = 0.0, buffers[k, b.B_SOURCE]
        if source >= 0:
            if ready[source] <= ready[k]:
                continue
            arrival = in_dram(source, ready[k], w, p)
            if patient and arrival > p.at[BUS]:
                continue
        if p.live[k] == UNBORN:
            if buffers[k, b.B_UNITS] * buffers[k, b.B_CAPACITY] > p.now[ACT]:
                continue
            is_born(k, w, p)
        low = lowest_row(k, buffers, w.readers, w.edges, w.nodes, p.layers)
        if ready[k] >= low + buffers[k, b.B_CAPACITY]:
            continue
        while source >= 0 and p.read[source, R_UNSTORED] <= ready[k]:
            store_next(w, p)
            arrival = in_dram(source, ready[k], w, p)
        p.at[BUS] = max(max(p.at[BUS], arrival), free_slot(k, ready[k], w, p)) + p.load_cost[k]
        p.at[ROWS_MOVED] += p.load_cost[k]
        p.busy[0] += p.load_cost[k]
        p.rows[buffers[k, b.B_FIRST] + ready[k]] = p.at[BUS] + (w.c[a.C_LATENCY] + LOAD_DEPTH + LOAD_SETUP)
        ready[k] += 1
        if ready[k] == buffers[k, b.B_ROWS] and low >= FAR:  # padding that nobody reads came last
            dies(k, w, p)
        look_at_readers(k, w, p)
        return True
    return False


@inlined
def load_chunk(w: Work, p: State) -> bool:
    """The next chunk of constants of the first layer that wants any, if wgt and prm have room for it."""
    queue = p.now[QUEUE]
    node, c = w.nodes[queue], w.c
    item = p.layers[queue, S_LOADED]
    wgt, prm = chunk_size(node, item % node[a.N_PIECES])
    if wgt > p.now[WGT]:
        p.now[STUCK] = STUCK_WGT
        return False
    if prm > p.now[PRM]:
        p.now[STUCK] = STUCK_PRM
        return False
    p.now[STUCK] = STUCK_ACT
    p.now[WGT] -= wgt
    p.now[PRM] -= prm
    cost = transfer_cycles(wgt * c[a.C_WGT_BYTES], c) + transfer_cycles(prm * c[a.C_PRM_BYTES], c)
    if item == 0:
        cost += transfer_cycles(node[a.N_UOPS], c)
    cost = round(cost + (2 + wgt // _LOAD_WEIGHTS) * p.fetch)
    p.at[BUS] += cost
    p.at[CONSTANTS] += cost
    p.busy[0] += cost
    p.chunks[p.layers[queue, S_TIMES] + item] = p.at[BUS] + (c[a.C_LATENCY] + LOAD_DEPTH + LOAD_SETUP)
    p.layers[queue, S_LOADED] += 1
    p.dirty[queue] = True
    if item + 1 == node[a.N_PIECES] * max(1, node[a.N_GROUPS]):
        p.now[QUEUE] += 1
    return True
