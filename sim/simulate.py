"""One call for both sides of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.program import Program, check_program
from tilewright.ranges import flag
from tilewright.sim.decoded import decode_program
from tilewright.sim.functional import Functional, SimulationError
from tilewright.sim.result import SimResult
from tilewright.sim.timing import simulate_timing


def initial_segments(program: Program) -> list[NDArray[np.uint8]]:
    """Fresh buffers for a program's segments: constants filled in, everything else zero."""
    buffers = []
    for segment in program.segments:
        buffer = np.zeros(segment.size, np.uint8)
        if segment.data is not None:
            buffer[: len(segment.data)] = np.frombuffer(segment.data, np.uint8)
        buffers.append(buffer)
    return buffers


def simulate(
    program: Program,
    segments: Sequence[NDArray[np.uint8]] = (),
    *,
    watchdog: int | None = None,
    functional: bool = True,
    timing: bool = True,
) -> SimResult:
    """Run a program over its DRAM segments (uint8 arrays, changed in place) and count its cycles.

    For many inputs of one program use :class:`Functional` and :func:`simulate_timing` apart: the times are
    the same for all data. With both sides, a watchdog fault is reported although the functional side, which
    knows no time, has run to its end.
    """
    check_program(program)
    flag("functional", functional, error=SimulationError)
    flag("timing", timing, error=SimulationError)
    decoded = decode_program(program)
    timed = simulate_timing(program, watchdog=watchdog, decoded=decoded) if timing else None
    computed = Functional(program, decoded).run(segments) if functional else None
    fault = timed.fault if timed is not None else computed.fault if computed is not None else None
    return SimResult(timed, computed, fault)
