"""What a simulation reports: faults, times, counters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.registers import FaultCode
from tilewright.isa.spec import Engine


@dataclass(frozen=True)
class Fault:
    """A program's end by fault. ``instruction`` is its index, -1 for the watchdog."""

    code: FaultCode
    instruction: int
    message: str


@dataclass(frozen=True)
class EngineCounters:
    """Cycles of one engine; busy + empty + sum(tokens) + drain is the program's ``cycles``.

    Each cycle has one cause, the first that applies: *busy* (from issue until the engine may issue again),
    *empty* (no instruction dispatched to it; also before the first and after the last), *tokens* (by the
    engine whose token is missing; the first in Engine order if several are), *drain* (FILL and WAIT wait for
    the LOADs or STOREs before them to retire).

    Within busy: *bus* counts cycles in which LOAD had a burst to request and FETCH was granted instead, and
    *outstanding* those in which LOAD or STORE was held by the limit of bursts in flight.
    """

    instructions: int
    busy: int
    empty: int
    tokens: dict[Engine, int]
    drain: int
    bus: int = 0
    outstanding: int = 0


@dataclass(frozen=True)
class TimingResult:
    """Times of one run; they never depend on data.

    dispatch, issue, retire: int64 cycles per instruction, -1 where it did not happen.
    """

    cycles: int
    dispatch: NDArray[np.int64]
    issue: NDArray[np.int64]
    retire: NDArray[np.int64]
    fault: Fault | None
    engines: dict[Engine, EngineCounters]
    fetch_bytes: int  #: DRAM bytes read as instructions
    load_bytes: int  #: DRAM bytes read by LOAD
    store_bytes: int  #: DRAM bytes written
    traced: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    #: (instruction, retire cycle) of those with the trace bit, by retire cycle, then Engine
    held: int = 0  #: beats times cycles that the limit which several cores share made wait; 0 for a core alone

    @property
    def dram_read_bytes(self) -> int:
        """All DRAM bytes read, instruction fetch included."""
        return self.fetch_bytes + self.load_bytes


@dataclass(frozen=True)
class FunctionalResult:
    """Counts of one run's work; a dense micro-op makes BATCH x BI x BO multiplies, an emit BATCH x BI x lanes."""

    fault: Fault | None
    gemm_uops: int  #: GEMM micro-ops run
    emits: int  #: those that were window emits


@dataclass(frozen=True)
class SimResult:
    """Both sides of a simulation; a side that was not asked for is None."""

    timing: TimingResult | None
    functional: FunctionalResult | None
    fault: Fault | None

    @property
    def cycles(self) -> int:
        """Cycles of the run. Raises ValueError if timing was not simulated."""
        if self.timing is None:
            raise ValueError("cycles: simulate(..., timing=False) has none")
        return self.timing.cycles
