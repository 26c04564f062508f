"""Several cores before one DRAM: who moves a beat in which cycle, as ``docs/timing.md`` has it under *Several cores*.

The cores share nothing but the bytes that the DRAM moves in a cycle. So each runs its own event loop
(:mod:`tilewright.sim.event_loop`) from one cycle to the next in which something happens to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.sim.event_loop import (
    B_FIRST,
    B_LAST,
    B_LENGTH,
    B_OWNER,
    B_READY,
    B_RESPONSE,
    D_FIRST,
    D_RUNG,
    DOORBELL_LATENCY,
    FIRST,
    FREE_AT,
    LOAD,
    LOAD_DEPTH,
    M_LATENCY,
    M_LONGEST,
    M_OUTSTANDING,
    NEVER,
    PROGRAM,
    ROW_BEATS,
    ROWS,
    RUNNING,
    S_BURST_LEFT,
    S_BURSTS,
    S_DRAINED,
    S_FREE,
    S_LAST_LOAD,
    S_NOW,
    S_READ_BEATS,
    S_READS,
    S_RESPONSE,
    S_RING,
    S_RING_CYCLE,
    S_STORE_BURSTS,
    S_WRITE_BEAT,
    S_WRITE_FROM,
    S_WRITE_LEFT,
    S_WRITE_ROW,
    S_WRITING,
    STORE,
    STORE_DEPTH,
    STRIDE,
    STUCK,
    T_END,
    T_HELD,
    T_STATE,
    T_STORE,
    T_STORE_LIMIT,
    burst_beats,
    response_cycle,
    retire_at,
    run_until,
)
from tilewright.sim.native import compiled

# Entries of ``dram``: bytes a cycle (0: no limit), bytes of a beat, bytes left over from the cycle before, that cycle,
# and the channel that is asked first
D_BANDWIDTH, D_BEAT, D_LEFT, D_CYCLE, D_TURN, D_ENTRIES = range(6)


@compiled
def _read_from(machine: Any, state: Any, bursts: Any) -> int:
    """The cycle from which the next read beat of a core is there; NEVER if none is on its way."""
    if state[S_READS] == state[S_BURSTS]:
        return NEVER
    cycle: int = bursts[B_READY, state[S_READS] % machine[M_OUTSTANDING]]
    return cycle


@compiled
def _write_from(machine: Any, state: Any, bursts: Any) -> int:
    """The cycle from which the next write beat of a core can go; NEVER if it has none."""
    if state[S_WRITING] < 0:
        return NEVER
    cycle: int = state[S_WRITE_FROM]
    if state[S_BURST_LEFT] == 0 and state[S_STORE_BURSTS] >= machine[M_OUTSTANDING]:
        cycle = max(cycle, bursts[B_RESPONSE, state[S_STORE_BURSTS] % machine[M_OUTSTANDING]] + 1)
    return cycle


@compiled
def _read(
    now: int, code: Any, push_start: Any, pushed_at: Any, arrivals: Any, machine: Any, state: Any, times: Any,
    bursts: Any,
) -> bool:  # fmt: skip
    """A read beat arrives; whether it was of the program or the last of a burst: the core has to look."""
    slot = state[S_READS] % machine[M_OUTSTANDING]
    owner = bursts[B_OWNER, slot]
    if owner == PROGRAM:
        arrivals[bursts[B_FIRST, slot] + state[S_READ_BEATS]] = now
    state[S_READ_BEATS] += 1
    if state[S_READ_BEATS] < bursts[B_LENGTH, slot]:
        return bool(owner == PROGRAM)
    bursts[B_LAST, slot] = now
    state[S_READS] += 1
    state[S_READ_BEATS] = 0
    if owner >= 0:
        if state[S_LAST_LOAD] == owner:
            state[S_DRAINED + LOAD] = now + LOAD_DEPTH
        retire_at(owner, LOAD, now + LOAD_DEPTH, code, push_start, pushed_at, state, times)
    return True


@compiled
def _write(
    now: int, code: Any, push_start: Any, pushed_at: Any, machine: Any, state: Any, times: Any, bursts: Any, tally: Any
) -> bool:  # fmt: skip
    """A write beat goes out; whether it was the last of a burst."""
    i, outstanding = state[S_WRITING], machine[M_OUTSTANDING]
    if state[S_BURST_LEFT] == 0:
        tally[T_STORE_LIMIT] += _write_from(machine, state, bursts) - state[S_WRITE_FROM]
        length = burst_beats(state[S_WRITE_BEAT], state[S_WRITE_LEFT], machine[M_LONGEST])
        state[S_BURST_LEFT] = length
        state[S_WRITE_BEAT] += length
        state[S_WRITE_LEFT] -= length
        state[S_STORE_BURSTS] += 1
    state[S_BURST_LEFT] -= 1
    state[S_WRITE_FROM] = now + 1
    tally[T_STORE] += 1
    if state[S_BURST_LEFT]:
        return False
    state[S_RESPONSE] = response_cycle(now, machine[M_LATENCY], state[S_RESPONSE])
    bursts[B_RESPONSE, (state[S_STORE_BURSTS] - 1) % outstanding] = state[S_RESPONSE]
    if state[S_WRITE_LEFT]:
        return True
    state[S_WRITE_ROW] += 1
    if state[S_WRITE_ROW] < code[ROWS, i]:
        state[S_WRITE_BEAT] = code[FIRST, i] + state[S_WRITE_ROW] * code[STRIDE, i]
        state[S_WRITE_LEFT] = code[ROW_BEATS, i]
        return True
    state[S_WRITING] = -1
    state[S_FREE + STORE] = times[FREE_AT, i] = now + 1
    state[S_DRAINED + STORE] = state[S_RESPONSE] + STORE_DEPTH
    retire_at(i, STORE, state[S_RESPONSE] + STORE_DEPTH, code, push_start, pushed_at, state, times)
    return True


@compiled
def _ring(c: int, state: Any, bells: Any, wake: Any) -> None:
    """Carry the doorbells of core c to whom they are for, who may then wake earlier."""
    cycle = state[S_RING_CYCLE] + DOORBELL_LATENCY
    for other in range(len(wake)):
        if other != c and state[S_RING] >> other & 1:
            bell = bells[other, c]
            bell[D_FIRST + bell[D_RUNG]] = cycle
            bell[D_RUNG] += 1
            wake[other] = min(wake[other], cycle)
    state[S_RING] = 0


@compiled
def run_cores(
    code: Any, queue_start: Any, push_start: Any, pushed_at: Any, arrivals: Any, machine: Any, states: Any,
    times: Any, bursts: Any, tally: Any, wake: Any, dram: Any, bells: Any,
) -> None:  # fmt: skip
    """Run all cores until the program of one of them has ended, or nothing can happen any more.

    The arrays of :func:`tilewright.sim.event_loop.run_until`, with an axis of cores before their own. ``wake``: each
    core's next event, NEVER for one that waits for the DRAM; a core that has nothing to run has a tally that is not
    RUNNING. ``dram``: see D_ENTRIES; it goes on from call to call, and so do ``bells``, (at, from, see D_HEARD).
    """
    cores = len(wake)
    limited = dram[D_BANDWIDTH] > 0
    due = np.full(2 * cores, NEVER, np.int64)  # of each channel: the cycle from which it has a beat to move
    look = np.zeros(cores, np.bool_)
    for c in range(cores):
        if tally[c, T_STATE] == RUNNING:
            due[2 * c] = _read_from(machine, states[c], bursts[c])
            due[2 * c + 1] = _write_from(machine, states[c], bursts[c])
    ended = False
    while not ended:
        now, next_cycle = NEVER, dram[D_CYCLE] + 1
        for c in range(cores):
            if tally[c, T_STATE] == RUNNING:
                now = min(now, wake[c], max(min(due[2 * c], due[2 * c + 1]), next_cycle))
        if now == NEVER:  # each waits for another one's doorbell
            for c in range(cores):
                if tally[c, T_STATE] == RUNNING:
                    tally[c, T_STATE], tally[c, T_END] = STUCK, states[c, S_NOW] + 1
            return
        # -- the beats of this cycle ------------------------------------------------------------------------
        left = 2 * cores * dram[D_BEAT]
        if limited:
            left = min(dram[D_LEFT] + (now - next_cycle) * dram[D_BANDWIDTH], dram[D_BEAT] - 1) + dram[D_BANDWIDTH]
        first = dram[D_TURN]
        for k in range(2 * cores):
            channel = first + k if first + k < 2 * cores else first + k - 2 * cores
            if due[channel] > now:
                continue
            c = channel // 2
            if left < dram[D_BEAT]:
                tally[c, T_HELD] += 1
                continue
            left -= dram[D_BEAT]
            dram[D_TURN] = (channel + 1) % (2 * cores)
            due[channel] = now + 1
            if channel % 2 == 0:
                look[c] |= _read(
                    now, code[c], push_start[c], pushed_at[c], arrivals[c], machine, states[c], times[c], bursts[c]
                )
            else:
                look[c] |= _write(
                    now, code[c], push_start[c], pushed_at[c], machine, states[c], times[c], bursts[c], tally[c]
                )
        dram[D_CYCLE], dram[D_LEFT] = now, min(left, dram[D_BEAT] - 1)
        # -- the cores' own events --------------------------------------------------------------------------
        for c in range(cores):
            if tally[c, T_STATE] == RUNNING and (look[c] or wake[c] <= now):
                look[c] = False
                wake[c] = run_until(
                    code[c], queue_start[c], push_start[c], pushed_at[c], arrivals[c], machine, states[c], times[c],
                    bursts[c], tally[c], bells[c], True, now,
                )  # fmt: skip
                if states[c, S_RING]:
                    _ring(c, states[c], bells, wake)
                running = tally[c, T_STATE] == RUNNING
                ended |= not running
                due[2 * c] = _read_from(machine, states[c], bursts[c]) if running else NEVER
                due[2 * c + 1] = _write_from(machine, states[c], bursts[c]) if running else NEVER
