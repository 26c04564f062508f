"""Where the bytes of a segment lie in DRAM.

A core of one memory port finds them in their order. Of two ports, each with bursts of its own, a beat's even word must
come over the first and its odd word over the second, and AXI has no bursts with a stride. So DRAM is cut into *blocks*,
as many beats as the longest burst has; in each block all even words lie before all odd ones. No burst crosses a
multiple of the longest burst, so to each burst of the core belongs one of as many beats in either half of a block.
Blocks divide pages, so a segment begins with one and takes no more pages than else. Addresses, limits and strides in
instructions and registers are as for one port; only who else looks at a segment, the host, must know of blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config

Bytes = NDArray[np.uint8]


class DramOrder:
    """Carries bytes between the order in which programs and hosts think of them and that in a Config's DRAM."""

    def __init__(self, config: Config) -> None:
        self.ports = config.axi_ports
        self.block = config.burst_beats * config.beat_bytes if self.ports > 1 else 1  #: bytes
        item = min(8, config.axi_bits // 8)  # bytes that NumPy moves at once
        self._item = np.dtype(f"u{item}")
        self._shape = -1, config.burst_beats, self.ports, config.axi_bits // 8 // item

    def whole(self, size: int) -> int:
        """Bytes of DRAM that a segment of ``size`` bytes needs: whole blocks."""
        return -(-size // self.block) * self.block

    def arranged(self, data: Bytes) -> Bytes:
        """A copy in DRAM's order, zeros behind it up to whole blocks."""
        memory = np.zeros(self.whole(data.size), np.uint8)
        self.write(memory, 0, data)
        return memory

    def write(self, memory: Bytes, begin: int, data: Bytes) -> None:
        """Write bytes from number ``begin`` on into ``memory``, which begins with a block and has whole ones."""
        if self.ports == 1:
            memory[begin : begin + data.size] = data
            return
        first, end = begin // self.block * self.block, self.whole(begin + data.size)
        if (first, end) != (begin, begin + data.size):  # bytes beside it keep their values
            around = self.read(memory, first, end - first)
            around[begin - first :][: data.size] = data
            data = around
        self._beats(memory[first:end])[:] = np.ascontiguousarray(data).view(self._item).reshape(self._shape)

    def read(self, memory: Bytes, begin: int, size: int) -> Bytes:
        """A copy of ``size`` bytes from number ``begin`` on, out of ``memory``."""
        if self.ports == 1:
            return memory[begin : begin + size].copy()
        first, end = begin // self.block * self.block, self.whole(begin + size)
        beats: Bytes = self._beats(memory[first:end]).flatten().view(np.uint8)
        return beats[begin - first :][:size]

    def write_stack(self, memory: Bytes, begin: int, stride: int, rows: Bytes) -> None:
        """Write row k of ``rows``, (N, size), from byte ``begin + k * stride`` on."""
        for k, row in enumerate(rows):
            self.write(memory, begin + k * stride, row)

    def read_stack(self, memory: Bytes, begin: int, stride: int, count: int, size: int) -> Bytes:
        """(count, size): the bytes that :meth:`write_stack` writes."""
        return np.stack([self.read(memory, begin + k * stride, size) for k in range(count)])

    def _beats(self, memory: Bytes) -> NDArray[Any]:
        """Whole blocks as (block, beat, port, part of the word), in place."""
        blocks, beats, ports, parts = self._shape
        return memory.view(self._item).reshape(blocks, ports, beats, parts).swapaxes(1, 2)


#: bytes in their order: of a core with one port, and of devices whose memory no port reads
PLAIN = DramOrder(Config())
