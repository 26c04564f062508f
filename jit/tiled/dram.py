"""Tensors in DRAM as the tiled plan keeps them: ``[row][column][unit]`` without padding, each in one segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import STRIDE_BITS
from tilewright.jit.emit.writer import InstructionWriter
from tilewright.jit.kernels.base import Lattice
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.tiled.geometry import Patch, Tile


@dataclass(frozen=True)
class Stored:
    """A tensor: segment, first beat, rows, columns, units of a pixel."""

    segment: int
    beat: int
    height: int
    width: int
    units: int


class StoredBlocks(NamedTuple):
    """A tensor as GEMM reads weights: its form, segment, and first byte there."""

    form: Blocked
    segment: int
    offset: int


class Dram(NamedTuple):
    """Where everything lies: tensors, and by the names of their forms those that are read as weights."""

    tensors: Mapping[str, Stored]
    blocked: Mapping[str, StoredBlocks]


class _Loop(NamedTuple):
    """``times`` equal pieces, so many units apart in act and in DRAM."""

    times: int
    act: int
    dram: int


def _joined(loops: Sequence[_Loop], cols: int) -> tuple[list[_Loop], int]:
    """The same units in fewer loops (outermost first) around longer runs of ``cols`` units."""
    kept: list[_Loop] = []
    for loop in reversed(loops):
        if loop.times == 1:
            continue
        if not kept and loop.act == loop.dram == cols:
            cols *= loop.times
        elif kept and (loop.act, loop.dram) == (kept[0].times * kept[0].act, kept[0].times * kept[0].dram):
            kept[0] = _Loop(loop.times * kept[0].times, kept[0].act, kept[0].dram)
        else:
            kept.insert(0, loop)
    return kept, cols


@dataclass(frozen=True)
class Mover:
    """Writes the LOADs, FILLs and STOREs that move tiles between act and a tensor.

    ``dram`` tells what they touch in DRAM apart, for hazards: any numbers; None where nobody writes or reads it.
    """

    writer: InstructionWriter
    config: Config

    def load(
        self, patch: Patch, stored: Stored, base: int, wrap: dict[str, int], dram: NDArray[np.int64] | None
    ) -> None:
        """A patch to act at ``base``, with padding where it leaves the image."""
        above, below = _inside(patch.top, patch.rows, patch.step_y, stored.height)
        before, behind = _inside(patch.left, patch.columns, patch.step_x, stored.width)
        if above >= below or before >= behind:
            self._fill(patch, base, 0, patch.rows, 0, patch.columns, wrap)
            return
        self._fill(patch, base, 0, above, 0, patch.columns, wrap)
        self._fill(patch, base, below, patch.rows, 0, patch.columns, wrap)
        self._fill(patch, base, above, below, 0, before, wrap)
        self._fill(patch, base, above, below, behind, patch.columns, wrap)
        row, column = patch.top + above * patch.step_y, patch.left + before * patch.step_x
        loops = [
            _Loop(below - above, patch.stride, patch.step_y * stored.width * stored.units),
            _Loop(behind - before, patch.units, patch.step_x * stored.units),
        ]
        place = base + above * patch.stride + before * patch.units
        first = (row * stored.width + column) * stored.units + patch.unit
        for fields in self._fields(loops, patch.units, place, first, stored):
            self.writer.load_tile({**fields, **wrap}, dram)

    def store(
        self, tile: Tile, stored: Stored, unit: int, units: int, base: int, wrap: dict[str, int],
        dram: NDArray[np.int64] | None, lattice: Lattice,
    ) -> None:  # fmt: skip
        """A tile of ``units`` units a pixel, compact in act at ``base``, to units from ``unit`` on of the pixels of the
        tensor that ``lattice`` says."""
        loops = [
            _Loop(tile.rows, tile.columns * units, lattice.down * stored.width * stored.units),
            _Loop(tile.columns, units, lattice.across * stored.units),
        ]
        row, column = tile.top * lattice.down + lattice.row, tile.left * lattice.across + lattice.column
        first = (row * stored.width + column) * stored.units + unit
        for fields in self._fields(loops, units, base, first, stored):
            self.writer.store_tile({**fields, **wrap}, dram)

    def store_blocks(
        self, tile: Tile, stored: StoredBlocks, unit: int, units: int, base: int, wrap: dict[str, int],
        dram: NDArray[np.int64] | None, lattice: Lattice,
    ) -> None:  # fmt: skip
        """As :meth:`store`, to a tensor that is read as weights. ``lattice`` is of whole rows."""
        for row in range(tile.rows):
            stack = (tile.top + row) * lattice.down + lattice.row
            source = base + row * tile.columns * units
            places = stored.form.placed(stored.offset, stack, tile.left, tile.columns, unit, units, source, units)
            for fields in places:
                self.writer.store_tile({**fields, "segment": stored.segment, **wrap}, dram)

    def _fields(
        self, loops: Sequence[_Loop], cols: int, place: int, first: int, stored: Stored
    ) -> Iterator[dict[str, int]]:
        """The instructions that move these units: the rows of one are the innermost loop if its step fits the field."""
        loops, cols = _joined(loops, cols)
        rows = _Loop(1, 0, 0)
        if loops and self._beats(loops[-1].dram) < 1 << STRIDE_BITS:
            rows = loops.pop()
        for index in product(*(range(loop.times) for loop in loops)):
            act = place + sum(k * loop.act for k, loop in zip(index, loops, strict=True))
            dram = first + sum(k * loop.dram for k, loop in zip(index, loops, strict=True))
            yield {
                "sram": act, "sram_row": rows.act, "sram_col": 1, "rows": rows.times, "cols": cols,
                "segment": stored.segment, "offset": stored.beat + self._beats(dram), "stride": self._beats(rows.dram),
            }  # fmt: skip

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

    def _beats(self, units: int) -> int:
        return units * self.config.act_unit_bytes // self.config.beat_bytes


def _inside(first: int, count: int, step: int, size: int) -> tuple[int, int]:
    """Of ``count`` places from ``first`` on, ``step`` apart, the first and the one behind the last within [0, size)."""
    return min(count, max(0, -(first // step))), max(0, min(count, -(-(size - first) // step)))
