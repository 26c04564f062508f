"""What one step computes: GEMMs or RESCALEs of its piece, and REQUANTIZEs of finished accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tilewright.config import Config
from tilewright.isa.spec import Combine
from tilewright.jit.kernels.base import Uop, split_evenly
from tilewright.jit.tiled.geometry import Patch, Piece, Tile
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, Run, TiledLayer
from tilewright.jit.tiled.windows import WindowLayer
from tilewright.jit.writer import InstructionWriter


class Part(NamedTuple):
    """Rows [top, bottom) and columns [left, right) of a tile, whose accumulators lie in one bank of acc.

    ``flat``: pixels [left, right) of the tile counted through its rows; there is one row then.
    """

    top: int
    bottom: int
    left: int
    right: int
    flat: bool

    @property
    def rows(self) -> int:
        return self.bottom - self.top

    @property
    def columns(self) -> int:
        return self.right - self.left


def parts_of(tile: Tile, units: int, layer: TiledLayer) -> list[Part]:
    """A tile with ``units`` accumulators a pixel, cut to banks of acc."""
    config = layer.config
    if layer.flat:
        pixels = split_evenly(tile.rows * tile.columns, config.acc_bank_units // units)
        return [Part(0, 1, a, b, True) for a, b in pixels]
    rows = split_evenly(tile.rows, config.acc_bank_units // ((tile.columns + layer.lead) * units))
    return [Part(a, b, 0, tile.columns, False) for a, b in rows]


class Place(NamedTuple):
    """Where a block lies in act: first unit, and the wrap region's fields (all of act, so nothing wraps)."""

    base: int
    wrap: dict[str, int]


class Worker:
    """Writes the work of steps."""

    def __init__(self, writer: InstructionWriter, config: Config) -> None:
        self._writer, self.config = writer, config

    def gemm(
        self, layer: GemmLayer, piece: Piece, runs: Sequence[Run], lo: int, units: int, part: Part, patch: Patch,
        source: Place, wgt: int, acc: int,
    ) -> None:  # fmt: skip
        """Add a piece of the vectors from ``lo`` on to a part's accumulators, ``units`` of them a pixel."""
        c, window = self.config, layer.window
        step_y, step_x = window.strides[0] * patch.stride, window.strides[1] * patch.units
        start = source.base + part.left * step_x + part.top * step_y
        for run in runs:
            uops = self._uops(layer, piece, run, patch)
            dst = acc + (run.first - lo) * c.out_units
            common = {"dst_inner": units, "src_inner": step_x, "inner": part.columns, **source.wrap}
            if run.count == 1:
                self._writer.gemm(
                    uops, **common, outer=part.rows, dst=dst, dst_outer=part.columns * units, src=start,
                    src_outer=step_y, wgt=wgt + run.entry,
                )  # fmt: skip
                continue
            for row in range(part.rows):
                self._writer.gemm(
                    uops, **common, outer=run.count, dst=dst + row * part.columns * units, dst_outer=c.out_units,
                    src=start + row * step_y, src_outer=run.shift * c.in_units, wgt=wgt + run.entry,
                    wgt_outer=run.step,
                )  # fmt: skip

    def _uops(self, layer: GemmLayer, piece: Piece, run: Run, patch: Patch) -> list[Uop]:
        step, (dy, dx) = self.config.in_units, layer.window.dilation
        uops: list[Uop] = []
        for tap in range(piece.taps):
            ky, kx = divmod(tap, piece.kx_end - piece.kx)
            for k, block in enumerate(run.blocks):
                offset = ky * dy * patch.stride + kx * dx * patch.units + block * step - piece.unit
                entry = k if layer.blocks.shared else len(uops)
                uops.append((0, offset, entry, int(bool(uops) or not run.begins)))
        return uops

    def windows(
        self, layer: WindowLayer, piece: Piece, units: int, part: Part, patch: Patch, source: Place, wgt: int, acc: int
    ) -> None:
        """Add a piece to a part's accumulators in window mode, row by row."""
        columns = part.columns + layer.lead
        for row in range(part.rows):
            self._writer.gemm(
                layer.uops(piece, patch), window=1, pace=int(layer.paced(piece.ky_end - piece.ky)), outer=units,
                inner=columns, dst=acc + row * columns * units, dst_outer=1, dst_inner=units,
                src=source.base + (part.top + row) * layer.window.strides[0] * patch.stride, src_outer=1,
                src_inner=layer.window.strides[1] * patch.units, wgt=wgt, wgt_outer=0 if layer.shared else 1,
                **source.wrap,
            )  # fmt: skip

    def rescale(
        self, layer: AluLayer, piece: Piece, begins: bool, units: int, part: Part, patch: Patch, source: Place,
        prm: dict[object, int], acc: int,
    ) -> None:  # fmt: skip
        """Join a piece's terms with a part's accumulators; ``prm``: the entry of each scale."""
        c, window = self.config, layer.window
        step_y, step_x = window.strides[0] * patch.stride, window.strides[1] * patch.units
        vectors = units // c.out_units
        for number, (term, ky, kx) in enumerate(layer.terms_of(piece)):
            first = begins and number == 0
            start = source.base + (part.top * window.strides[0] + ky) * patch.stride
            start += (part.left * window.strides[1] + kx) * patch.units
            common = {
                "rounding": int(term.scale.rounding), "prm": prm[term.scale],
                "combine": int(Combine.WRITE if first else term.combine), **source.wrap,
            }  # fmt: skip
            if vectors == 1:
                self._writer.rescale(
                    **common, outer=part.rows, inner=part.columns, src=start, src_outer=step_y, src_inner=step_x,
                    dst=acc, dst_outer=part.columns * units, dst_inner=units,
                )  # fmt: skip
                continue
            for row in range(part.rows):
                self._writer.rescale(
                    **common, outer=part.columns, inner=vectors, src=start + row * step_y, src_outer=step_x,
                    src_inner=c.out_units, dst=acc + row * part.columns * units, dst_outer=units,
                    dst_inner=c.out_units,
                )  # fmt: skip

    def requantize(
        self, layer: TiledLayer, count: int, first: int, pixels: int, units: int, source: int, result: Place, prm: int
    ) -> None:
        """Pixels [first, first + pixels) of a tile from accumulators at ``source``, ``units`` of them a pixel."""
        c = self.config
        self._writer.requantize(
            layer.requants[count], outer=units // c.out_units, inner=pixels, src=source, src_outer=c.out_units,
            src_inner=units, dst=result.base + first * units, dst_outer=c.out_units, dst_inner=units,
            prm=prm, prm_outer=0 if layer.uniform else 1, **result.wrap,
        )  # fmt: skip


def count_runs(layer: TiledLayer, tile: Tile, part: Part) -> list[tuple[int, int, int, int]]:
    """Runs of a part's pixels with one requantisation: (first pixel of the tile, pixels, count, place in acc)."""
    counts = layer.counts_of(tile).reshape(-1)
    first = part.left if part.flat else part.top * tile.columns
    stop = part.right if part.flat else part.bottom * tile.columns
    values = counts[first:stop]
    edges = {0, len(values), *(np.flatnonzero(np.diff(values)) + 1).tolist()}
    if layer.lead:  # rows do not lie side by side
        edges |= set(range(0, len(values), tile.columns))
    return [
        (first + a, b - a, int(values[a]), a + layer.lead * (a // tile.columns + 1))
        for a, b in pairwise(sorted(edges))
    ]  # fmt: skip
