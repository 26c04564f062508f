"""Allocation of the on-chip memories: a program asks for ranges, and gets the first that is free."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.isa.spec import MEMORIES, Memory
from tilewright.ranges import whole

_HERE = str(Path(__file__).parent)


class BuilderError(TilewrightError):
    """A call of the builder cannot be carried out: file and line, what is wrong with which limit, and the way out."""


def caller() -> str:
    """``file:line`` of the program's source that has called the builder."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def problem(text: str) -> BuilderError:
    """An error with its place in the program's source."""
    return BuilderError(f"{caller()}: {text}")


@dataclass(frozen=True)
class Range:
    """Units of act or acc, or entries of wgt or prm: ``size`` of them from ``start`` on.

    ``range[4:8]`` is a part of it; ``range[4:]`` begins at its fifth.
    """

    memory: Memory
    start: int
    size: int

    def __len__(self) -> int:
        """Its units or entries."""
        return self.size

    def __getitem__(self, part: slice) -> Range:
        """A part of it. Raises :class:`BuilderError` for one that is not within."""
        if not isinstance(part, slice):
            raise problem(f"{self}: take a part by two ends, as in range[4:8]")
        low, high, step = part.start or 0, self.size if part.stop is None else part.stop, part.step
        if step is not None or not 0 <= low <= high <= self.size:
            raise problem(f"{self}: [{low}:{high}] is no part of its {self.size}")
        return Range(self.memory, self.start + low, high - low)

    def __str__(self) -> str:
        return f"{self.memory.name.lower()} {self.start} to {self.start + self.size - 1}"


class Arena:
    """What of one memory is taken. ``align``: ranges begin at multiples of it."""

    def __init__(self, memory: Memory, config: Config, align: int) -> None:
        info = MEMORIES[memory]
        self._memory, self._align, self._unit = memory, align, info.unit
        self._bank, self._banks = info.bank_units(config), info.banks(config)
        self._config, self._used = config, np.zeros(info.depth(config), np.bool_)

    def take(self, size: int, bank: int | None) -> Range:
        """The first free range of this size, in one bank if it is given. Raises :class:`BuilderError`."""
        size = whole("size", size, 1, of=f"{self._unit}s", error=BuilderError)
        low, high = 0, len(self._used)
        if bank is not None:
            low = whole("bank", bank, 0, self._banks - 1, error=BuilderError) * self._bank
            high = low + self._bank
        for start in range(low, high - size + 1, self._align):
            if not self._used[start : start + size].any():
                self._used[start : start + size] = True
                return Range(self._memory, start, size)
        name = self._memory.name.lower()
        where = name if bank is None else f"bank {bank} of {name}"
        raise problem(
            f"{where}: no {size} {self._unit}s in one piece, {int((~self._used[low:high]).sum())} of {high - low} are "
            f"free; use smaller tiles, another bank, or a Config with more {name}_"
            f"{'entries' if self._memory == Memory.PRM else 'bytes'} than {self._config.name}"
        )
