"""Several cores before one DRAM: what each runs one after another, when, and how long it takes.

The order of work is given as *runs*: programs on cores, and stretches of time on whatever else there is (a CPU), each
after the runs that it needs. So inferences side by side are runs without a need, and a pipeline is runs that need what
comes before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.kinds import instance
from tilewright.sim import event_loop as loop
from tilewright.sim import shared
from tilewright.sim.decoded import Decoded, decode_program
from tilewright.sim.functional import SimulationError
from tilewright.sim.result import TimingResult
from tilewright.sim.timing import Books, Code, begin, books, code_of, machine_of, result_of, simulate_timing

ROUNDS = 2  #: inferences of each core for the time between two results: the first round fills the DRAM's queues


@dataclass(frozen=True)
class Run:
    """Work for one worker: a program for a core, or so many cycles for a worker that is none.

    ``worker``: 0 to ``cores`` - 1 are the cores, higher numbers anybody else. A worker does its runs in the order in
    which they are listed. A run starts ``delay`` cycles after the worker is free and the runs of ``after`` (their
    positions in the list, all before its own) have ended.
    """

    worker: int
    work: Program | int
    after: tuple[int, ...] = ()
    delay: int = 0


@dataclass(frozen=True)
class Ran:
    """When a run started and ended, in cycles from the first; ``timing`` of a program, counted from its own start."""

    start: int
    end: int
    timing: TimingResult | None


def simulate_cores(config: Config, runs: Sequence[Run]) -> list[Ran]:
    """The times of all runs, under the limit of ``dram_bandwidth``; in the order given. Doorbells go from core to core,
    whichever runs they are rung and heard in.

    Raises :class:`SimulationError` for a run that cannot be, or whose program ends with a fault.
    """
    _check(config, runs)
    limited = 0 < config.dram_bandwidth < 2 * config.cores * config.beat_bytes
    programs = {id(run.work): run.work for run in runs if isinstance(run.work, Program)}
    decoded = {key: decode_program(program) for key, program in programs.items()}
    joined = any((d.table["hear"] | d.table["ring"]).any() for d in decoded.values())
    machine: _Alone | _Shared = _Shared(config, runs, decoded) if limited or joined else _Alone(decoded)
    waiting = {w: [k for k, run in enumerate(runs) if run.worker == w] for w in {run.worker for run in runs}}
    free = dict.fromkeys(waiting, 0)
    done: dict[int, Ran] = {}
    busy: set[int] = set()
    while len(done) < len(runs):
        for worker, queue in waiting.items():
            while queue and worker not in busy and all(k in done for k in runs[queue[0]].after):
                k = queue.pop(0)
                run = runs[k]
                start = max([free[worker], *(done[j].end for j in run.after)]) + run.delay
                if isinstance(run.work, int):
                    done[k] = Ran(start, start + run.work, None)
                    free[worker] = done[k].end
                else:
                    machine.begin(k, run.work, worker, start)
                    busy.add(worker)
        for k, ran in machine.ended():
            if ran.timing is not None and ran.timing.fault is not None:
                raise SimulationError(f"run {k} on core {runs[k].worker}: {ran.timing.fault.message}")
            done[k] = ran
            free[runs[k].worker] = ran.end
            busy.remove(runs[k].worker)
    return [done[k] for k in range(len(runs))]


def steady_interval(config: Config, program: Program) -> float:
    """Cycles from one result to the next with every core on inferences of its own, one after another."""
    runs = [Run(core, program) for core in range(config.cores) for _ in range(ROUNDS)]
    ends = np.array([ran.end for ran in simulate_cores(config, runs)]).reshape(config.cores, ROUNDS).max(0)
    return float(ends[-1] - ends[-2]) / config.cores


def _check(config: Config, runs: Sequence[Run]) -> None:
    instance("config", config, Config, "a Config", error=SimulationError)
    instance("runs", runs, Sequence, "a list of Run", error=SimulationError)
    for k, run in enumerate(runs):
        instance(f"run {k}", run, Run, "a Run", error=SimulationError)
        numbers = (run.worker, run.delay, *run.after, *(() if isinstance(run.work, Program) else (run.work,)))
        for number in numbers:
            instance(f"run {k}: number", number, (int, np.integer), "an integer", error=SimulationError)
        if run.worker < 0 or run.delay < 0 or (isinstance(run.work, int) and run.work < 0):
            raise SimulationError(f"run {k}: worker, delay and cycles must not be negative")
        if isinstance(run.work, Program) and run.worker >= config.cores:
            raise SimulationError(f"run {k}: there is no core {run.worker}, cores = {config.cores}")
        if isinstance(run.work, Program) and run.work.config.fingerprint != config.fingerprint:
            raise SimulationError(f"run {k}: its program is for another config: {run.work.config.differences(config)}")
        if not all(0 <= j < k for j in run.after):
            raise SimulationError(f"run {k}: can only come after runs before it in the list, not {run.after}")


class _Alone:
    """Cores that the limit can never hold up: each takes as long as it does alone."""

    def __init__(self, decoded: Mapping[int, Decoded]) -> None:
        self._decoded = decoded
        self._known: dict[int, TimingResult] = {}
        self._ended: list[tuple[int, Ran]] = []

    def begin(self, k: int, program: Program, core: int, start: int) -> None:
        """Start run k."""
        if id(program) not in self._known:
            self._known[id(program)] = simulate_timing(program, decoded=self._decoded[id(program)])
        timing = self._known[id(program)]
        self._ended.append((k, Ran(start, start + timing.cycles, timing)))

    def ended(self) -> list[tuple[int, Ran]]:
        """Some runs that have ended."""
        result, self._ended = self._ended, []
        return result


class _Shared:
    """Cores that hold each other up: the compiled loop of :mod:`tilewright.sim.shared`. ``decoded``: programs by id."""

    def __init__(self, config: Config, runs: Sequence[Run], decoded: Mapping[int, Decoded]) -> None:
        self._codes: dict[int, tuple[Decoded, Code]] = {key: (d, code_of(d)) for key, d in decoded.items()}
        sizes = [(d.total, int(c.push_start[-1]), c.beats) for d, c in self._codes.values()] or [(0, 0, 0)]
        total, pushes, beats = (max(column) for column in zip(*sizes))
        one = books(config, total, pushes, beats)
        self._books = Books(*(np.stack([array] * config.cores) for array in one))
        self._books.tally[:, loop.T_STATE] = loop.DONE  # nothing to run yet
        self._code = np.zeros((config.cores, loop.CODE_ROWS, total), np.int64)
        self._queue_start = np.zeros((config.cores, 4), np.int64)
        self._push_start = np.zeros((config.cores, 17), np.int64)
        self._machine = machine_of(config)
        self._wake = np.full(config.cores, loop.NEVER, np.int64)
        self._dram = np.array([config.dram_bandwidth, config.beat_bytes, config.beat_bytes - 1, -1, 0], np.int64)
        rings = sum(np.count_nonzero(decoded[id(run.work)].table["ring"]) for run in runs if id(run.work) in decoded)
        self._bells = np.zeros((config.cores, config.cores, loop.D_FIRST + rings), np.int64)
        self._running: dict[int, tuple[int, int, Decoded, Code]] = {}

    def _of(self, core: int) -> Books:
        return Books(*(array[core] for array in self._books))

    def begin(self, k: int, program: Program, core: int, start: int) -> None:
        """Start run k."""
        decoded, code = self._codes[id(program)]
        self._running[core] = k, start, decoded, code
        self._code[core, :, : decoded.total] = code.code
        self._queue_start[core], self._push_start[core] = code.queue_start, code.push_start
        b = self._of(core)
        b.pushed_at[:] = loop.NEVER
        begin(b, decoded, code, start, None)
        self._wake[core] = start

    def ended(self) -> list[tuple[int, Ran]]:
        """Run until a core's program ends; the runs that have."""
        b = self._books
        shared.run_cores(
            self._code, self._queue_start, self._push_start, b.pushed_at, b.arrivals, self._machine, b.state, b.times,
            b.bursts, b.tally, self._wake, self._dram, self._bells,
        )  # fmt: skip
        result = []
        for core, (k, start, decoded, code) in list(self._running.items()):
            if b.tally[core, loop.T_STATE] != loop.RUNNING:
                timing = result_of(decoded, code, self._of(core), start)
                result.append((k, Ran(start, start + timing.cycles, timing)))
                del self._running[core]
        return result
