"""Buffers for a program's DRAM segments, as every device with memory of its own in this process wants them.

Several cores, or threads of the simulator, divide the inferences of a launch among them and share all segments but
those that every inference writes anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.dram_order import PLAIN, DramOrder
from tilewright.isa.program import Program, Segment


def segment_memories(program: Program, inferences: int, order: DramOrder = PLAIN) -> list[NDArray[np.uint8]]:
    """One zeroed uint8 array per segment that holds all inferences, its constants filled in for each of them."""
    memories = []
    for segment in program.segments:
        copies = inferences if segment.repeat_stride else 1
        memory = np.zeros(order.whole(segment.size + (copies - 1) * segment.repeat_stride), np.uint8)
        if segment.data is not None:
            content = np.frombuffer(segment.data, np.uint8)
            for k in range(copies):
                order.write(memory, k * segment.repeat_stride, content)
        memories.append(memory)
    return memories


def own_scratch(program: Program, memories: list[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
    """The memories with copies of what all inferences share and write: a legal program reads none of it before that."""
    return [m.copy() if is_scratch(segment) else m for segment, m in zip(program.segments, memories)]


def is_scratch(segment: Segment) -> bool:
    """Whether all inferences write the same bytes of a segment, so that whoever runs beside others needs its own."""
    return not segment.repeat_stride and segment.kind != "constant"


def shares(inferences: int, cores: int) -> list[tuple[int, int]]:
    """(first, how many) of the inferences for each core that gets any, as even as can be."""
    each, more = divmod(inferences, cores)
    counts = [each + (core < more) for core in range(min(inferences, cores))]
    return [(sum(counts[:core]), count) for core, count in enumerate(counts)]


def side_by_side(cycles: list[int]) -> float:
    """Cycles from one result to the next of cores that take so many each."""
    return 1 / sum(1 / max(c, 1) for c in cycles)
