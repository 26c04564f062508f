"""Residency of GEMM's micro-op sequences and of tables: shared by instructions, replaced least recently used first.

After the VTA paper's runtime (arXiv 1807.04188, section 3.2), which generates micro-kernels on demand and
caches them in the on-chip micro-op memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tilewright.config import Config
from tilewright.isa.spec import Engine, uop_depth, uop_width
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.base import Uop
from tilewright.jit.schedule.memory import Pool

Sequence_ = tuple[Uop, ...]
Item = TypeVar("Item", bound=Hashable)


class Resident(Generic[Item]):
    """Where each resident item begins in a memory of ``depth`` entries; ``size``: the entries that one takes."""

    def __init__(self, depth: int, size: Callable[[Item], int], what: str) -> None:
        self.depth, self._size, self._what = depth, size, what
        self._pool = Pool(depth)
        self._resident: OrderedDict[Item, int] = OrderedDict()

    def find(self, item: Item) -> int | None:
        """First entry of a resident item, marked as used; None if it must be loaded."""
        if item in self._resident:
            self._resident.move_to_end(item)
        return self._resident.get(item)

    def place(self, item: Item, name: str) -> int:
        """Make room for an item and register it. Raises PlaceError if it exceeds the memory."""
        size = self._size(item)
        if size > self.depth:
            raise PlaceError(f"{name}: {size} {self._what} exceed the {self.depth} that fit")
        while (start := self._pool.take(size)) is None:
            old, where = self._resident.popitem(last=False)
            self._pool.release(where, self._size(old))
        self._resident[item] = start
        return start


class UopCache(Resident[Sequence_]):
    """Micro-op sequences, which occupy whole AXI beats."""

    def __init__(self, config: Config) -> None:
        self._granule = max(1, config.bus_bits // uop_width(config, Engine.GEMM))
        what = "micro-ops (uop_gemm_bytes)"
        super().__init__(uop_depth(config, Engine.GEMM), lambda uops: self.padded(len(uops)), what)

    def padded(self, count: int) -> int:
        """Micro-ops a sequence of ``count`` occupies."""
        return -(-count // self._granule) * self._granule
