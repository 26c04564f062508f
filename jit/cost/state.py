"""What a schedule of rows runs over and where it stands: tables that the steps of a timeline share.

Numba holds a schedule's few numbers in arrays, as it does all that changes; their entries are named here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.isa.timing import LOAD_SETUP
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as a
from tilewright.jit.plan.native import compiled, inlined

FAR = 1 << 40
STUCK_ACT, STUCK_WGT, STUCK_PRM = range(1, 4)

# a layer's progress
S_GROUP, S_CHUNK, S_ROW, S_DONE, S_LOADED, S_TIMES, S_COMPLETED = range(7)
UNBORN, LIVE, DEAD = range(3)  #: a buffer
# when bus, engines and STORE are free, and the cycles that the bus has moved constants and rows
BUS, GEMM, ALU, STORE, CONSTANTS, ROWS_MOVED = range(6)
# free entries of the memories; the first layer that is not done, the one whose constants come next, the group that is
# planned up to, the first buffer that is still loaded; the next bank of acc; for want of which memory constants wait;
# the first of the rows that wait for STORE, and the one behind the last
ACT, WGT, PRM, FIRST, QUEUE, GROUP, FIRST_LOAD, ACC, STUCK, HEAD, TAIL = range(11)
# rows that are complete and wait for STORE, in the order in which they were
Q_BUFFER, Q_TOP, Q_COUNT = range(3)
# of a buffer: the rows that the last task read that has begun, the last that STORE took, and the first that it will
R_FIRST, R_LAST, R_TAKEN, R_UNSTORED = range(4)


class Work(NamedTuple):
    """A plan's tables, which nothing changes."""

    layers: Any
    edges: Any
    makers: Any
    nodes: Any
    c: Any
    buffers: Any
    edge_buffer: Any
    outputs: Any
    readers: Any


class State(NamedTuple):
    """Where a schedule stands."""

    layers: Any  #: (layers, S_...)
    chunks: Any  #: when each chunk of constants is there
    rows: Any  #: when each row of each buffer is there
    stored: Any  #: and in DRAM
    ready: Any  #: rows of each buffer that are there
    live: Any  #: each buffer's life
    starts: Any  #: when each layer's next task has what it needs
    dirty: Any  #: whether that must be looked at again
    unborn: Any  #: buffers of each group that have no place yet
    load_cost: Any  #: bus cycles of a row of each buffer
    fetch: float  #: and of an instruction: beats, or longer where outstanding bursts do not cover the latency
    is_source: Any  #: whether a buffer's rows are read back from DRAM
    acc_free: Any  #: when each bank of acc is free
    read: Any  #: (buffers, R_...)
    read_end: Any  #: when the last task ends that has begun to read each buffer
    store_end: Any  #: when STORE has done with what it took of each buffer
    freed: Any  #: when the last task ends that has begun to read each row
    waiting: Any  #: (rows, Q_...)
    at: Any  #: (BUS .. ROWS_MOVED) cycles
    now: Any  #: (ACT .. TAIL)
    busy: Any  #: cycles of LOAD, GEMM, ALU, STORE


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
def chunk_size(node: Any, chunk: int) -> tuple[int, int]:
    """wgt and prm entries of a chunk."""
    vectors = node[a.N_VECTORS] * (chunk + 1) // node[a.N_PIECES] - node[a.N_VECTORS] * chunk // node[a.N_PIECES]
    return (
        node[a.N_WGT_FIXED] + vectors * node[a.N_WGT_EACH],
        node[a.N_PRM_FIXED] + vectors * node[a.N_PRM_EACH],
    )


