"""Who holds the on-chip memories when: a picture of each memory over time, from a program and one run's events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.isa.codec import rows_of
from tilewright.isa.effects import Access, effects
from tilewright.isa.spec import Memory, entry_bytes, memory_depth
from tilewright.isa.uops import UopMemories
from tilewright.runtime.report.run import ProgramRun

COLUMNS = 600  #: steps of time
#: rows of each memory's picture
PICTURES = {Memory.ACT: 48, Memory.WGT: 24, Memory.ACC: 16, Memory.PRM: 12}


class _Picture:
    """A memory as ``rows`` equal parts. A part belongs to the layer that wrote it last, from then to its last use."""

    def __init__(self, depth: int, rows: int) -> None:
        self.depth, self.rows = depth, min(rows, depth)
        self.spans: list[list[list[int]]] = [[] for _ in range(self.rows)]
        self._owner = np.full(self.rows, -1)
        self._since, self._last = np.zeros(self.rows, np.int64), np.zeros(self.rows, np.int64)

    def read(self, low: int, high: int, end: int) -> None:
        """Addresses ``low`` to ``high`` are used up to step ``end``."""
        parts = self._parts(low, high)
        np.maximum(self._last[parts], end, out=self._last[parts])

    def write(self, low: int, high: int, begin: int, layer: int) -> None:
        """Addresses ``low`` to ``high`` hold a layer's data from step ``begin`` on."""
        parts = self._parts(low, high)
        for part in np.flatnonzero(self._owner[parts] != layer) + parts.start:
            self._close(int(part))
            self._since[part] = begin
        self._owner[parts] = layer
        np.maximum(self._last[parts], begin, out=self._last[parts])

    def close(self) -> None:
        """Take in what is still held."""
        for part in range(self.rows):
            self._close(part)

    def _parts(self, low: int, high: int) -> slice:
        return slice(low * self.rows // self.depth, high * self.rows // self.depth + 1)

    def _close(self, part: int) -> None:
        if self._owner[part] >= 0:
            self.spans[part].append([int(self._since[part]), int(self._last[part]) + 1, int(self._owner[part])])


def memory_pictures(runs: Sequence[ProgramRun]) -> list[dict[str, Any]]:
    """Of each memory its name, bytes, and of each of its parts, lowest addresses first, ``[begin, end, layer]`` in
    :data:`COLUMNS` steps of the run's time; empty where the device gives no events.

    Where a part holds data of several layers, the one that wrote last is shown.
    """
    known = [run for run in runs if run.activity is not None]
    if not known or len(known) < len(runs):
        return []
    config, cycles = known[0].program.config, sum(run.counters.cycles for run in known)
    pictures = {memory: _Picture(memory_depth(config, memory), rows) for memory, rows in PICTURES.items()}
    start = first = 0
    for run in known:
        activity = run.activity
        assert activity is not None
        begin, end, owner = (v.tolist() for v in (activity.begin, activity.retire, activity.layer))
        uops = UopMemories(config, run.program.segments)
        for index, row in enumerate(rows_of(run.program.table())):
            issued, retired = ((start + t[index]) * COLUMNS // max(1, cycles) for t in (begin, end))
            for access in effects(row, uops.step(row), config):
                if access.memory in pictures and not access.column.empty:
                    for low, high in _ranges(access):
                        if access.reads:
                            pictures[access.memory].read(low, high, retired)
                        if access.writes:
                            pictures[access.memory].write(low, high, issued, first + owner[index])
        start, first = start + run.counters.cycles, first + len(run.layers)
    for picture in pictures.values():
        picture.close()
    return [
        {"name": memory.name.lower(), "bytes": picture.depth * entry_bytes(config, memory), "parts": picture.spans}
        for memory, picture in pictures.items()
    ]


def _ranges(access: Access) -> Iterator[tuple[int, int]]:
    """First and last address of what an access touches, in two where it passes the end of a ring."""
    low, high = access.low(), access.high() + access.span - 1
    if not access.wrap_size:
        yield low, high
    elif high < access.wrap_size:
        yield access.wrap_base + low, access.wrap_base + high
    else:
        last = access.wrap_base + access.wrap_size - 1
        yield min(access.wrap_base + low, last), last
        yield access.wrap_base, min(access.wrap_base + high - access.wrap_size, last)
