"""What the micro-op memories hold when an instruction runs, and decoded blocks of micro-ops.

Micro-ops come from constant segments only, so their values are known. Blocks are interned by content:
instructions that run the same micro-kernel share one block, and what is derived from it.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import decode_uops
from tilewright.isa.program import Segment
from tilewright.isa.spec import UOP_FIELDS, Engine, acc_bits, uop_depth, uop_width

_SERIALS = itertools.count()


class Operand:
    """One column of offsets of a block, for the micro-ops (``positions``) that use it; may be empty."""

    def __init__(self, column: NDArray[np.int64], used: NDArray[np.bool_] | None = None) -> None:
        self.serial = next(_SERIALS)  #: names it in caches
        self.column = column  #: offsets of all micro-ops
        if used is None:
            self.positions = np.arange(len(column))
            self.offsets = column
        else:
            self.positions = np.flatnonzero(used)
            self.offsets = column[self.positions]
        self.empty = len(self.offsets) == 0
        self.low = 0 if self.empty else int(self.offsets.min())
        self.high = 0 if self.empty else int(self.offsets.max())


class GemmBlock:
    """Micro-ops of a GEMM instruction. In window mode, those with an all-ones ``dst`` only push."""

    def __init__(self, fields: NDArray[np.int64], window: bool, all_ones: int) -> None:
        dst, src, wgt, accumulate = fields.T
        self.count = len(fields)
        self.emits = dst != all_ones if window else np.ones(len(fields), np.bool_)
        self.src = Operand(src)
        self.dst = Operand(dst, self.emits)
        self.wgt = Operand(wgt, self.emits)
        self.accumulating = Operand(dst, self.emits & (accumulate == 1))
        self.overwriting = Operand(dst, self.emits & (accumulate == 0))
        #: two successive micro-ops emit
        self.adjacent_emits = bool((self.emits[1:] & self.emits[:-1]).any())


class AluBlock:
    """Micro-ops of an ALU-engine instruction."""

    def __init__(self, fields: NDArray[np.int64]) -> None:
        self.count = len(fields)
        self.dst, self.src, self.prm = (Operand(column) for column in np.ascontiguousarray(fields.T))


class UopMemory:
    """Content of one engine's micro-op memory, in program order."""

    def __init__(self, config: Config, engine: Engine) -> None:
        self._config, self._engine = config, engine
        self._type = np.dtype(f"<u{uop_width(config, engine) // 8}")
        self._words = np.zeros(uop_depth(config, engine), self._type)
        self._all_ones = (1 << acc_bits(config)) - 1
        self._blocks: dict[tuple[bytes, bool], GemmBlock | AluBlock] = {}
        self._current: dict[tuple[int, int, bool], GemmBlock | AluBlock] = {}

    def load(self, addresses: NDArray[np.int64], segment: Segment, starts: list[int], cols: int) -> None:
        """Copy rows of ``cols`` micro-ops that start at byte ``starts[row]`` of a constant segment."""
        size = cols * self._type.itemsize
        data = segment.data or b""
        rows = b"".join(data[start : start + size].ljust(size, b"\0") for start in starts)
        self._words[addresses] = np.frombuffer(rows, self._type)
        self._current.clear()

    def gemm(self, begin: int, count: int, window: bool) -> GemmBlock:
        """The micro-ops that a GEMM instruction runs."""
        block = self._block(begin, count, window)
        assert isinstance(block, GemmBlock)
        return block

    def alu(self, begin: int, count: int) -> AluBlock:
        """The micro-ops that an ALU-engine instruction runs."""
        block = self._block(begin, count, False)
        assert isinstance(block, AluBlock)
        return block

    def _block(self, begin: int, count: int, window: bool) -> GemmBlock | AluBlock:
        key = (begin, count, window)
        block = self._current.get(key)
        if block is None:
            content = self._words[begin : begin + count].tobytes()
            block = self._blocks.get((content, window))
            if block is None:
                fields = decode_uops(content, self._engine, self._config)
                assert fields.shape == (count, len(UOP_FIELDS[self._engine]))
                if self._engine == Engine.GEMM:
                    block = GemmBlock(fields, window, self._all_ones)
                else:
                    block = AluBlock(fields)
                self._blocks[content, window] = block
            self._current[key] = block
        return block
