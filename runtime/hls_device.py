"""The ``hls`` device: the HLS kernels, natively compiled on first use, behind the :class:`Device` interface.

It computes every byte and counts no cycles: how long the kernels take is for the synthesis tool to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.hls.build import build_library
from tilewright.hw.hls.model import KernelModel, Outcome
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program, whole_pages
from tilewright.progress import Advance, Progress, on_error_stream
from tilewright.runtime.activity import count_traffic
from tilewright.runtime.device_base import Allocation, Counters, Device, fault
from tilewright.runtime.segments import segment_memories


@dataclass
class _State:
    """One allocation: DRAM with the program at its start and the segments behind.

    ``places``: (first byte, bytes) of each segment, all inferences.
    """

    dram: NDArray[np.uint8]
    places: list[tuple[int, int]]


class HlsDevice(Device):
    """Runs programs on the natively compiled HLS kernels of ``config``. :meth:`wait` does the work.

    ``build_progress`` gets the steps of a build, if one is needed; by default they are printed to the error stream.
    """

    name: ClassVar[str] = "hls"
    overlaps: ClassVar[bool] = True

    def __init__(self, config: Config, build_progress: Progress | None = None) -> None:
        super().__init__(config)
        library = build_library(config, build_progress or on_error_stream(self.name))
        self._model = KernelModel(library, config)
        self.order = DramOrder(config)

    def close(self) -> None:
        """Free the kernels' memories."""
        self._model.close()

    def _allocate(self, program: Program, inferences: int) -> _State:
        program.table()  # refuses what does not decode: the kernels take every instruction for a valid one
        memories = segment_memories(program, inferences, self.order)
        places, end = [], whole_pages(max(len(program.instructions), 1))
        for memory in memories:
            places.append((end, memory.size))
            end += whole_pages(max(memory.size, 1))
        dram = np.zeros(end, np.uint8)
        self.order.write(dram, 0, np.frombuffer(program.instructions, np.uint8))
        for (first, size), memory in zip(places, memories):
            dram[first : first + size] = memory
        return _State(dram, places)

    def _memory(self, allocation: Allocation, segment: int) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        first, size = state.places[segment]
        return state.dram[first : first + size]

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Nothing: :meth:`wait` does the work."""

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Run the noted inferences one after another."""
        state: _State = allocation.state
        program = allocation.program
        for k in range(inferences):
            segments = [
                (first + k * segment.repeat_stride, segment.size)
                for (first, _), segment in zip(state.places, program.segments)
            ]
            ending = self._model.run(state.dram, 0, program.instruction_count, segments)
            if ending.outcome == Outcome.SEGMENT_FAULT:
                raise fault(self, program, "SEGMENT", ending.instruction, "outside its segment")
            if ending.outcome == Outcome.TOKEN_MISSING:
                raise fault(self, program, "WATCHDOG", ending.instruction, "waits for a token that nobody has sent")
            if progress is not None:
                progress(1)

    def _counters(self, allocation: Allocation) -> Counters:
        """Traffic of one inference, from the instructions; no cycles."""
        traffic = count_traffic(allocation.program)
        return Counters(cycles=0, read_bytes=traffic.read_bytes, write_bytes=traffic.write_bytes)
