"""How long a program takes: the arrays that the compiled event loop works on, and what its times say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import columns_of
from tilewright.isa.effects import slots as slots_of
from tilewright.isa.program import Program, check_program
from tilewright.isa.spec import Engine, Opcode, instruction_width, others
from tilewright.ranges import whole
from tilewright.sim import event_loop as loop
from tilewright.sim.counters import count_cycles
from tilewright.sim.decoded import Decoded, decode_program
from tilewright.sim.event_loop import LOAD, NEVER, STORE
from tilewright.sim.result import Fault, FaultCode, TimingResult

Int64 = NDArray[np.int64]
#: by engine, its 3-bit token masks as 4-bit masks over all engines
MASKS = np.array(
    [[sum(1 << int(o) for k, o in enumerate(others(e)) if mask >> k & 1) for mask in range(8)] for e in Engine],
    np.int64,
)
OP_LOAD, OP_FILL, OP_STORE, OP_WAIT = (int(op) for op in (Opcode.LOAD, Opcode.FILL, Opcode.STORE, Opcode.WAIT))


class Code(NamedTuple):
    """A program as the event loop reads it: ``code`` (CODE_ROWS, instructions), where each engine's and each token
    queue's entries begin (4 and 17 numbers), and how many beats the program has."""

    code: Int64
    queue_start: Int64
    push_start: Int64
    beats: int


class Books(NamedTuple):
    """What the event loop of one core writes to; see :mod:`tilewright.sim.event_loop`."""

    pushed_at: Int64
    arrivals: Int64
    state: Int64
    times: Int64
    bursts: Int64
    tally: Int64


