"""Which banks of act are read until when: STORE and another engine do not read one at a time.

Who comes later in the program waits until the other has retired (:mod:`tilewright.isa.tokens.hazards`). A row takes
STORE long, so what GEMM could do meanwhile in other banks should come first. GEMM and ALU read a bank for short.
"""

from __future__ import annotations

from tilewright.config import Config
from tilewright.isa.timing import STORE_DEPTH, STORE_SETUP, TOKEN_LATENCY
from tilewright.jit.plan.layout import Buffer


class Banks:
    """The banks of act while a schedule is made."""

    def __init__(self, config: Config) -> None:
        self._config, self._units = config, config.act_bank_units
        self._read, self._stored = [0.0] * config.act_banks, [0.0] * config.act_banks
        self._store = 0.0  #: when STORE is free
        self._retired = 0.0  #: when the last STORE has retired

    def of(self, buffer: Buffer, first: int, last: int) -> list[int]:
        """The banks of some rows of a buffer that has its place. Rows are counted with their padding."""
        count = last - max(0, first, last - buffer.capacity + 1) + 1
        end = last % buffer.capacity + 1  # slots are taken from the last row down, and around
        if end >= count:
            return self._between(buffer, end - count, end)
        return self._between(buffer, 0, end) + self._between(buffer, buffer.capacity + end - count, buffer.capacity)

    def _between(self, buffer: Buffer, first: int, end: int) -> list[int]:
        units, stride = self._units, buffer.stride
        return list(range((buffer.base + first * stride) // units, (buffer.base + end * stride - 1) // units + 1))

    def read(self, banks: list[int], end: float) -> None:
        """GEMM or ALU reads these banks until it retires."""
        for bank in banks:
            self._read[bank] = max(self._read[bank], end + TOKEN_LATENCY)

    def store(self, banks: list[int], ready: float, size: int) -> None:
        """STORE takes so many bytes from these banks, as soon as they are ``ready``."""
        start = max([ready, self._store, *(self._read[bank] for bank in banks)])
        self._store = start + STORE_SETUP + size / self._config.beat_bytes
        self._retired = self._store + self._config.dram_latency + STORE_DEPTH + TOKEN_LATENCY
        for bank in banks:
            self._stored[bank] = self._retired

    def free(self, buffer: Buffer, first: int, last: int, ready: float) -> float:
        """When STORE does not read where these rows lie; ``ready`` at the least."""
        if self._retired <= ready:
            return ready
        return max([ready, *(self._stored[bank] for bank in self.of(buffer, first, last))])
