"""The ``sim`` device: the cycle-exact simulator behind the :class:`Device` interface."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.program import Program
from tilewright.progress import Advance
from tilewright.runtime.device_base import Allocation, Counters, Device, Events, fault
from tilewright.runtime.segments import segment_memories
from tilewright.sim import Fault, Functional, TimingResult, simulate_timing

PREPARED_PROGRAMS = 16  #: programs kept ready, so that a device that lives long does not grow
WATCHDOG_CYCLES = 1 << 40  #: a program that is not done by then hangs


@dataclass
class _Prepared:
    """What the simulator works out once per program: its times depend on no data."""

    program: Program
    functional: Functional
    timing: TimingResult | None = None


@dataclass
class _State:
    """One allocation: whole segments, all inferences."""

    prepared: _Prepared
    memories: list[NDArray[np.uint8]]


class SimDevice(Device):
    """Simulates values and cycles. :meth:`launch` only notes the work; :meth:`wait` does it."""

    name: ClassVar[str] = "sim"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._prepared: OrderedDict[int, _Prepared] = OrderedDict()  #: by the program's identity

    def _allocate(self, program: Program, inferences: int) -> _State:
        prepared = self._prepared.get(id(program))
        if prepared is None:
            prepared = self._prepared[id(program)] = _Prepared(program, Functional(program))
            while len(self._prepared) > PREPARED_PROGRAMS:
                self._prepared.popitem(last=False)
        self._prepared.move_to_end(id(program))
        return _State(prepared, segment_memories(program, inferences))

    def _memory(self, allocation: Allocation, segment: int) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        return state.memories[segment]

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Nothing: :meth:`wait` does the work."""

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Simulate the noted runs one after another; the first also counts cycles, once per program."""
        state: _State = allocation.state
        prepared, segments = state.prepared, allocation.program.segments
        if prepared.timing is None:
            timing = simulate_timing(prepared.program, watchdog=WATCHDOG_CYCLES)
            if timing.fault is None:
                prepared.timing = timing
            else:
                raise self._fault(allocation.program, timing.fault)
        for k in range(inferences):
            views = [m[k * s.repeat_stride : k * s.repeat_stride + s.size] for s, m in zip(segments, state.memories)]
            result = prepared.functional.run(views)
            if result.fault is not None:
                raise self._fault(allocation.program, result.fault)
            if progress is not None:
                progress(1)

    def _fault(self, program: Program, found: Fault) -> Exception:
        return fault(self, program, found.code.name, found.instruction, found.message)

    def _counters(self, allocation: Allocation) -> Counters:
        """Cycles, traffic and events of one inference."""
        timing = allocation.state.prepared.timing
        return Counters(
            cycles=timing.cycles,
            read_bytes=timing.dram_read_bytes,
            write_bytes=timing.store_bytes,
            stalls=_stalls(timing),
            events=Events(timing.dispatch, timing.issue, timing.retire),
        )


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
