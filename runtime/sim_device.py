"""The ``sim`` device: the cycle-exact simulator behind the :class:`Device` interface."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.isa.verifier import joint_order
from tilewright.progress import Advance
from tilewright.runtime.device_base import Allocation, Counters, Device, Events, fault, has_shared
from tilewright.runtime.segments import own_scratch, segment_memories
from tilewright.sim import (
    Fault,
    Functional,
    Run,
    TimingResult,
    run_together,
    simulate_cores,
    simulate_timing,
    steady_interval,
)

PREPARED_PROGRAMS = 16  #: programs kept ready, so that a device that lives long does not grow
WATCHDOG_CYCLES = 1 << 40  #: a program that is not done by then hangs


@dataclass
class _Prepared:
    """What the simulator works out once per program: its times depend on no data."""

    program: Program
    functional: Functional
    timing: TimingResult | None = None
    interval: float | None = None  #: of several cores: cycles from one result to the next with all of them busy


@dataclass
class _State:
    """One allocation: whole segments, all inferences."""

    prepared: _Prepared
    memories: list[NDArray[np.uint8]]
    beside: TimingResult | None = None  #: of the last launch, if other programs ran at the same time


class SimDevice(Device):
    """Simulates values and cycles. :meth:`launch` only notes the work; :meth:`wait` does it.

    ``jobs``: how many inferences of a launch are computed at once, in threads; by default as many as this process has
    processors. It has nothing to do with the cores that are simulated.
    """

    name: ClassVar[str] = "sim"
    overlaps: ClassVar[bool] = True
    shares = True

    def __init__(self, config: Config, jobs: int | None = None) -> None:
        super().__init__(config)
        self.jobs = _processors() if jobs is None else jobs
        self._prepared: OrderedDict[int, _Prepared] = OrderedDict()  #: by the program's identity

    def _allocate(self, program: Program, inferences: int) -> _State:
        prepared = self._prepared.get(id(program))
        if prepared is None:
            prepared = self._prepared[id(program)] = _Prepared(program, Functional(program))
            while len(self._prepared) > PREPARED_PROGRAMS:
                self._prepared.popitem(last=False)
        self._prepared.move_to_end(id(program))
        return _State(prepared, segment_memories(program, inferences))

    def _memory(self, allocation: Allocation, segment: int, written: bool = False) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        return state.memories[segment]

    def _run_together(self, allocations: Sequence[Allocation], inferences: int) -> bool:
        if len(allocations) > self.config.cores:
            return False
        joined = any(has_shared(allocation.program) for allocation in allocations)
        for allocation in allocations if not joined else ():
            self._time(allocation.state.prepared)  # a fault is that of one program
        runs = [Run(core, allocation.program) for core, allocation in enumerate(allocations)]
        for allocation, ran in zip(allocations, simulate_cores(self.config, runs)):
            allocation.state.beside = ran.timing
            if not joined:
                self._compute(allocation, inferences, None)
        if joined:
            self._compute_joined(allocations, inferences)
        return True

    def _share(self, allocation: Allocation, segment: int, other: Allocation, its: int) -> None:
        allocation.state.memories[segment] = other.state.memories[its]

    def _compute_joined(self, allocations: Sequence[Allocation], inferences: int) -> None:
        """The values of programs that exchange."""
        turns = joint_order([allocation.program for allocation in allocations]).turns
        machines = [allocation.state.prepared.functional for allocation in allocations]
        for k in range(inferences):
            run_together(machines, [_views(a.program, a.state.memories, k) for a in allocations], turns)

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Only note that it runs alone: :meth:`wait` does the work."""
        allocation.state.beside = None

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Simulate the noted runs; the first launch of a program also counts its cycles."""
        self._count(allocation.state.prepared)
        self._compute(allocation, inferences, progress)

    def _compute(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """The values of the noted runs."""
        state: _State = allocation.state
        with ThreadPoolExecutor(min(self.jobs, inferences), thread_name_prefix="sim") as pool:
            machines: SimpleQueue[tuple[Functional, list[NDArray[np.uint8]]]] = SimpleQueue()
            machines.put((state.prepared.functional, state.memories))
            for _ in range(1, min(self.jobs, inferences)):
                machines.put((Functional(allocation.program), own_scratch(allocation.program, state.memories)))
            runs = [pool.submit(partial(self._simulate, machines, k)) for k in range(inferences)]
            try:
                for run in runs:
                    run.result()
                    if progress is not None:
                        progress(1)
            finally:
                pool.shutdown(cancel_futures=True)

    def _count(self, prepared: _Prepared) -> None:
        """Count the cycles of a program that runs alone, and from result to result on all cores, once."""
        self._time(prepared)
        if self.config.cores > 1 and prepared.interval is None:
            prepared.interval = steady_interval(self.config, prepared.program)

    def _time(self, prepared: _Prepared) -> None:
        """Count a program's cycles, once."""
        if prepared.timing is not None:
            return
        timing = simulate_timing(prepared.program, watchdog=WATCHDOG_CYCLES)
        if timing.fault is not None:
            raise self._fault(prepared.program, timing.fault)
        prepared.timing = timing

    def _simulate(self, machines: SimpleQueue[tuple[Functional, list[NDArray[np.uint8]]]], k: int) -> None:
        """Compute inference k on whichever of the machines is free."""
        functional, memories = machines.get()
        try:
            result = functional.run(_views(functional.program, memories, k))
        finally:  # else other inferences wait for this machine for ever
            machines.put((functional, memories))
        if result.fault is not None:
            raise self._fault(functional.program, result.fault)

    def _fault(self, program: Program, found: Fault) -> Exception:
        return fault(self, program, found.code.name, found.instruction, found.message)

    def _counters(self, allocation: Allocation) -> Counters:
        """Cycles, traffic and events of one inference."""
        state: _State = allocation.state
        timing = state.prepared.timing if state.beside is None else state.beside
        assert timing is not None
        return Counters(
            cycles=timing.cycles,
            read_bytes=timing.dram_read_bytes,
            write_bytes=timing.store_bytes,
            stalls=_stalls(timing),
            events=Events(timing.dispatch, timing.issue, timing.retire),
            cores=self.config.cores,
            interval=state.prepared.interval if state.beside is None else None,
            together=state.beside is not None,
        )


def _views(program: Program, memories: list[NDArray[np.uint8]], k: int) -> list[NDArray[np.uint8]]:
    """The segments as inference k sees them."""
    return [m[k * s.repeat_stride : k * s.repeat_stride + s.size] for s, m in zip(program.segments, memories)]


def _processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stalls(timing: TimingResult) -> dict[str, int]:
    """Idle cycles by ``engine.cause``; the causes are those of the simulator's counters."""
    stalls: dict[str, int] = {}
    for engine, counted in timing.engines.items():
        stalls[f"{engine.name}.empty"] = counted.empty
        stalls[f"{engine.name}.drain"] = counted.drain
        stalls[f"{engine.name}.bus"] = counted.bus
        stalls[f"{engine.name}.outstanding"] = counted.outstanding
        for other, cycles in counted.tokens.items():
            stalls[f"{engine.name}.token_{other.name}"] = cycles
    return {name: cycles for name, cycles in stalls.items() if cycles}