def code_of(d: Decoded) -> Code:
    """The arrays of a decoded program. What does not decode is in them as columns of 0."""
    config, table, legal = d.config, d.table, len(d.table)
    size, beat = instruction_width(config) // 8, config.beat_bytes
    engine, opcode = table["engine"].copy(), table["opcode"].copy()
    moves = (opcode == OP_LOAD) | (opcode == OP_STORE)
    waits = (opcode == OP_FILL) | ((opcode == OP_WAIT) & ((engine == LOAD) | (engine == STORE)))
    pushes = MASKS[engine, table["push"]]
    counts = np.stack([np.bincount(engine[pushes >> b & 1 == 1], minlength=4) for b in range(4)], 1).ravel()
    ends = (np.arange(d.total, dtype=np.int64) + 1) * size
    code = np.zeros((loop.CODE_ROWS, d.total), np.int64)
    code[loop.ARRIVE_BEAT], code[loop.FREED] = (ends - 1) // beat, ends // beat
    order = np.argsort(engine, kind="stable")
    for row, values in {
        loop.ENGINE: engine, loop.KIND: np.where(moves, loop.BUS, 0) | np.where(waits, loop.DRAIN, 0),
        loop.SLOTS: slots_of(columns_of(table), config), loop.POPS: MASKS[engine, table["pop"]], loop.PUSHES: pushes,
        loop.OUTSIDE: d.outside, loop.ROWS: table["rows"], loop.FIRST: table["offset"], loop.STRIDE: table["stride"],
        loop.ROW_BEATS: d.row_beats, loop.QUEUE: order, loop.HEARS: table["hear"], loop.RINGS: table["ring"],
    }.items():  # fmt: skip
        code[row, :legal] = values
    starts = np.concatenate([[0], np.cumsum(np.bincount(engine, minlength=4))[:3]]).astype(np.int64)
    return Code(code, starts, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), -(-d.total * size // beat))


def books(config: Config, instructions: int, pushes: int, beats: int) -> Books:
    """Arrays for programs of up to these sizes."""
    return Books(
        np.full(pushes, NEVER, np.int64), np.full(beats, NEVER, np.int64), np.zeros(loop.STATES, np.int64),
        np.full((4, instructions), -1, np.int64), np.zeros((loop.BURST_ROWS, config.outstanding), np.int64),
        np.zeros(loop.TALLIES, np.int64),
    )  # fmt: skip


def begin(b: Books, d: Decoded, code: Code, start: int, watchdog: int | None) -> None:
    """Make a core ready to start a program in cycle ``start``."""
    b.state[loop.S_BEATS], b.state[loop.S_LEGAL], b.state[loop.S_TOTAL] = code.beats, len(d.table), d.total
    b.state[loop.S_WATCHDOG] = NEVER - 1 if watchdog is None else watchdog
    loop.reset(b.state, b.times, b.arrivals, b.tally, start)


def machine_of(config: Config) -> Int64:
    """The numbers of a Config that the event loop goes by."""
    numbers = config.burst_beats, config.dram_latency, config.outstanding, config.queue_depth, config.fetch_beats
    return np.array(numbers, np.int64)


def simulate_timing(program: Program, *, watchdog: int | None = None, decoded: Decoded | None = None) -> TimingResult:
    """Cycle counts of a program. They depend on its fields and its Config only: simulate once, use for any data.

    ``watchdog``: the cycle at which a program that is not done ends with a fault. A program that can never
    end (only possible if it was not verified) ends with the same fault, watchdog or not. The program has the DRAM for
    itself; for several cores see :func:`tilewright.sim.simulate_cores`.
    """
    if watchdog is not None:
        watchdog = whole("watchdog", watchdog, 1, NEVER - 1, of="cycles")
    check_program(program)
    d = decode_program(program) if decoded is None else decoded
    code = code_of(d)
    b = books(d.config, d.total, int(code.push_start[-1]), code.beats)
    begin(b, d, code, 0, watchdog)
    loop.run_until(
        code.code, code.queue_start, code.push_start, b.pushed_at, b.arrivals, machine_of(d.config), b.state, b.times,
        b.bursts, b.tally, np.zeros((0, loop.D_FIRST), np.int64), False, NEVER,
    )  # fmt: skip
    return result_of(d, code, b, 0, watchdog)


def result_of(d: Decoded, code: Code, b: Books, start: int, watchdog: int | None = None) -> TimingResult:
    """What the books say of a program that has ended and was started in cycle ``start``; all times count from there."""
    legal, tally, beat = len(d.table), b.tally, d.config.beat_bytes
    dispatch, issue, free_at, retire = np.where(b.times >= 0, b.times - start, -1)[:, :legal]
    fault, cycles = _end(d, tally, start, watchdog)
    retire[retire > cycles] = -1
    engines = count_cycles(
        code.code[loop.POPS, :legal], dispatch, issue, free_at, code.code[loop.QUEUE, :legal], code.queue_start,
        code.push_start, np.where(b.pushed_at < NEVER, b.pushed_at - start, NEVER), cycles,
        int(tally[loop.T_LOAD_BUS]), int(tally[loop.T_LOAD_LIMIT]), int(tally[loop.T_STORE_LIMIT]),
    )  # fmt: skip
    traced = np.nonzero((d.table["trace"] == 1) & (retire >= 0))[0]
    traced = traced[np.lexsort((d.table["engine"][traced], retire[traced]))]  # in one cycle: in Engine order
    rest = np.full(d.total - legal, -1, np.int64)
    return TimingResult(
        cycles=cycles,
        dispatch=np.concatenate([dispatch, rest]),
        issue=np.concatenate([issue, rest]),
        retire=np.concatenate([retire, rest]),
        fault=fault,
        engines=engines,
        fetch_bytes=int(tally[loop.T_FETCH]) * beat,
        load_bytes=int(tally[loop.T_LOAD]) * beat,
        store_bytes=int(tally[loop.T_STORE]) * beat,
        traced=np.stack([traced, retire[traced]], 1),
        held=int(tally[loop.T_HELD]),
    )


def _end(d: Decoded, tally: Int64, start: int, watchdog: int | None) -> tuple[Fault | None, int]:
    """The fault and the cycles of a finished event loop."""
    state, end = int(tally[loop.T_STATE]), int(tally[loop.T_END]) - start
    if watchdog is not None and (state in (loop.STUCK, loop.LATE) or end > watchdog):
        return Fault(FaultCode.WATCHDOG, -1, f"not done at cycle {watchdog}"), watchdog
    if state == loop.STUCK:
        return Fault(FaultCode.WATCHDOG, -1, f"can never end: nothing happens after cycle {end - 1}"), end
    return (d.fault, end) if state == loop.FAULTED else (None, end)
