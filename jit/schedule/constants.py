"""Chunks of constants while a schedule is made: which is next, where it lies in ``wgt`` and ``prm``, and since when."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.config import Config
from tilewright.jit.kernels.base import Chunk, Node
from tilewright.jit.schedule.actions import LoadChunk
from tilewright.jit.schedule.memory import Pool
from tilewright.jit.schedule.order import chunk_order


class Constants:
    """The constants of nodes, loaded in one order, and freed after the last task that uses them."""

    def __init__(self, config: Config, nodes: Sequence[Node]) -> None:
        self._config, self._nodes = config, nodes
        self._last = [{t.chunk: i for i, t in enumerate(node.tasks)} for node in nodes]
        self._queue = chunk_order(nodes)
        self._time: dict[tuple[int, int], float] = {}
        self._at: dict[tuple[int, int], tuple[int, int]] = {}
        self._wgt, self._prm = Pool(config.wgt_entries), Pool(config.prm_entries)
        self._latest = -1  #: the last node of which a chunk was loaded
        self.fault: tuple[str, str] | None = None  #: the memory that was last too full, and for which node

    @property
    def loaded(self) -> int:
        """The last node that may start: constants are loaded in order, so no later one can."""
        return self._latest if self._queue else len(self._nodes) - 1

    @property
    def next(self) -> Chunk | None:
        """What is loaded next; None once everything is."""
        return self._nodes[self._queue[0][0]].chunks[self._queue[0][1]] if self._queue else None

    def size(self, chunk: Chunk) -> int:
        """Bytes of a chunk."""
        return chunk.entries * self._config.wgt_entry_bytes + len(chunk.prm) * self._config.prm_entry_bytes

    def place(self) -> LoadChunk | None:
        """The next chunk gets its places; None if there is no room."""
        node, index = self._queue[0]
        chunk = self._nodes[node].chunks[index]
        wgt = self._wgt.take(chunk.entries, chunk.align) if chunk.entries else 0
        if wgt is None:
            self.fault = ("wgt", self._nodes[node].name)
            return None
        prm = self._prm.take(len(chunk.prm)) if len(chunk.prm) else 0
        if prm is None:
            if chunk.entries:
                self._wgt.release(wgt, chunk.entries)
            self.fault = ("prm", self._nodes[node].name)
            return None
        self._queue.pop(0)
        self._latest = max(self._latest, node)
        self._at[node, index] = (wgt, prm)
        return LoadChunk(node, index, wgt, prm)

    def arrive(self, load: LoadChunk, time: float) -> None:
        """A placed chunk is there at ``time``."""
        self._time[load.node, load.chunk] = time

    def ready(self, node: int, chunk: int) -> float | None:
        """When a chunk is there; None if it is not loaded yet."""
        return self._time.get((node, chunk))

    def done(self, node: int, task: int) -> None:
        """A node's task has run: where it was the last to use its chunk, there is room again."""
        index = self._nodes[node].tasks[task].chunk
        if self._last[node][index] != task:
            return
        chunk, (wgt, prm) = self._nodes[node].chunks[index], self._at[node, index]
        if chunk.entries:
            self._wgt.release(wgt, chunk.entries)
        if len(chunk.prm):
            self._prm.release(prm, len(chunk.prm))
