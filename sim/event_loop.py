"""One core's event loop: the rules of ``docs/timing.md``, compiled.

Every rule makes an event of cycle t depend on events of earlier cycles only. So the loop computes, for each
party (dispatch, four issues, two bus requests), the earliest cycle at which it can act given what has
happened, jumps to the least of them, lets all parties act that can, and repeats.

A core that has the DRAM for itself knows when data will come as soon as it asks. One of several cores does not: its
bursts wait in *channels* until :mod:`tilewright.sim.shared` has moved them, beat by beat, and the loop stops at a
horizon and goes on from there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa import timing as constants
from tilewright.isa.spec import MOST_CORES, Engine
from tilewright.sim.native import compiled, interpretable

NEVER = 1 << 62  #: later than any cycle
LOAD, GEMM, ALU, STORE = (int(e) for e in Engine)
DEPTHS = np.array([getattr(constants, f"{e.name}_DEPTH") for e in Engine], np.int64)  #: last slot to retire
TOKEN_LATENCY, DISPATCH_LATENCY = constants.TOKEN_LATENCY, constants.DISPATCH_LATENCY
DOORBELL_LATENCY = constants.DOORBELL_LATENCY
LOAD_SETUP, LOAD_DEPTH = constants.LOAD_SETUP, constants.LOAD_DEPTH
STORE_SETUP, STORE_DEPTH = constants.STORE_SETUP, constants.STORE_DEPTH
FETCH_START, FETCH_DEPTH, DONE_LATENCY = constants.FETCH_START, constants.FETCH_DEPTH, constants.DONE_LATENCY
FAULT_LATENCY = constants.FAULT_LATENCY

# Bits of an instruction's ``kind``
BUS, DRAIN = 1, 2  #: moves data over the bus; must wait until its engine has drained
# Rows of ``code``, which has a column for each instruction: its engine, its kind, service cycles, masks of the engines
# that it pops from and pushes to, whether it reaches outside its segment, the program beat that completes it, the beats
# freed once it is dispatched, and (rows, first beat, stride, beats of a row) of what it moves; ``QUEUE``, the
# instructions by engine; and masks of the cores that it hears and rings.
ENGINE, KIND, SLOTS, POPS, PUSHES, OUTSIDE, ARRIVE_BEAT, FREED, ROWS, FIRST, STRIDE, ROW_BEATS, QUEUE = range(13)
HEARS, RINGS, CODE_ROWS = 13, 14, 15
# Rows of ``times``: cycles of each instruction
DISPATCH, ISSUE, FREE_AT, RETIRE = range(4)
# Entries of ``machine``
M_LONGEST, M_LATENCY, M_OUTSTANDING, M_QUEUE, M_FETCH = range(5)
# Entries of ``tally``
T_FETCH, T_LOAD, T_STORE, T_LOAD_BUS, T_LOAD_LIMIT, T_STORE_LIMIT = range(6)
T_END, T_STATE, T_HELD, TALLIES = 6, 7, 8, 9  # T_HELD: cycles in which the shared limit held up a beat
RUNNING, DONE, FAULTED, STUCK, LATE = range(5)
# Entries of ``state``: what a core remembers between calls
(
    S_BEATS, S_LEGAL, S_TOTAL, S_WATCHDOG, S_NOW, S_STOP, S_STOP_CYCLE, S_NEXT, S_LAST_DISPATCH, S_BURSTS, S_LAST_BEAT,
    S_REQUESTED, S_FETCH_FROM, S_ACTIVE, S_LOAD_FROM, S_ROW, S_BEAT, S_LEFT, S_STORE_BURSTS, S_RETIRED, S_LAST_RETIRE,
    S_WRITING, S_WRITE_FROM, S_WRITE_ROW, S_WRITE_BEAT, S_WRITE_LEFT, S_BURST_LEFT, S_RESPONSE, S_READS, S_READ_BEATS,
    S_LAST_LOAD,
) = range(31)  # fmt: skip
S_DISPATCHED, S_ISSUED, S_FREE, S_DRAINED, S_CHECKED, S_SUSPECT = (31 + 4 * k for k in range(6))
S_PUSHED, S_POPPED = 55, 71
S_RING, S_RING_CYCLE, STATES = 87, 88, 89  # cores to ring at that nobody has been told of, and the cycle of the retire
# Entries of a row of ``bells``, which has one for each other core: doorbells heard, rung, and from which cycle on each
# can be heard
D_HEARD, D_RUNG, D_FIRST = range(3)
# Rows of ``bursts``, whose columns are the granted read bursts modulo ``outstanding``: the earliest cycle of the first
# beat, length, who asked (an instruction if this is its last burst; else OTHER, or PROGRAM with the number of its first
# beat), and the cycle of the last beat; then the cycle of the response of each write burst.
B_READY, B_LENGTH, B_OWNER, B_FIRST, B_LAST, B_RESPONSE, BURST_ROWS = range(7)
OTHER, PROGRAM = -1, -2


@compiled
def data_end(grant: int, beats: int, latency: int, before: int) -> int:
    """Cycle of a read burst's last beat; ``before`` is that of the previous burst, -1 for none."""
    return max(grant + latency, before + 1) + beats - 1


