"""The cycle model: the rules of ``docs/timing.md`` as a compiled event loop.

Every rule makes an event of cycle t depend on events of earlier cycles only. So the loop computes, for each
party (dispatch, four issues, two bus requests), the earliest cycle at which it can act given what has
happened, jumps to the least of them, lets all parties act that can, and repeats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import timing as constants
from tilewright.isa.codec import Table, columns_of
from tilewright.isa.effects import slots as slots_of
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Opcode, instruction_width, others
from tilewright.sim.compiled import compiled
from tilewright.sim.counters import count_cycles
from tilewright.sim.decoded import Decoded, decode_program
from tilewright.sim.result import Fault, FaultCode, TimingResult

NEVER = 1 << 62  #: later than any cycle
LOAD, GEMM, ALU, STORE = (int(e) for e in Engine)
OP_LOAD, OP_FILL, OP_STORE, OP_WAIT = (int(op) for op in (Opcode.LOAD, Opcode.FILL, Opcode.STORE, Opcode.WAIT))
DEPTHS = np.array([getattr(constants, f"{e.name}_DEPTH") for e in Engine], np.int64)  #: last slot to retire
TOKEN_LATENCY, DISPATCH_LATENCY = constants.TOKEN_LATENCY, constants.DISPATCH_LATENCY
LOAD_SETUP, LOAD_DEPTH = constants.LOAD_SETUP, constants.LOAD_DEPTH
STORE_SETUP, STORE_DEPTH = constants.STORE_SETUP, constants.STORE_DEPTH
FETCH_START, FETCH_DEPTH, DONE_LATENCY = constants.FETCH_START, constants.FETCH_DEPTH, constants.DONE_LATENCY
FAULT_LATENCY = constants.FAULT_LATENCY

# Bits of an instruction's ``kind``
BUS, DRAIN = 1, 2  #: moves data over the bus; must wait until its engine has drained
# Entries of ``tally``
T_FETCH, T_LOAD, T_STORE, T_LOAD_BUS, T_LOAD_LIMIT, T_STORE_LIMIT = range(6)
T_END, T_STATE, TALLIES = 6, 7, 8
DONE, FAULTED, STUCK, LATE = range(4)


@compiled
def data_end(grant: int, beats: int, latency: int, before: int) -> int:
    """Cycle of a read burst's last beat; ``before`` is that of the previous burst, -1 for none."""
    return max(grant + latency, before + 1) + beats - 1


@compiled
def response_cycle(last: int, latency: int, before: int) -> int:
    """Cycle of a write burst's response; ``before`` is that of the previous burst, -1 for none."""
    return max(last + latency, before + 1)


@compiled
def _burst(beat: int, left: int, longest: int) -> int:
    """Beats of the next burst at segment beat ``beat`` with ``left`` to go."""
    return min(left, longest - beat % longest)


@compiled
def _store(
    i: int, start: int, bursts: int, rows: Any, p: Any, responses: Any, tally: Any
) -> tuple[int, int, int]:  # fmt: skip
    """Write channel for STORE i: ``bursts`` went before, its first beat may go at cycle ``start``.

    Returns (bursts up to now, cycle of the last W beat, cycle of the last response).
    """
    longest, latency, outstanding = p[0], p[1], p[2]
    write = start - 1
    response = responses[(bursts - 1) % outstanding] if bursts else -1
    for r in range(rows[i, 0]):
        beat, left = rows[i, 1] + r * rows[i, 2], rows[i, 3]
        while left > 0:
            length = _burst(beat, left, longest)
            first = write + 1
            if bursts >= outstanding:
                first = max(first, responses[bursts % outstanding] + 1)
            tally[T_STORE_LIMIT] += first - write - 1
            write = first + length - 1
            response = response_cycle(write, latency, response)
            responses[bursts % outstanding] = response
            bursts, beat, left = bursts + 1, beat + length, left - length
            tally[T_STORE] += length
    return bursts, write, response


