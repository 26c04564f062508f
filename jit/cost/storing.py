"""What readers of act keep each other from: STORE and whoever reads the same bank, and all who write a row again.

Two engines do not read one bank at a time (:mod:`tilewright.isa.tokens.hazards`): who comes later in the program waits
until the other has retired. Of the places of buffers nothing is known here, so this is counted within a buffer alone,
as if each began with a bank. A row of a ring is written again once all who read what lay there have retired.
"""

from __future__ import annotations

from typing import Any

from tilewright.isa.timing import GEMM_DEPTH, STORE_DEPTH, STORE_SETUP
from tilewright.jit.cost.state import (
    FAR,
    HEAD,
    LIVE,
    Q_BUFFER,
    Q_COUNT,
    Q_TOP,
    R_FIRST,
    R_LAST,
    R_TAKEN,
    R_UNSTORED,
    STORE,
    TAIL,
    State,
    Work,
    dies,
    look_at_readers,
    lowest_row,
)
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as a
from tilewright.jit.plan.native import compiled, inlined

SURE = 64  #: cycles after which a row is complete for sure: so long the schedule waits before it stores one


@inlined
def is_due(w: Work, p: State, start: float) -> bool:
    """Whether a row is to be stored before a task that begins at ``start``."""
    head = p.now[HEAD]
    if head == p.now[TAIL]:
        return False
    k = p.waiting[head, Q_BUFFER]
    return bool(p.rows[w.buffers[k, b.B_FIRST] + p.waiting[head, Q_TOP] - 1] + SURE <= start)


@inlined
def store_next(w: Work, p: State) -> None:
    """STORE takes the rows that have been complete for longest."""
    head, c = p.now[HEAD], w.c
    k, top, count = p.waiting[head, Q_BUFFER], p.waiting[head, Q_TOP], p.waiting[head, Q_COUNT]
    p.now[HEAD] = head + 1
    buffer, moved = w.buffers[k], p.read[k]
    cost = STORE_SETUP + write_cycles(buffer[b.B_UNITS] * c[a.C_ACT_BYTES], c)
    start = max(p.at[STORE], p.rows[buffer[b.B_FIRST] + top - 1])
    if p.read_end[k] > start and share_bank(buffer, top - 1, moved[R_FIRST], moved[R_LAST], c):
        start = p.read_end[k]
    p.at[STORE] = start + cost * count
    p.busy[3] += cost * count
    p.store_end[k] = p.at[STORE] + (c[a.C_LATENCY] + STORE_DEPTH + 1)
    for r in range(buffer[b.B_FIRST] + moved[R_UNSTORED], buffer[b.B_FIRST] + top):
        p.stored[r] = p.store_end[k]
    moved[R_TAKEN], moved[R_UNSTORED] = top - 1, top
    look_at_readers(k, w, p)
    for m in range(buffer[b.B_MAKE], buffer[b.B_MAKE] + buffer[b.B_MAKES]):
        p.dirty[w.makers[m]] = True
    if (
        p.live[k] == LIVE
        and top == buffer[b.B_ROWS]
        and lowest_row(k, w.buffers, w.readers, w.edges, w.nodes, p.layers) >= FAR
    ):
        dies(k, w, p)


@inlined
def in_dram(k: int, row: int, w: Work, p: State) -> float:
    """When a row of a stored buffer that is complete is in DRAM; of one that STORE has yet to take, at the least."""
    place = w.buffers[k, b.B_FIRST] + row
    if row < p.read[k, R_UNSTORED]:
        return float(p.stored[place])
    cost = STORE_SETUP + write_cycles(w.buffers[k, b.B_UNITS] * w.c[a.C_ACT_BYTES], w.c)
    return float(p.rows[place] + cost + (w.c[a.C_LATENCY] + STORE_DEPTH + 1))


@inlined
def share_bank(buffer: Any, row: int, first: int, last: int, c: Any) -> bool:
    """Whether a row of a buffer shares a bank with one of others."""
    capacity, units, bank = buffer[b.B_CAPACITY], buffer[b.B_UNITS], c[a.C_ACT_BANK]
    slot = row % capacity
    low, high = slot * units // bank, ((slot + 1) * units - 1) // bank
    for other in range(max(0, first), last + 1):
        slot = other % capacity
        if slot * units // bank <= high and low <= ((slot + 1) * units - 1) // bank:
            return True
    return False


@inlined
def has_read(k: int, first: int, last: int, end: float, w: Work, p: State) -> None:
    """A task has begun that reads these rows of a buffer, until ``end``."""
    end += GEMM_DEPTH + 1
    low = w.buffers[k, b.B_FIRST]
    p.read[k, R_FIRST], p.read[k, R_LAST], p.read_end[k] = first, last, end
    for r in range(low + max(0, first), low + last + 1):
        p.freed[r] = end


@inlined
def free_slot(k: int, row: int, w: Work, p: State) -> float:
    """When all have retired who read what lay where a row of a buffer will lie."""
    buffer = w.buffers[k]
    before = buffer[b.B_FIRST] + row - buffer[b.B_CAPACITY]
    if row < buffer[b.B_CAPACITY]:
        return 0.0
    return max(p.freed[before], p.stored[before])


@compiled
def write_cycles(size: int, c: Any) -> float:
    """Bus cycles of a STORE, likewise; its first beat comes ``STORE_SETUP`` later."""
    beats = -(-size // c[a.C_BEAT])
    bursts = -(-beats // c[a.C_BURST])
    return max(float(beats), bursts * (c[a.C_LATENCY] + min(beats, c[a.C_BURST])) / c[a.C_OUTSTANDING])
