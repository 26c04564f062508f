"""Buffers for a program's DRAM segments, as every device with memory of its own in this process wants them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.program import Program


def segment_memories(program: Program, inferences: int) -> list[NDArray[np.uint8]]:
    """One zeroed uint8 array per segment that holds all inferences, its constants filled in for each of them."""
    memories = []
    for segment in program.segments:
        copies = inferences if segment.repeat_stride else 1
        memory = np.zeros(segment.size + (copies - 1) * segment.repeat_stride, np.uint8)
        if segment.data is not None:
            content = np.frombuffer(segment.data, np.uint8)
            for k in range(copies):
                memory[k * segment.repeat_stride :][: content.size] = content
        memories.append(memory)
    return memories