@compiled
def _simulate(
    engine: Any, kind: Any, slots: Any, pops: Any, pushes: Any, rows: Any, outside: Any, queue: Any, queue_start: Any,
    push_start: Any, pushed_at: Any, arrive_beat: Any, freed: Any, p: Any, legal: int, watchdog: int,
    dispatch: Any, issue: Any, free_at: Any, retire: Any, last_beats: Any, responses: Any, tally: Any,
) -> None:  # fmt: skip
    """Run the event loop; fills dispatch, issue, free_at, retire (per instruction) and ``tally``.

    ``kind``: BUS and DRAIN bits; ``slots``: service cycles; ``rows``: (rows, first beat, stride, row beats);
    ``queue``: instructions by engine, engine e's from queue_start[e]; ``pushed_at``: retire cycles of pushes,
    those of queue a -> b from push_start[4a+b]; ``arrive_beat``: index of the program beat that completes
    each instruction; ``freed``: program beats consumed once it is dispatched.
    """
    longest, latency, outstanding, depth, fetch_room, program_beats = p[0], p[1], p[2], p[3], p[4], p[5]
    total = len(engine)
    stop = total  # first faulting instruction met so far: nothing from it on is issued or dispatched
    stop_cycle = NEVER
    checked, suspect = np.full(4, NEVER, np.int64), np.zeros(4, np.int64)  # extent checks that will fail: when, of what
    next_dispatch, last_dispatch = 0, -1
    dispatched, issued = np.zeros(4, np.int64), np.zeros(4, np.int64)
    engine_free, drained = np.zeros(4, np.int64), np.full(4, -1, np.int64)
    push_count, pop_count = np.zeros(16, np.int64), np.zeros(16, np.int64)
    ready = np.full(8, NEVER, np.int64)  # earliest cycle of: issue x 4, dispatch, fetch, load, failed check
    bursts, last_beat = 0, -1
    requested, fetch_from = 0, FETCH_START
    arrivals = np.full(program_beats, NEVER, np.int64)
    active, load_from, row, beat, left = -1, 0, 0, 0, 0
    store_bursts, retired, last_retire = 0, 0, 0
    now = -1
    while True:
        # -- when can each party act? -------------------------------------------------------------------
        for e in range(4):
            ready[e] = NEVER
            if issued[e] == dispatched[e] or (e == LOAD and active >= 0):
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
            ready[e] = t
        ready[4] = NEVER
        if next_dispatch < total and stop == total:
            i = next_dispatch
            e = engine[i]
            t = max(last_dispatch + 1, arrivals[arrive_beat[i]] + FETCH_DEPTH)
            if i < legal and dispatched[e] >= depth:
                before = dispatched[e] - depth
                t = max(t, issue[queue[queue_start[e] + before]] + 1) if issued[e] > before else NEVER
            ready[4] = t
        limit = last_beats[bursts % outstanding] + 1 if bursts >= outstanding else 0
        ready[5] = NEVER
        if requested < program_beats and stop == total:
            gone = freed[next_dispatch - 1] if next_dispatch else 0
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
            tally[T_STATE] = STUCK if stop == total else FAULTED
            for i in range(stop if stop < total else 0):
                if retire[i] < 0:
                    tally[T_STATE] = STUCK
            break
        now = t
        if now > watchdog:
            tally[T_STATE] = LATE
            break
        # -- act ----------------------------------------------------------------------------------------
        if ready[5] <= now:
            length = min(longest, program_beats - requested)
            last_beat = data_end(now, length, latency, last_beat)
            for k in range(length):
                arrivals[requested + k] = last_beat - length + 1 + k
            last_beats[bursts % outstanding] = last_beat
            bursts, requested, fetch_from = bursts + 1, requested + length, now + 1
            tally[T_FETCH] += length
            if ready[6] <= now:
                tally[T_LOAD_LIMIT] += now - load_from
                tally[T_LOAD_BUS] += 1
                load_from = now + 1
        elif ready[6] <= now:
            i = active
            length = _burst(beat, left, longest)
            tally[T_LOAD_LIMIT] += now - load_from
            last_beat = data_end(now, length, latency, last_beat)
            last_beats[bursts % outstanding] = last_beat
            bursts, load_from, beat, left = bursts + 1, now + 1, beat + length, left - length
            tally[T_LOAD] += length
            if left == 0:
                row += 1
                if row < rows[i, 0]:
                    beat, left = rows[i, 1] + row * rows[i, 2], rows[i, 3]
                else:
                    active = -1
                    engine_free[LOAD] = now + 1
                    free_at[i] = now + 1
                    retire[i] = last_beat + LOAD_DEPTH
                    drained[LOAD] = retire[i]
                    for d in range(4):
                        if pushes[i] >> d & 1:
                            q = 4 * LOAD + d
                            pushed_at[push_start[q] + push_count[q]] = retire[i]
                            push_count[q] += 1
                    retired += 1
                    last_retire = max(last_retire, retire[i])
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
            if outside[i]:
                checked[e], suspect[e] = now + FAULT_LATENCY, i
                free_at[i] = now + FAULT_LATENCY + 1
                engine_free[e] = free_at[i]
                continue
            if e == LOAD and kind[i] & BUS:
                active, load_from, row = i, now + LOAD_SETUP, 0
                beat, left = rows[i, 1], rows[i, 3]
                continue
            if e == STORE and kind[i] & BUS:
                store_bursts, write, response = _store(i, now + STORE_SETUP, store_bursts, rows, p, responses, tally)
                engine_free[e] = write + 1
                retire[i] = response + STORE_DEPTH
            else:
                engine_free[e] = now + slots[i]
                retire[i] = now + slots[i] - 1 + DEPTHS[e]
            free_at[i] = engine_free[e]
            drained[e] = retire[i]
            for d in range(4):
                if pushes[i] >> d & 1:
                    q = 4 * e + d
                    pushed_at[push_start[q] + push_count[q]] = retire[i]
                    push_count[q] += 1
            retired += 1
            last_retire = max(last_retire, retire[i])
        for e in range(4):
            if checked[e] <= now:
                checked[e] = NEVER
                stop, stop_cycle = min(stop, suspect[e]), now
        if retired == total:
            tally[T_STATE] = DONE
            for q in range(16):
                if push_count[q] != pop_count[q]:
                    tally[T_STATE] = STUCK
            break
    if tally[T_STATE] == STUCK:
        tally[T_END] = now + 1
    elif stop < total:
        tally[T_END] = max(last_retire, stop_cycle) + DONE_LATENCY
    else:
        tally[T_END] = last_retire + DONE_LATENCY


