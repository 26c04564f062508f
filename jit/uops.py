"""Residency of GEMM's micro-op sequences: shared between instructions, replaced least recently used first.

After the VTA paper's runtime (arXiv 1807.04188, section 3.2), which generates micro-kernels on demand and
caches them in the on-chip micro-op memory.
"""

from __future__ import annotations

from collections import OrderedDict

from tilewright.config import Config
from tilewright.isa.spec import Engine, uop_depth, uop_width
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.base import Uop
from tilewright.jit.memory import Pool

Sequence_ = tuple[Uop, ...]


class UopCache:
    """Where each resident sequence begins; sequences occupy whole AXI beats."""

    def __init__(self, config: Config) -> None:
        self._granule = max(1, config.axi_bits // uop_width(config, Engine.GEMM))
        self.depth = uop_depth(config, Engine.GEMM)  #: micro-ops that the memory holds
        self._pool = Pool(self.depth)
        self._resident: OrderedDict[Sequence_, int] = OrderedDict()

    def padded(self, count: int) -> int:
        """Micro-ops a sequence of ``count`` occupies."""
        return -(-count // self._granule) * self._granule

    def find(self, uops: Sequence_) -> int | None:
        """First micro-op of a resident sequence, marked as used; None if it must be loaded."""
        if uops in self._resident:
            self._resident.move_to_end(uops)
        return self._resident.get(uops)

    def place(self, uops: Sequence_, name: str) -> int:
        """Make room for a sequence and register it. Raises PlaceError if it exceeds the memory."""
        size = self.padded(len(uops))
        if size > self.depth:
            raise PlaceError(f"{name}: {size} micro-ops exceed the {self.depth} of uop_gemm; raise uop_gemm_bytes")
        while (start := self._pool.take(size)) is None:
            old, where = self._resident.popitem(last=False)
            self._pool.release(where, self.padded(len(old)))
        self._resident[uops] = start
        return start
