"""The accelerator's registers through an MMIO window: by name, and a whole set with only what changed written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.isa import registers as register_map
from tilewright.isa.registers import Control, counter_registers
from tilewright.isa.spec import Engine

Word = tuple[int, int]  #: (32-bit word of the window, value)

#: counters of a whole run, in address order
RUN_COUNTERS = ("CYCLES_LOW", "CYCLES_HIGH", "FETCH_BEATS", "LOAD_BEATS", "STORE_BEATS")


class Registers:
    """Registers of one core, and those that all share. Every access is one aligned 32-bit transfer, as AXI4-Lite wants.

    ``window``: PYNQ's ``MMIO.array``, an array of 32-bit words.
    """

    def __init__(self, window: Any, config: Config, core: int = 0) -> None:
        self._window = window
        self._words = {name: offset // 4 for name, offset in register_map.offsets(config, core).items()}
        self._known: dict[int, int] = {}  # what the hardware holds, as far as it was written from here
        self._last: object = None  # the set of the last update, which need not be looked at again
        self._control, self._status = self._words["CONTROL"], self._words["STATUS"]
        blocks = [RUN_COUNTERS, *(tuple(r.name for r in counter_registers(engine)) for engine in Engine)]
        self._blocks = [(names, self._words[names[0]]) for names in blocks]

    def read(self, name: str) -> int:
        """A register by name."""
        return int(self._window[self._words[name]])

    def read_wide(self, name: str) -> int:
        """A value in a pair of registers ``NAME_LOW``, ``NAME_HIGH``."""
        return self.read(f"{name}_HIGH") << 32 | self.read(f"{name}_LOW")

    def write(self, name: str, value: int) -> None:
        """Set a register by name, whatever it holds."""
        self.put(self._words[name], value)

    def put(self, word: int, value: int) -> None:
        """Set a register by its word, whatever it holds."""
        self._window[word] = value
        self._known[word] = value
        self._last = None

    def change(self, word: int, value: int) -> None:
        """Set a register by its word unless it holds the value. Not for those in a set for :meth:`update`."""
        if self._known.get(word) != value:
            self._window[word] = value
            self._known[word] = value

    def word(self, name: str, value: int) -> Word:
        """A register with its value, ready for :meth:`update`."""
        return self._words[name], value

    def wide_words(self, name: str, value: int) -> tuple[Word, Word]:
        """The pair of registers ``NAME_LOW``, ``NAME_HIGH``, ready for :meth:`update`."""
        return self.word(f"{name}_LOW", value & 0xFFFFFFFF), self.word(f"{name}_HIGH", value >> 32)

    def update(self, words: tuple[Word, ...]) -> None:
        """Write the registers that do not hold their value yet."""
        if words is self._last:
            return
        known = self._known
        for word, value in words:
            if known.get(word) != value:
                self._window[word] = value
                known[word] = value
        self._last = words

    def forget(self) -> None:
        """Nothing is known of what the registers hold: after a reset, or when others may have written them."""
        self._known.clear()
        self._last = None

    def command(self, control: Control) -> None:
        """Set one bit of CONTROL, which acts at once."""
        self._window[self._control] = 1 << control

    def status(self) -> int:
        """STATUS."""
        return int(self._window[self._status])

    def counters(self) -> dict[str, int]:
        """:data:`RUN_COUNTERS` and every engine's counters, by register name."""
        window = self._window
        values: dict[str, int] = {}
        if isinstance(window, np.ndarray):  # half the time; tolist reads one word after another, as it must be here
            for names, first in self._blocks:
                values.update(zip(names, window[first : first + len(names)].tolist()))
        else:
            for names, first in self._blocks:
                values.update((name, int(window[first + k])) for k, name in enumerate(names))
        return values
