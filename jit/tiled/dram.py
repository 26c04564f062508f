"""Tensors in DRAM as the tiled plan keeps them: ``[row][column][unit]`` without padding, each in one segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import STRIDE_BITS
from tilewright.jit.tiled.geometry import Patch, Tile
from tilewright.jit.writer import InstructionWriter


@dataclass(frozen=True)
class Stored:
    """A tensor: segment, first beat, rows, columns, units of a pixel.

    ``rows_from`` numbers its first row among all rows that programs write, for hazards; None for inputs.
    """

    segment: int
    beat: int
    height: int
    width: int
    units: int
    rows_from: int | None


@dataclass(frozen=True)
class Mover:
    """Writes the LOADs, FILLs and STOREs that move tiles between act and a tensor."""

    writer: InstructionWriter
    config: Config

    def load(self, patch: Patch, stored: Stored, base: int, wrap: dict[str, int]) -> None:
        """A patch to act at ``base``, with padding where it leaves the image."""
        top, bottom = max(0, patch.top), min(stored.height, patch.top + patch.rows)
        left, right = max(0, patch.left), min(stored.width, patch.left + patch.columns)
        inside = top < bottom and left < right
        if not inside:
            self._fill(patch, base, 0, patch.rows, 0, patch.columns, wrap)
            return
        above, below = top - patch.top, bottom - patch.top
        before, behind = left - patch.left, right - patch.left
        self._fill(patch, base, 0, above, 0, patch.columns, wrap)
        self._fill(patch, base, below, patch.rows, 0, patch.columns, wrap)
        self._fill(patch, base, above, below, 0, before, wrap)
        self._fill(patch, base, above, below, behind, patch.columns, wrap)
        place = base + above * patch.stride + before * patch.units
        columns = right - left
        if patch.units == stored.units:
            tile = (bottom - top, patch.stride, columns * patch.units)
            self._load_rows(stored, tile, top, left * stored.units, place, wrap)
            return
        for row in range(top, bottom):
            fields = {
                "sram": place + (row - top) * patch.stride, "sram_row": patch.units if columns > 1 else 0,
                "sram_col": 1, "rows": columns, "cols": patch.units,
                **self._pixels(stored, row, left * stored.units + patch.unit, stored.units if columns > 1 else 0),
                **wrap,
            }  # fmt: skip
            self.writer.load_tile(fields, self._rows(stored, row, row + 1))

    def store(self, tile: Tile, stored: Stored, unit: int, units: int, base: int, wrap: dict[str, int]) -> None:
        """A tile of ``units`` units a pixel, compact in act at ``base``, to units from ``unit`` on of the tensor."""
        if units == stored.units:
            rows, cols, step = tile.rows, tile.columns * units, stored.width * units
            if cols == step:
                rows, cols, step = 1, rows * cols, 0
            if self._beats(step) < 1 << STRIDE_BITS:
                self._store(stored, tile, unit, rows, step, cols, base, wrap)
                return
        for row in range(tile.top, tile.bottom):
            line = Tile(row, row + 1, tile.left, tile.right)
            place = base + (row - tile.top) * tile.columns * units
            self._store(stored, line, unit, tile.columns, stored.units, units, place, wrap)

    def _store(
        self, stored: Stored, tile: Tile, unit: int, rows: int, step: int, cols: int, base: int, wrap: dict[str, int]
    ) -> None:  # fmt: skip
        fields = {
            "sram": base, "sram_row": cols if rows > 1 else 0, "sram_col": 1, "rows": rows, "cols": cols,
            **self._pixels(stored, tile.top, tile.left * stored.units + unit, step if rows > 1 else 0), **wrap,
        }  # fmt: skip
        self.writer.store_tile(fields, self._rows(stored, tile.top, tile.bottom))

    def _load_rows(
        self, stored: Stored, tile: tuple[int, int, int], top: int, unit: int, place: int, wrap: dict[str, int]
    ) -> None:
        """Whole pixels: one LOAD of ``rows`` x ``cols`` units, rows apart by a row of the tensor."""
        rows, stride, cols = tile
        step = stored.width * stored.units
        if cols == step and stride == cols:  # one piece in DRAM and in act
            rows, cols, count = 1, rows * cols, rows
        else:
            count = 1
        if rows > 1 and self._beats(step) >= 1 << STRIDE_BITS:
            for k in range(rows):
                self._load_rows(stored, (1, stride, cols), top + k, unit, place + k * stride, wrap)
            return
        fields = {
            "sram": place, "sram_row": stride if rows > 1 else 0, "sram_col": 1, "rows": rows, "cols": cols,
            **self._pixels(stored, top, unit, step if rows > 1 else 0), **wrap,
        }  # fmt: skip
        self.writer.load_tile(fields, self._rows(stored, top, top + rows * count))

    def _fill(
        self, patch: Patch, base: int, top: int, bottom: int, left: int, right: int, wrap: dict[str, int]
    ) -> None:  # fmt: skip
        if top >= bottom or left >= right:
            return
        rows, cols = bottom - top, (right - left) * patch.units
        fields = {
            "sram": base + top * patch.stride + left * patch.units, "sram_row": patch.stride if rows > 1 else 0,
            "sram_col": 1, "rows": rows, "cols": cols, **wrap,
        }  # fmt: skip
        self.writer.fill_tile(patch.pad_value, fields)

    def _pixels(self, stored: Stored, row: int, unit: int, step: int) -> dict[str, int]:
        """The DRAM fields of a tile that begins at a unit of a row; ``step`` units from one tile row to the next."""
        offset = stored.beat + self._beats(row * stored.width * stored.units + unit)
        return {"segment": stored.segment, "offset": offset, "stride": self._beats(step)}

    def _beats(self, units: int) -> int:
        return units * self.config.act_unit_bytes // self.config.beat_bytes

    @staticmethod
    def _rows(stored: Stored, top: int, bottom: int) -> NDArray[np.int64] | None:
        if stored.rows_from is None:
            return None
        return np.arange(stored.rows_from + top, stored.rows_from + bottom)