@compiled
def response_cycle(last: int, latency: int, before: int) -> int:
    """Cycle of a write burst's response; ``before`` is that of the previous burst, -1 for none."""
    return max(last + latency, before + 1)


@compiled
def burst_beats(beat: int, left: int, longest: int) -> int:
    """Beats of the next burst at segment beat ``beat`` with ``left`` to go."""
    return min(left, longest - beat % longest)


@interpretable
def reset(state: Any, times: Any, arrivals: Any, tally: Any, start: int) -> None:
    """A core about to start its program in cycle ``start``; the program's own entries of ``state`` stay."""
    state[S_WATCHDOG + 1 :] = 0
    times[:] = -1
    arrivals[:] = NEVER
    tally[:] = 0
    state[S_NOW], state[S_LAST_RETIRE] = start - 1, start
    state[S_STOP], state[S_STOP_CYCLE] = state[S_TOTAL], NEVER
    state[S_LAST_DISPATCH], state[S_LAST_BEAT], state[S_RESPONSE] = -1, -1, -1
    state[S_FETCH_FROM], state[S_ACTIVE], state[S_WRITING] = start + FETCH_START, -1, -1
    state[S_DRAINED : S_DRAINED + 4] = -1
    state[S_CHECKED : S_CHECKED + 4] = NEVER


@compiled
def retire_at(i: int, e: int, cycle: int, code: Any, push_start: Any, pushed_at: Any, state: Any, times: Any) -> None:
    """Instruction i of engine e is known to retire in ``cycle``: its pushes and the books."""
    times[RETIRE, i] = cycle
    for d in range(4):
        if code[PUSHES, i] >> d & 1:
            q = 4 * e + d
            pushed_at[push_start[q] + state[S_PUSHED + q]] = cycle
            state[S_PUSHED + q] += 1
    state[S_RETIRED] += 1
    state[S_LAST_RETIRE] = max(state[S_LAST_RETIRE], cycle)


@compiled
def _store(i: int, start: int, code: Any, machine: Any, state: Any, bursts: Any, tally: Any) -> int:
    """Write channel of a core alone, for STORE i, whose first beat may go at cycle ``start``.

    Returns the cycle of its last response; ``state`` keeps that, the last beat's and how many bursts there were.
    """
    longest, latency, outstanding = machine[M_LONGEST], machine[M_LATENCY], machine[M_OUTSTANDING]
    count, write, response = state[S_STORE_BURSTS], start - 1, state[S_RESPONSE]
    for r in range(code[ROWS, i]):
        beat, left = code[FIRST, i] + r * code[STRIDE, i], code[ROW_BEATS, i]
        while left > 0:
            length = burst_beats(beat, left, longest)
            first = write + 1
            if count >= outstanding:
                first = max(first, bursts[B_RESPONSE, count % outstanding] + 1)
            tally[T_STORE_LIMIT] += first - write - 1
            write = first + length - 1
            response = response_cycle(write, latency, response)
            bursts[B_RESPONSE, count % outstanding] = response
            count, beat, left = count + 1, beat + length, left - length
            tally[T_STORE] += length
    state[S_STORE_BURSTS], state[S_RESPONSE] = count, response
    state[S_FREE + STORE] = write + 1
    return response


