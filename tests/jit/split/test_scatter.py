"""Tiles cut into tiles: each unit goes where it went, from where it lies now."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.config import PRESETS
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import Memory, Opcode
from tilewright.jit.errors import PlaceError
from tilewright.jit.split.core_program import CoreProgram, Place
from tilewright.jit.split.scatter import PAD, SKIPPED, Tile, tiles_of

PAIRED = PRESETS["tiny"].replace(block_in=8, block_out=8)  #: a unit is two beats


def moved(tile: Tile) -> dict[int, int]:
    """By SRAM offset, what goes there: numbers of units, or the kind of what is none."""
    return {
        tile.sram + r * tile.sram_row + c: tile.first + r * tile.stride + c if tile.first >= 0 else tile.first
        for r in range(tile.rows) for c in range(tile.cols)
    }  # fmt: skip


@given(st.integers(0, 1 << 32))
@settings(max_examples=200, deadline=None)
def test_every_unit_is_moved_once_and_from_its_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width, depth = (int(n) for n in rng.integers(1, 5, 3))
    whole = np.arange(6 * 7 * 5).reshape(6, 7, 5) + int(rng.integers(0, 100))
    units = whole[1 : 1 + height, 2 : 2 + width, :depth]
    top, left, bottom, right = rng.integers(0, 3, 4)
    units = np.pad(units, ((top, bottom), (left, right), (0, 0)), constant_values=PAD)
    units[rng.random(units.shape) < rng.choice([0, 0.1])] = SKIPPED
    line = units.ravel()
    cols = int(rng.integers(1, line.size + 1))
    stride = int(rng.integers(0, cols + 1))
    first = int(rng.integers(0, line.size - cols + 1))
    rows = int(rng.integers(1, (line.size - cols - first) // max(stride, 1) + 2))
    row = SimpleNamespace(
        sram=int(rng.integers(9)), sram_row=cols + int(rng.integers(3)), sram_col=1, rows=rows, cols=cols
    )
    expected = {
        row.sram + r * row.sram_row + c: int(line[first + r * stride + c]) for r in range(rows) for c in range(cols)
    }
    found: dict[int, int] = {}
    for tile in tiles_of(row, line, first, stride):
        own = moved(tile)
        assert len(own) == tile.rows * tile.cols
        assert not own.keys() & found.keys()
        found |= own
    assert found == expected


BEATS = PAIRED.act_unit_bytes // PAIRED.beat_bytes


def of_one_load(**fields: int) -> Program:
    code = [Instruction(Opcode.LOAD, {"memory": int(Memory.ACT), "sram_col": 1, "wrap_size": 64, **fields})]
    return Program(PAIRED, encode(code, PAIRED), (Segment("x", "input", 4096),))


@pytest.mark.parametrize(
    "fields,message",
    [
        ({"cols": 4, "offset": 1}, "moves parts of units"),
        ({"cols": 1, "memory": int(Memory.PRM)}, "moves parts of units"),
        ({"cols": 40}, "are of no tensor"),
        ({"cols": 4, "sram_col": 0}, "has a unit twice"),
    ],
)
def test_what_cannot_be_cut_is_refused(fields: dict[str, int], message: str) -> None:
    assert BEATS == 2
    place = Place(0, 0, 32 * PAIRED.act_unit_bytes, np.where(np.arange(32) == 2, PAD, np.arange(32)))
    with pytest.raises(PlaceError, match=message):
        CoreProgram(PAIRED).part(of_one_load(**fields), [place], 0, 0)