def _masks(table: Table, column: str) -> NDArray[np.int64]:
    """The 3-bit token masks of a column as 4-bit masks over all engines."""
    result = np.zeros(len(table), np.int64)
    for e in Engine:
        for k, other in enumerate(others(e)):
            result |= np.where(table["engine"] == e, (table[column] >> k & 1) << int(other), 0)
    return result


def _queues(engine: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(instruction indices grouped by engine, where each engine's group starts)."""
    order = np.argsort(engine, kind="stable").astype(np.int64)
    counts = np.bincount(engine, minlength=4)
    return order, np.concatenate([[0], np.cumsum(counts)[:3]]).astype(np.int64)


def simulate_timing(program: Program, *, watchdog: int | None = None, decoded: Decoded | None = None) -> TimingResult:
    """Cycle counts of a program. They depend on its fields and its Config only: simulate once, use for any data.

    ``watchdog``: the cycle at which a program that is not done ends with a fault. A program that can never
    end (only possible if it was not verified) ends with the same fault, watchdog or not.
    """
    d = decode_program(program) if decoded is None else decoded
    config, table, legal, total = program.config, d.table, len(d.table), d.total
    size, beat = instruction_width(config) // 8, config.beat_bytes
    engine = table["engine"].copy()
    opcode = table["opcode"]
    moves = (opcode == OP_LOAD) | (opcode == OP_STORE)
    waits = (opcode == OP_FILL) | ((opcode == OP_WAIT) & ((engine == LOAD) | (engine == STORE)))
    kind = np.where(moves, BUS, 0) | np.where(waits, DRAIN, 0)
    slots, pops, pushes = slots_of(columns_of(table), config), _masks(table, "pop"), _masks(table, "push")
    rows = np.stack([table["rows"], table["offset"], table["stride"], d.row_beats], 1)
    queue, queue_start = _queues(engine)
    counts = [int(((engine == a) & (pushes >> b & 1 == 1)).sum()) for a in range(4) for b in range(4)]
    push_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pushed_at = np.full(sum(counts), NEVER, np.int64)
    ends = (np.arange(total, dtype=np.int64) + 1) * size
    p = np.array(
        [config.burst_beats, config.dram_latency, config.outstanding, config.queue_depth, config.fetch_beats,
         -(-total * size // beat)], np.int64)  # fmt: skip
    padded = np.zeros(total, np.int64)
    padded[:legal] = engine
    dispatch, issue, free_at, retire = (np.full(legal, -1, np.int64) for _ in range(4))
    last_beats, responses = np.zeros(config.outstanding, np.int64), np.zeros(config.outstanding, np.int64)
    tally = np.zeros(TALLIES, np.int64)
    if total:
        _simulate(
            padded, kind, slots, pops, pushes, rows, d.outside, queue, queue_start, push_start, pushed_at,
            (ends - 1) // beat, ends // beat, p, legal, NEVER - 1 if watchdog is None else watchdog,
            dispatch, issue, free_at, retire, last_beats, responses, tally,
        )  # fmt: skip
    else:
        tally[T_END] = DONE_LATENCY
    fault, cycles = _end(d, tally, watchdog)
    retire[retire > cycles] = -1
    engines = count_cycles(
        pops, dispatch, issue, free_at, queue, queue_start, push_start, pushed_at, cycles,
        int(tally[T_LOAD_BUS]), int(tally[T_LOAD_LIMIT]), int(tally[T_STORE_LIMIT]),
    )  # fmt: skip
    traced = np.nonzero((table["trace"] == 1) & (retire >= 0))[0]
    traced = traced[np.lexsort((engine[traced], retire[traced]))]  # in one cycle: in Engine order
    rest = np.full(total - legal, -1, np.int64)
    return TimingResult(
        cycles=cycles,
        dispatch=np.concatenate([dispatch, rest]),
        issue=np.concatenate([issue, rest]),
        retire=np.concatenate([retire, rest]),
        fault=fault,
        engines=engines,
        fetch_bytes=int(tally[T_FETCH]) * beat,
        load_bytes=int(tally[T_LOAD]) * beat,
        store_bytes=int(tally[T_STORE]) * beat,
        traced=np.stack([traced, retire[traced]], 1),
    )


def _end(d: Decoded, tally: NDArray[np.int64], watchdog: int | None) -> tuple[Fault | None, int]:
    """The fault and the cycles of a finished event loop."""
    state, end = int(tally[T_STATE]), int(tally[T_END])
    if watchdog is not None and (state in (STUCK, LATE) or end > watchdog):
        return Fault(FaultCode.WATCHDOG, -1, f"not done at cycle {watchdog}"), watchdog
    if state == STUCK:
        return Fault(FaultCode.WATCHDOG, -1, f"can never end: nothing happens after cycle {end - 1}"), end
    return (d.fault, end) if state == FAULTED else (None, end)
