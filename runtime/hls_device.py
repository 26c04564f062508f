"""The ``hls`` device: the HLS kernels, natively compiled on first use, behind the :class:`Device` interface.

It computes every byte and counts no cycles: how long the kernels take is for the synthesis tool to decide. Of several
cores each takes its share of a launch's inferences, or a program of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.hls.build import build_library
from tilewright.hw.hls.model import KernelModel, Outcome, Work
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program, whole_pages
from tilewright.progress import Advance, Progress, on_error_stream
from tilewright.runtime.activity import count_traffic
from tilewright.runtime.device_base import Allocation, Counters, Device, fault
from tilewright.runtime.segments import own_scratch, segment_memories, shares

#: fault code, and what has happened
_FAULTS = {
    Outcome.SEGMENT_FAULT: ("SEGMENT", "outside its segment"),
    Outcome.TOKEN_MISSING: ("WATCHDOG", "waits for a token that nobody has sent"),
    Outcome.DOORBELL_MISSING: ("WATCHDOG", "waits for a doorbell that nobody rings"),
}


@dataclass(eq=False)
class _State:
    """One allocation: the program and its segments in a DRAM, which those that share memory with it are in too.

    ``program``: its first byte. ``places``: (first byte, bytes) of each whole segment, as each core sees them.
    ``inside``: all that are in its DRAM. ``cores``: how many worked in the last launch.
    """

    dram: NDArray[np.uint8]
    program: int
    places: list[list[tuple[int, int]]]
    inside: list[_State] = field(default_factory=list)
    cores: int = 1
    together: bool = False  #: whether other programs ran beside the last launch

    def move_in(self, other: _State) -> None:
        """Give everybody who is in its own DRAM and in the other's one that holds both."""
        if self.dram is other.dram:
            return
        end = len(other.dram)
        for state in self.inside:
            state.program += end
            state.places = [[(first + end, size) for first, size in places] for places in state.places]
        inside, dram = [*other.inside, *self.inside], np.concatenate([other.dram, self.dram])
        for state in inside:
            state.dram, state.inside = dram, inside


class HlsDevice(Device):
    """Runs programs on the natively compiled HLS kernels of ``config``. :meth:`wait` does the work.

    ``build_progress`` gets the steps of a build, if one is needed; by default they are printed to the error stream.
    """

    name: ClassVar[str] = "hls"
    overlaps: ClassVar[bool] = True
    shares = True

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
        seen = [memories, *(own_scratch(program, memories) for _ in range(1, min(self.config.cores, inferences)))]
        first: dict[int, int] = {}  # of each memory
        end = whole_pages(max(len(program.instructions), 1))
        for memory in (memory for its in seen for memory in its):
            if first.setdefault(id(memory), end) == end:
                end += whole_pages(max(memory.size, 1))
        dram = np.zeros(end, np.uint8)
        self.order.write(dram, 0, np.frombuffer(program.instructions, np.uint8))
        for memory in memories:
            dram[first[id(memory)] :][: memory.size] = memory
        state = _State(dram, 0, [[(first[id(memory)], memory.size) for memory in its] for its in seen])
        state.inside.append(state)
        return state

    def _memory(self, allocation: Allocation, segment: int, written: bool = False) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        first, size = state.places[0][segment]
        return state.dram[first : first + size]

    def _share(self, allocation: Allocation, segment: int, other: Allocation, its: int) -> None:
        state, others = self._held(allocation), self._held(other)
        state.move_in(others)
        state.places[0][segment] = others.places[0][its]

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Only note that it runs alone: :meth:`wait` does the work."""
        state: _State = allocation.state
        state.cores, state.together = min(self.config.cores, inferences), False

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Run the noted inferences, of several cores each its share."""
        chosen = shares(inferences, self.config.cores)
        for turn in range(chosen[0][1]):
            now = [(allocation, core, first + turn) for core, (first, count) in enumerate(chosen) if turn < count]
            self._run(now)
            if progress is not None:
                progress(len(now))

    def _run_together(self, allocations: Sequence[Allocation], inferences: int) -> bool:
        if len(allocations) > self.config.cores:
            return False
        for allocation in allocations:
            allocation.state.cores, allocation.state.together = self.config.cores, True
        for k in range(inferences):
            self._run([(allocation, 0, k) for allocation in allocations])
        return True

    def _run(self, inferences: Sequence[tuple[Allocation, int, int]]) -> None:
        """Run on each core an inference of a program, with the segments as a core of its launch sees them."""
        works = []
        for allocation, seen_by, k in inferences:
            state, program = allocation.state, allocation.program
            segments = [
                (first + k * segment.repeat_stride, segment.size)
                for (first, _), segment in zip(state.places[seen_by], program.segments)
            ]
            works.append(Work(state.dram, state.program, program.instruction_count, segments))
        endings = self._model.run(works)
        # a core that another one's fault leaves waiting is not what to tell of
        for told in (_FAULTS.keys() - {Outcome.DOORBELL_MISSING}, {Outcome.DOORBELL_MISSING}):
            for (allocation, _, _), ending in zip(inferences, endings):
                if ending.outcome in told:
                    code, detail = _FAULTS[ending.outcome]
                    raise fault(self, allocation.program, code, ending.instruction, detail)

    def _counters(self, allocation: Allocation) -> Counters:
        """Traffic of one inference, from the instructions; no cycles."""
        traffic = count_traffic(allocation.program)
        state: _State = allocation.state
        return Counters(
            cycles=0, read_bytes=traffic.read_bytes, write_bytes=traffic.write_bytes, cores=state.cores,
            together=state.together,
        )  # fmt: skip
