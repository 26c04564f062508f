"""The order of bytes in DRAM, arranged by the compiled library."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.dram_order import DramOrder
from tilewright.runtime.native.calls import address
from tilewright.runtime.native.library import Order, library

Bytes = NDArray[np.uint8]


class CompiledOrder(DramOrder):
    """A :class:`DramOrder` whose stacks the compiled library carries, where there is one."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._struct = Order(config.axi_bits // 8, self.ports, config.burst_beats)

    def write_stack(self, memory: Bytes, begin: int, stride: int, rows: Bytes) -> None:
        native = self._native(memory, begin, stride, *rows.shape)
        if native is None:
            super().write_stack(memory, begin, stride, rows)
            return
        rows, (count, size) = np.ascontiguousarray(rows), rows.shape
        place = address(memory), begin, stride, address(rows), size, count
        native.tilewright_stack_to_dram(ctypes.byref(self._struct), *place)

    def read_stack(self, memory: Bytes, begin: int, stride: int, count: int, size: int) -> Bytes:
        native = self._native(memory, begin, stride, count, size)
        if native is None:
            return super().read_stack(memory, begin, stride, count, size)
        rows = np.empty((count, size), np.uint8)
        place = address(memory), begin, stride, address(rows), size, count
        native.tilewright_stack_from_dram(ctypes.byref(self._struct), *place)
        return rows

    def _native(self, memory: Bytes, begin: int, stride: int, count: int, size: int) -> ctypes.CDLL | None:
        """The library, where all these bytes are there."""
        end = self.whole(begin + (count - 1) * stride + size)
        return library() if memory.flags.c_contiguous and 0 <= begin <= end <= memory.size else None