@compiled
def begin(w: Work, busy: Any) -> State:
    """A schedule before its first step."""
    nodes, buffers, c = w.nodes, w.buffers, w.c
    n_nodes, n_buffers = len(nodes), len(buffers)
    layers = np.zeros((n_nodes, 7), np.int64)
    chunks = 0
    for layer in range(n_nodes):
        layers[layer, S_TIMES] = chunks
        chunks += nodes[layer, a.N_PIECES] * max(1, nodes[layer, a.N_GROUPS])
    rows = buffers[n_buffers - 1, b.B_FIRST] + buffers[n_buffers - 1, b.B_ROWS]
    fetch = c[a.C_INSTRUCTION] / c[a.C_BEAT]
    fetch *= max(1.0, (c[a.C_LATENCY] + c[a.C_BURST]) / (c[a.C_OUTSTANDING] * c[a.C_BURST]))
    unborn = np.zeros(n_nodes + 2, np.int64)
    load_cost, is_source = np.zeros(n_buffers), np.zeros(n_buffers, np.bool_)
    for k in range(n_buffers):
        unborn[buffers[k, b.B_GROUP]] += 1
        load_cost[k] = round(transfer_cycles(buffers[k, b.B_UNITS] * c[a.C_ACT_BYTES], c) + fetch)
        if buffers[k, b.B_SOURCE] >= 0:
            is_source[buffers[k, b.B_SOURCE]] = True
    at, now = np.zeros(6), np.zeros(11, np.int64)
    at[BUS] = c[a.C_LATENCY] + fetch + LOAD_SETUP
    now[ACT], now[WGT], now[PRM], now[STUCK] = c[a.C_ACT], c[a.C_WGT], c[a.C_PRM], STUCK_ACT
    busy[:] = 0.0
    return State(
        layers, np.empty(chunks), np.zeros(rows), np.zeros(rows), np.zeros(n_buffers, np.int64),
        np.zeros(n_buffers, np.int64), np.full(n_nodes, np.inf), np.ones(n_nodes, np.bool_), unborn, load_cost, fetch,
        is_source, np.zeros(c[a.C_ACC_BANKS]), np.zeros((n_buffers, 4), np.int64), np.zeros(n_buffers),
        np.zeros(n_buffers), np.zeros(rows), np.empty((rows, 3), np.int64), at, now, busy,
    )  # fmt: skip


@compiled
def lowest_row(k: int, buffers: Any, readers: Any, edges: Any, nodes: Any, state: Any) -> int:
    """The lowest row of a buffer that work to come reads."""
    lowest = FAR
    for r in range(buffers[k, b.B_READ], buffers[k, b.B_READ] + buffers[k, b.B_READS]):
        e = readers[r]
        layer = edges[e, a.E_LAYER]
        if state[layer, S_DONE]:
            continue
        row = state[layer, S_ROW]
        groups = nodes[layer, a.N_GROUPS]
        if groups > 0 and state[layer, S_CHUNK] < nodes[layer, a.N_PIECES] - 1:
            row = nodes[layer, a.N_HEIGHT] * state[layer, S_GROUP] // groups
        lowest = min(lowest, max(0, a.first_read(edges[e], row) + buffers[k, b.B_TOP]))
    return lowest


@compiled
def last_row(node: Any, state: Any) -> int:
    """The last row of the layer's next task."""
    end, groups = node[a.N_HEIGHT], node[a.N_GROUPS]
    if groups:
        end = node[a.N_HEIGHT] * (state[S_GROUP] + 1) // groups
    return min(state[S_ROW] + node[a.N_ROWS], end) - 1


@inlined
def look_again(p: State) -> None:
    """All layers may start at other times: there is more or less room."""
    for layer in range(p.now[FIRST], min(len(p.dirty), p.now[QUEUE] + 1)):
        p.dirty[layer] = True


@inlined
def look_at_readers(k: int, w: Work, p: State) -> None:
    """A buffer has new rows."""
    for r in range(w.buffers[k, b.B_READ], w.buffers[k, b.B_READ] + w.buffers[k, b.B_READS]):
        p.dirty[w.edges[w.readers[r], a.E_LAYER]] = True


@inlined
def is_born(k: int, w: Work, p: State) -> None:
    """A buffer takes its place in act."""
    p.now[ACT] -= w.buffers[k, b.B_UNITS] * w.buffers[k, b.B_CAPACITY]
    p.live[k] = LIVE
    p.unborn[w.buffers[k, b.B_GROUP]] -= 1
    look_again(p)


@inlined
def dies(k: int, w: Work, p: State) -> None:
    """A buffer gives its place back."""
    p.live[k] = DEAD
    p.now[ACT] += w.buffers[k, b.B_UNITS] * w.buffers[k, b.B_CAPACITY]
    look_again(p)
