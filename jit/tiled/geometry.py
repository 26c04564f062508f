"""Tiles, chunks, pieces and patches: how one layer is cut until each part fits the memories.

An output *tile* is a rectangle of pixels, a *chunk* a range of output vectors. What a tile of a chunk sums over is
cut into *pieces*: part of the kernel over part of one input's channels. The pixels of the input that a piece of a
tile reads are its *patch*, which lies in act as ``[row][column][unit]``; what of it lies outside of the image is
filled with the padding's value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.jit.plan.ranges import split_evenly


class Cut(NamedTuple):
    """How a layer is cut: pixels of a tile, vectors of a chunk, kernel rows, columns and input blocks of a piece.

    ``tiles_first``: all chunks of a tile one after another, else all tiles of a chunk.
    """

    rows: int
    columns: int
    vectors: int
    blocks: int
    kernel_rows: int
    kernel_columns: int
    tiles_first: bool


class Tile(NamedTuple):
    """Output rows [top, bottom) and columns [left, right)."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> int:
        return self.bottom - self.top

    @property
    def columns(self) -> int:
        return self.right - self.left


class Piece(NamedTuple):
    """Kernel rows [ky, ky_end), columns [kx, kx_end), and units [unit, unit_end) of a pixel of input ``source``."""

    source: int
    ky: int
    ky_end: int
    kx: int
    kx_end: int
    unit: int
    unit_end: int

    @property
    def units(self) -> int:
        return self.unit_end - self.unit

    @property
    def taps(self) -> int:
        return (self.ky_end - self.ky) * (self.kx_end - self.kx)


class Patch(NamedTuple):
    """Rows and columns of a tensor from (``top``, ``left``) on, which may lie outside of it, and units of a pixel.

    Only every ``step_y``-th row and every ``step_x``-th column is there.
    """

    tensor: str
    top: int
    left: int
    rows: int
    columns: int
    unit: int
    units: int
    pad_value: int
    step_y: int = 1
    step_x: int = 1

    @property
    def stride(self) -> int:
        """Units from row to row in act."""
        return self.columns * self.units

    @property
    def size(self) -> int:
        return self.rows * self.stride


@dataclass(frozen=True)
class Window:
    """Where the kernel lies over the input: output (y, x) reads from ``y * strides[0] - top`` on."""

    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    top: int = 0
    left: int = 0
    pad_value: int = 0

    @property
    def pointwise(self) -> bool:
        """Whether each output pixel reads the pixel of its own place in the patch."""
        return self.kernel == (1, 1)

    def steps(self, piece: Piece) -> tuple[int, int]:
        """Rows and columns of the patch from output to output: what a single kernel row or column skips is left out."""
        return (
            self.strides[0] if piece.ky_end - piece.ky > 1 else 1,
            self.strides[1] if piece.kx_end - piece.kx > 1 else 1,
        )

    def patch(self, tensor: str, tile: Tile, piece: Piece) -> Patch:
        """What a piece reads for a tile."""
        step_y, step_x = self.steps(piece)
        return Patch(
            tensor,
            tile.top * self.strides[0] - self.top + piece.ky * self.dilation[0],
            tile.left * self.strides[1] - self.left + piece.kx * self.dilation[1],
            (tile.rows - 1) * step_y + (piece.ky_end - piece.ky - 1) * self.dilation[0] + 1,
            (tile.columns - 1) * step_x + (piece.kx_end - piece.kx - 1) * self.dilation[1] + 1,
            piece.unit, piece.units, self.pad_value, self.strides[0] // step_y, self.strides[1] // step_x,
        )  # fmt: skip


def tiles_of(height: int, width: int, cut: Cut) -> list[Tile]:
    """The tiles of an output, row by row."""
    return [
        Tile(top, bottom, left, right)
        for top, bottom in split_evenly(height, cut.rows)
        for left, right in split_evenly(width, cut.columns)
    ]
