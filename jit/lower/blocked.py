"""Tensors in DRAM as GEMM reads weights: block of channels by block of channels, pixels in each one behind another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.config import Config
from tilewright.jit.kernels.base import Streamed
from tilewright.jit.plan.layout import Buffer


@dataclass(frozen=True)
class Blocked:
    """``tensor`` of ``height`` stacks of ``width`` pixels in ``blocks`` blocks of BLOCK_IN channels:
    ``[stack][block][pixel][channel of the block]``, the pixels of a stack rounded up to whole vectors of BLOCK_OUT.

    Such a vector of pixels in one block is an entry of wgt. ``packed``: the host packs the tensor so; else its rows,
    ``parts`` to a stack, are stored so as they are made.
    """

    name: str
    tensor: str
    height: int
    width: int
    parts: int
    blocks: int
    config: Config
    packed: bool

    @property
    def vectors(self) -> int:
        """Of each row and block."""
        return -(-self.width // self.config.block_out)

    @property
    def entries(self) -> int:
        return self.height * self.blocks * self.vectors

    def loaded(self, part: Streamed, offset: int) -> dict[str, int]:
        """Fields of the LOAD of some of it; ``offset``: its first byte in the segment."""
        entry = self.config.wgt_entry_bytes // self.config.beat_bytes
        return {
            "rows": part.blocks, "sram_row": 1, "cols": part.hi - part.lo, "sram_col": part.blocks,
            "offset": offset // self.config.beat_bytes + (part.block * self.vectors + part.lo) * entry,
            "stride": self.vectors * entry,
        }  # fmt: skip

    def stored(self, buffer: Buffer, row: int, offset: int) -> Iterator[dict[str, int]]:
        """Fields of the STOREs of a row out of act. Its first pixel stands for those behind a stack's last one."""
        stack, part = divmod(row, self.parts)
        units, begin = self.blocks * self.config.in_units, part * buffer.width
        for fields in self.placed(offset, stack, begin, buffer.width, 0, units, buffer.offset(row), buffer.units):
            yield {**fields, **buffer.wrap}

    def placed(
        self, offset: int, stack: int, begin: int, pixels: int, unit: int, units: int, source: int, pixel: int
    ) -> Iterator[dict[str, int]]:
        """Fields of the STOREs of ``units`` units from ``unit`` on of pixels of a stack from ``begin`` on, which lie in
        act from ``source`` on, ``pixel`` units apart. The first stands for those behind a stack's last pixel."""
        c = self.config
        beats, entry = c.act_unit_bytes // c.beat_bytes, c.wgt_entry_bytes // c.beat_bytes
        first, stride = offset // c.beat_bytes + stack * self.blocks * self.vectors * entry, self.vectors * entry
        behind = -self.width % c.block_out if begin + pixels == self.width else 0
        for column, count, step in (begin, pixels, pixel), (self.width, behind, 0):
            place = first + column * c.in_units * beats
            if c.in_units == 1 and count:
                yield {
                    "sram": source, "sram_row": 1, "sram_col": step, "rows": units, "cols": count,
                    "offset": place + unit * stride, "stride": stride,
                }  # fmt: skip
            for block in range(unit // c.in_units, -(-(unit + units) // c.in_units) if c.in_units > 1 and count else 0):
                low, high = max(unit, block * c.in_units), min(unit + units, (block + 1) * c.in_units)
                yield {
                    "sram": source + low - unit, "sram_row": step, "sram_col": 1, "rows": count, "cols": high - low,
                    "offset": place + block * stride + (low - block * c.in_units) * beats,
                    "stride": c.in_units * beats,
                }  # fmt: skip
