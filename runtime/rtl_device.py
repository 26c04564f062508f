"""The ``rtl`` device: the Verilated design behind the :class:`Device` interface, built on first use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver, RunResult
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.program import Program
from tilewright.progress import Advance, Progress, on_error_stream
from tilewright.runtime.device_base import Allocation, Counters, Device, DeviceError, Events, fault
from tilewright.runtime.segments import segment_memories
from tilewright.runtime.stalls import register_stalls

LOOK_CYCLES = 1 << 17  #: cycles between looks at how many inferences are finished


@dataclass
class _State:
    """One allocation: whole segments, all inferences, and the result of the last launch."""

    memories: list[NDArray[np.uint8]]
    result: RunResult | None = field(default=None)


class RtlDevice(Device):
    """Runs programs on the Verilated design of ``config``, cycle by cycle.

    ``wave``: a ``.fst`` or ``.vcd`` file that takes the waveform of everything run (many times slower).
    ``disturbance``: what the DRAM does beyond the timing contract. ``build_progress`` gets the steps of a
    build, if one is needed; by default they are printed to the error stream.
    """

    name: ClassVar[str] = "rtl"

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
        library = design_library(config, kind, build_progress or on_error_stream(self.name))
        self._model = DesignModel(library, config.dram_latency)
        self._driver = Driver(self._model, config)
        if disturbance is not None:
            self._model.disturb(disturbance)
        if wave is not None:
            self._model.open_wave(Path(wave))

    def close(self) -> None:
        """End the model and finish its waveform."""
        self._model.close()

    def _allocate(self, program: Program, inferences: int) -> _State:
        return _State(segment_memories(program, inferences))

    def _memory(self, allocation: Allocation, segment: int) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        return state.memories[segment]

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Write the registers and start; the clock runs in :meth:`wait`."""
        state: _State = allocation.state
        self._driver.start(allocation.program, state.memories, inferences, cycle_bound(allocation.program))

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Clock the design until the launch has finished. An interruption resets it."""
        reported = 0
        try:
            while not self._driver.finish(LOOK_CYCLES):
                finished = self._driver.read("COMPLETED")
                if progress is not None and finished > reported:
                    progress(finished - reported)
                    reported = finished
            result = self._driver.result(allocation.program)
        except BaseException:
            self._model.reset()  # the next launch starts afresh
            raise
        if result.fault is not None:
            raise fault(self, allocation.program, result.fault.name, result.fault_instruction)
        allocation.state.result = result
        if progress is not None and inferences > reported:
            progress(inferences - reported)

    def _counters(self, allocation: Allocation) -> Counters:
        """Cycles, traffic and stalls of the latest inference, events of the first."""
        result = allocation.state.result
        return Counters(
            cycles=result.cycles,
            read_bytes=result.read_bytes,
            write_bytes=result.write_bytes,
            stalls=register_stalls(result.counters),
            events=Events(result.dispatch, result.issue, result.retire),
        )

    def _cancel(self, allocation: Allocation) -> None:
        self._model.reset()
