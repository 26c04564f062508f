"""The ``rtl`` device: the Verilated design behind the :class:`Device` interface, built on first use.

Of several cores each takes its share of a launch's inferences, all before one DRAM with the Config's limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver, RunResult
from tilewright.hw.verilated.limits import LONGEST, cycle_bound
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.registers import Control
from tilewright.progress import Advance, Progress, on_error_stream
from tilewright.runtime.device_base import Allocation, Counters, Device, DeviceError, Events, fault, has_shared
from tilewright.runtime.segments import own_scratch, segment_memories, shares, side_by_side
from tilewright.runtime.stalls import register_stalls

LOOK_CYCLES = 1 << 17  #: cycles between looks at how many inferences are finished


@dataclass
class _State:
    """One allocation: whole segments, all inferences, as each core sees them, and the results of the last launch."""

    memories: list[list[NDArray[np.uint8]]]
    results: dict[int, RunResult] = field(default_factory=dict)  #: by core
    together: bool = False  #: whether other programs ran beside the last launch


class RtlDevice(Device):
    """Runs programs on the Verilated design of ``config``, cycle by cycle.

    ``wave``: a ``.fst`` or ``.vcd`` file that takes the waveform of everything run (many times slower).
    ``disturbance``: what the DRAM does beyond the timing contract. ``build_progress`` gets the steps of a
    build, if one is needed; by default they are printed to the error stream.
    """

    name: ClassVar[str] = "rtl"
    overlaps: ClassVar[bool] = True
    shares = True

    def __init__(
        self,
        config: Config,
        wave: str | Path | None = None,
        disturbance: Disturbance | None = None,
        build_progress: Progress | None = None,
    ) -> None:
        super().__init__(config)
        kind = "" if wave is None else Path(wave).suffix.removeprefix(".")
        if wave is not None and kind not in ("fst", "vcd"):
            raise DeviceError(f"{self}: {wave}: a waveform file ends in .fst or .vcd")
        self.order = DramOrder(config)
        self._working: list[Allocation] = []  #: what each core that works runs
        library = design_library(config, kind, build_progress or on_error_stream(self.name))
        self._model = DesignModel(library, config.dram_latency)
        self._drivers = [Driver(self._model, config, core) for core in range(config.cores)]
        if disturbance is not None:
            self._model.disturb(disturbance)
        if wave is not None:
            self._model.open_wave(Path(wave))

    def close(self) -> None:
        """End the model and finish its waveform."""
        self._model.close()

    def _allocate(self, program: Program, inferences: int) -> _State:
        memories = segment_memories(program, inferences, self.order)
        others = range(1, min(self.config.cores, inferences))
        return _State([memories, *(own_scratch(program, memories) for _ in others)])

    def _memory(self, allocation: Allocation, segment: int, written: bool = False) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        return state.memories[0][segment]

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Write the registers and start; the clock runs in :meth:`wait`."""
        state: _State = allocation.state
        state.together = False
        chosen = shares(inferences, self.config.cores)
        self._start([(allocation, state.memories[core], *share) for core, share in enumerate(chosen)])

    def _run_together(self, allocations: Sequence[Allocation], inferences: int) -> bool:
        if len(allocations) > self.config.cores:
            return False
        for allocation in allocations:
            allocation.state.together = True
        joined = any(has_shared(allocation.program) for allocation in allocations)
        for first, count in [(k, 1) for k in range(inferences)] if joined else [(0, inferences)]:
            if joined and self.config.cores > 1:
                self._drivers[0].write("DOORBELLS", 0)
            self._start([(allocation, allocation.state.memories[0], first, count) for allocation in allocations])
            self._clock(None)
            for allocation in allocations:
                self._check(allocation)
        return True

    def _share(self, allocation: Allocation, segment: int, other: Allocation, its: int) -> None:
        allocation.state.memories[0][segment] = other.state.memories[0][its]

    def _start(self, work: Sequence[tuple[Allocation, list[NDArray[np.uint8]], int, int]]) -> None:
        """Start each core on its work: a program, its segments, the first inference and how many."""
        cores, self._working = self.config.cores, [allocation for allocation, *_ in work]
        if cores > 1:
            self._model.limit(self.config.dram_bandwidth)
        bound = sum(cycle_bound(allocation.program) for allocation in self._working)
        for driver, (allocation, memories, first, count) in zip(self._drivers, work):
            program = allocation.program
            allocation.state.results = {}
            # at worst the cores move their beats, or wait for each other, in turns
            watchdog = min(max(cores * cycle_bound(program), bound), LONGEST)
            views = [m[first * s.repeat_stride :] for s, m in zip(program.segments, memories)]
            driver.prepare(program, views, count, watchdog)
        for driver, _ in zip(self._drivers, work):
            driver.write("CONTROL", 1 << Control.START)

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Clock the design until the launch has finished. An interruption resets it."""
        reported = self._clock(progress)
        self._check(allocation)
        if progress is not None and inferences > reported:
            progress(inferences - reported)

    def _clock(self, progress: Advance | None) -> int:
        """Clock the design until all that works has ended; how many inferences ``progress`` was told of."""
        reported, results, working = 0, dict[int, RunResult](), self._drivers[: len(self._working)]
        try:
            while len(results) < len(working):
                pending = [driver for driver in working if driver.core not in results]
                if self._model.run(LOOK_CYCLES):
                    for driver in pending:
                        if driver.interrupts():
                            allocation = self._working[driver.core]
                            results[driver.core] = driver.result(allocation.program)
                            allocation.state.results[driver.core] = results[driver.core]
                elif progress is not None:
                    finished = sum(r.completed for r in results.values()) + sum(d.read("COMPLETED") for d in pending)
                    if finished > reported:
                        progress(finished - reported)
                        reported = finished
        except BaseException:
            self._model.reset()  # the next launch starts afresh
            raise
        return reported

    def _check(self, allocation: Allocation) -> None:
        """Raise the fault that a core ended with."""
        for _, result in sorted(allocation.state.results.items()):
            if result.fault is not None:
                raise fault(self, allocation.program, result.fault.name, result.fault_instruction)

    def _counters(self, allocation: Allocation) -> Counters:
        """Cycles, traffic and stalls of the first core's latest inference, events of its first."""
        state: _State = allocation.state
        results = state.results
        result = results[min(results)]
        return Counters(
            cycles=result.cycles,
            read_bytes=result.read_bytes,
            write_bytes=result.write_bytes,
            stalls=register_stalls(result.counters),
            events=Events(result.dispatch, result.issue, result.retire),
            cores=self.config.cores if state.together else len(results),
            together=state.together,
            interval=side_by_side([r.cycles for r in results.values()]) if len(results) > 1 else None,
        )

    def _cancel(self, allocation: Allocation) -> None:
        self._model.reset()