@interpretable
def run_until(
    code: Any, queue_start: Any, push_start: Any, pushed_at: Any, arrivals: Any, machine: Any, state: Any, times: Any,
    bursts: Any, tally: Any, bells: Any, shared: bool, horizon: int,
) -> int:  # fmt: skip
    """Run the event loop up to and with cycle ``horizon``; returns the cycle of the next event, NEVER if none is known.

    ``queue_start``: where each engine's instructions begin in row QUEUE of ``code``; ``pushed_at``: retire cycles of
    pushes, those of queue a -> b from push_start[4a+b]; ``arrivals``: cycle of each program beat; ``machine``: numbers
    of the Config; ``bells``: what other cores have rung at this one. With ``shared`` the beats are moved by others, and
    doorbells carried by them, between calls. Once the program has ended,
    ``tally[T_STATE]`` is not RUNNING any more and ``tally[T_END]`` the cycle of its end.
    """
    engine, kind, slots, pops, queue = code[ENGINE], code[KIND], code[SLOTS], code[POPS], code[QUEUE]
    dispatch, issue, free_at = times[DISPATCH], times[ISSUE], times[FREE_AT]
    longest, latency, outstanding = machine[M_LONGEST], machine[M_LATENCY], machine[M_OUTSTANDING]
    depth, fetch_room = machine[M_QUEUE], machine[M_FETCH]
    dispatched, issued = state[S_DISPATCHED : S_DISPATCHED + 4], state[S_ISSUED : S_ISSUED + 4]
    engine_free, drained = state[S_FREE : S_FREE + 4], state[S_DRAINED : S_DRAINED + 4]
    checked, suspect = state[S_CHECKED : S_CHECKED + 4], state[S_SUSPECT : S_SUSPECT + 4]
    push_count, pop_count = state[S_PUSHED : S_PUSHED + 16], state[S_POPPED : S_POPPED + 16]
    total, legal, program_beats, watchdog = state[S_TOTAL], state[S_LEGAL], state[S_BEATS], state[S_WATCHDOG]
    # the first faulting instruction met so far: nothing from it on is issued or dispatched
    stop, stop_cycle = state[S_STOP], state[S_STOP_CYCLE]
    next_dispatch, last_dispatch = state[S_NEXT], state[S_LAST_DISPATCH]
    granted, last_beat = state[S_BURSTS], state[S_LAST_BEAT]
    requested, fetch_from = state[S_REQUESTED], state[S_FETCH_FROM]
    active, load_from = state[S_ACTIVE], state[S_LOAD_FROM]
    row, beat, left = state[S_ROW], state[S_BEAT], state[S_LEFT]
    now, t = state[S_NOW], NEVER
    ready = np.full(8, NEVER, np.int64)  # earliest cycle of: issue x 4, dispatch, fetch, load, failed check
    while True:
        if state[S_RETIRED] == total:
            tally[T_STATE] = DONE
            for q in range(16):
                if push_count[q] != pop_count[q]:
                    tally[T_STATE] = STUCK
            break
        listens = False  # waits for what another core has not rung
        # -- when can each party act? -------------------------------------------------------------------
        for e in range(4):
            ready[e] = NEVER
            if issued[e] == dispatched[e] or (e == LOAD and active >= 0) or (e == STORE and state[S_WRITING] >= 0):
                continue
            i = queue[queue_start[e] + issued[e]]
            if i >= stop:
                continue
            t = max(dispatch[i] + DISPATCH_LATENCY, engine_free[e])
            if kind[i] & DRAIN:
                t = max(t, drained[e] + 1)
            for s in range(4):
                if pops[i] >> s & 1:
                    q = 4 * s + e
                    if pop_count[q] < push_count[q]:
                        t = max(t, pushed_at[push_start[q] + pop_count[q]] + TOKEN_LATENCY)
                    else:
                        t = NEVER
            if e == LOAD and code[HEARS, i]:
                for c in range(MOST_CORES):
                    if code[HEARS, i] >> c & 1:
                        if c < len(bells) and bells[c, D_HEARD] < bells[c, D_RUNG]:
                            t = max(t, bells[c, D_FIRST + bells[c, D_HEARD]])
                        else:
                            t, listens = NEVER, True
            ready[e] = t
        ready[4] = NEVER
        if next_dispatch < total and stop == total:
            i = next_dispatch
            e = engine[i]
            t = max(last_dispatch + 1, arrivals[code[ARRIVE_BEAT, i]] + FETCH_DEPTH)
            if i < legal and dispatched[e] >= depth:
                before = dispatched[e] - depth
                t = max(t, issue[queue[queue_start[e] + before]] + 1) if issued[e] > before else NEVER
            ready[4] = t
        limit = bursts[B_LAST, granted % outstanding] + 1 if granted >= outstanding else 0
        ready[5] = NEVER
        if requested < program_beats and stop == total:
            gone = code[FREED, next_dispatch - 1] if next_dispatch else 0
            length = min(longest, program_beats - requested)
            if fetch_room - requested + gone >= length:
                ready[5] = max(fetch_from, limit)
        ready[6] = max(load_from, limit) if active >= 0 else NEVER
        ready[7] = min(checked[LOAD], checked[STORE])
        # -- jump ---------------------------------------------------------------------------------------
        t = NEVER
        for k in range(8):
            t = min(t, max(ready[k], now + 1))
        if t >= NEVER:
            if shared and (listens or state[S_READS] < granted or state[S_WRITING] >= 0):
                break  # what comes next is for the DRAM or another core to say
            tally[T_STATE] = STUCK if stop == total else FAULTED
            for i in range(stop if stop < total else 0):
                if times[RETIRE, i] < 0:
                    tally[T_STATE] = STUCK
            break
        if t > horizon:
            break
        now = t
        if now > watchdog:
            tally[T_STATE] = LATE
            break
        # -- act ----------------------------------------------------------------------------------------
        if ready[5] <= now or ready[6] <= now:
            slot = granted % outstanding
            fetches = ready[5] <= now
            owner = OTHER
            if fetches:
                length = min(longest, program_beats - requested)
            else:
                length = burst_beats(beat, left, longest)
                tally[T_LOAD_LIMIT] += now - load_from
                load_from, beat, left = now + 1, beat + length, left - length
                tally[T_LOAD] += length
                if left == 0:
                    row += 1
                    if row < code[ROWS, active]:
                        beat, left = code[FIRST, active] + row * code[STRIDE, active], code[ROW_BEATS, active]
                    else:
                        owner, active = active, -1
                        engine_free[LOAD] = free_at[owner] = now + 1
            if shared:
                bursts[B_READY, slot], bursts[B_LENGTH, slot] = now + latency, length
                bursts[B_OWNER, slot] = PROGRAM if fetches else owner
                bursts[B_FIRST, slot], bursts[B_LAST, slot] = requested, NEVER
            else:
                last_beat = data_end(now, length, latency, last_beat)
                bursts[B_LAST, slot] = last_beat
                if owner != OTHER:
                    retire_at(owner, LOAD, last_beat + LOAD_DEPTH, code, push_start, pushed_at, state, times)
            if owner != OTHER:
                drained[LOAD], state[S_LAST_LOAD] = NEVER if shared else times[RETIRE, owner], owner
            granted += 1
            if fetches:
                if not shared:
                    for k in range(length):
                        arrivals[requested + k] = last_beat - length + 1 + k
                requested, fetch_from = requested + length, now + 1
                tally[T_FETCH] += length
                if ready[6] <= now:
                    tally[T_LOAD_LIMIT] += now - load_from
                    tally[T_LOAD_BUS] += 1
                    load_from = now + 1
        if ready[4] <= now and next_dispatch == legal:
            stop = legal
            stop_cycle = now
        elif ready[4] <= now:
            i = next_dispatch
            dispatch[i] = now
            last_dispatch = now
            dispatched[engine[i]] += 1
            next_dispatch += 1
        for e in range(4):
            if ready[e] > now:
                continue
            i = queue[queue_start[e] + issued[e]]
            issue[i] = now
            issued[e] += 1
            for s in range(4):
                if pops[i] >> s & 1:
                    pop_count[4 * s + e] += 1
            if e == LOAD and code[HEARS, i]:
                for c in range(len(bells)):
                    bells[c, D_HEARD] += code[HEARS, i] >> c & 1
            if code[OUTSIDE, i]:
                checked[e], suspect[e] = now + FAULT_LATENCY, i
                free_at[i] = now + FAULT_LATENCY + 1
                engine_free[e] = free_at[i]
                continue
            if e == LOAD and kind[i] & BUS:
                active, load_from, row = i, now + LOAD_SETUP, 0
                beat, left = code[FIRST, i], code[ROW_BEATS, i]
                continue
            if e == STORE and kind[i] & BUS:
                if shared:
                    state[S_WRITING], state[S_WRITE_FROM], state[S_WRITE_ROW] = i, now + STORE_SETUP, 0
                    state[S_WRITE_BEAT], state[S_WRITE_LEFT] = code[FIRST, i], code[ROW_BEATS, i]
                    drained[STORE] = NEVER
                    continue
                cycle = _store(i, now + STORE_SETUP, code, machine, state, bursts, tally) + STORE_DEPTH
            else:
                engine_free[e] = now + slots[i]
                cycle = now + slots[i] - 1 + DEPTHS[e]
                if e == STORE and code[RINGS, i]:
                    state[S_RING], state[S_RING_CYCLE] = code[RINGS, i], cycle
            free_at[i], drained[e] = engine_free[e], cycle
            retire_at(i, e, cycle, code, push_start, pushed_at, state, times)
        for e in range(4):
            if checked[e] <= now:
                checked[e] = NEVER
                stop, stop_cycle = min(stop, suspect[e]), now
    if tally[T_STATE] == STUCK:
        tally[T_END] = now + 1
    elif tally[T_STATE] != RUNNING and stop < total:
        tally[T_END] = max(state[S_LAST_RETIRE], stop_cycle) + DONE_LATENCY
    elif tally[T_STATE] != RUNNING:
        tally[T_END] = state[S_LAST_RETIRE] + DONE_LATENCY
    state[S_STOP], state[S_STOP_CYCLE] = stop, stop_cycle
    state[S_NEXT], state[S_LAST_DISPATCH] = next_dispatch, last_dispatch
    state[S_BURSTS], state[S_LAST_BEAT] = granted, last_beat
    state[S_REQUESTED], state[S_FETCH_FROM] = requested, fetch_from
    state[S_ACTIVE], state[S_LOAD_FROM] = active, load_from
    state[S_ROW], state[S_BEAT], state[S_LEFT] = row, beat, left
    state[S_NOW] = now
    return t
