"""The order of bytes in DRAM, arranged by the compiled library."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.dram_order import DramOrder
from tilewright.runtime.native.library import Order, library

Bytes = NDArray[np.uint8]


class CompiledOrder(DramOrder):
    """A :class:`DramOrder` that takes a tenth of its instructions; it is the same where there is no library."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._struct = Order(config.axi_bits // 8, self.ports, config.burst_beats)

    def write(self, memory: Bytes, begin: int, data: Bytes) -> None:
        native = self._native(memory, begin, data.size)
        if native is None:
            return super().write(memory, begin, data)
        data = np.ascontiguousarray(data)
        place = memory.ctypes.data, begin, data.ctypes.data, data.size
        native.tilewright_to_dram(ctypes.byref(self._struct), *place)
        return None

    def read(self, memory: Bytes, begin: int, size: int) -> Bytes:
        native = self._native(memory, begin, size)
        if native is None:
            return super().read(memory, begin, size)
        data = np.empty(size, np.uint8)
        native.tilewright_from_dram(ctypes.byref(self._struct), memory.ctypes.data, begin, data.ctypes.data, size)
        return data

    def _native(self, memory: Bytes, begin: int, size: int) -> ctypes.CDLL | None:
        """The library, where it can do more than a copy and these bytes are there."""
        there = self.ports > 1 and memory.flags.c_contiguous and 0 <= begin <= self.whole(begin + size) <= memory.size
        return library() if there else None
