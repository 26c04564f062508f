"""What one step computes: GEMMs or RESCALEs of its piece, and REQUANTIZEs of finished accumulators."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tilewright.config import Config
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.spec import Combine
from tilewright.jit.emit.writer import InstructionWriter
from tilewright.jit.kernels.base import Uop
from tilewright.jit.tiled.geometry import Patch, Piece, Tile
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, Run, TiledLayer
from tilewright.jit.tiled.resample import Turn
from tilewright.jit.tiled.steps import Part
from tilewright.jit.tiled.windows import WindowLayer


class Place(NamedTuple):
    """Where a block lies in act: first unit, and the wrap region's fields (all of act, so nothing wraps)."""

    base: int
    wrap: dict[str, int]


class Worker:
    """Writes the work of steps."""

    def __init__(self, writer: InstructionWriter, config: Config) -> None:
        self._writer, self.config = writer, config
        self._sequences: dict[Hashable, tuple[Uop, ...]] = {}

    def prepare(self, layer: GemmLayer | WindowLayer, piece: Piece, runs: Sequence[Run], patch: Patch) -> None:
        """Load the micro-ops of a piece's GEMMs if they are not there."""
        if isinstance(layer, WindowLayer):
            self._writer.resident(tuple(layer.uops(piece, patch)))
            return
        for run in runs:
            for part in self._writer.pieces(self._uops(layer, piece, run, patch)):
                self._writer.resident(tuple(part))

    def gemm(
        self, layer: GemmLayer, piece: Piece, runs: Sequence[Run], lo: int, units: int, part: Part, patch: Patch,
        source: Place, wgt: int, acc: int,
    ) -> None:  # fmt: skip
        """Add a piece of the vectors from ``lo`` on to a part's accumulators, ``units`` of them a pixel."""
        c, (rows, columns) = self.config, layer.window.steps(piece)
        step_y, step_x = rows * patch.stride, columns * patch.units
        if layer.once(piece):
            part = Part(0, 1, 0, 1, True)
        else:
            acc += layer.lead * units
        start = source.base + part.left * step_x + part.top * step_y
        for run in runs:
            uops = self._uops(layer, piece, run, patch)
            dst = acc + (run.first - lo) * c.out_units
            common = {"dst_inner": units, "src_inner": step_x, "inner": part.columns, **source.wrap}
            if run.count <= part.rows:
                for k in range(run.count):
                    self._writer.gemm(
                        uops, **common, outer=part.rows, dst=dst + k * c.out_units, dst_outer=part.columns * units,
                        src=start + k * run.shift * c.in_units, src_outer=step_y, wgt=wgt + run.entry + k * run.step,
                    )  # fmt: skip
                continue
            for row in range(part.rows):
                self._writer.gemm(
                    uops, **common, outer=run.count, dst=dst + row * part.columns * units, dst_outer=c.out_units,
                    src=start + row * step_y, src_outer=run.shift * c.in_units, wgt=wgt + run.entry,
                    wgt_outer=run.step,
                )  # fmt: skip

    def _uops(self, layer: GemmLayer, piece: Piece, run: Run, patch: Patch) -> tuple[Uop, ...]:
        key = (piece, run.blocks, run.begins, layer.window.dilation, layer.blocks.shared, patch.stride, patch.units)
        if key not in self._sequences:
            step, (dy, dx) = self.config.in_units, layer.window.dilation
            uops: list[Uop] = []
            for tap in range(piece.taps):
                ky, kx = divmod(tap, piece.kx_end - piece.kx)
                start = ky * dy * patch.stride + kx * dx * patch.units - piece.unit
                for k, block in enumerate(run.blocks):
                    entry = k if layer.blocks.shared else len(uops)
                    uops.append((0, start + block * step, entry, int(bool(uops) or not run.begins)))
            self._sequences[key] = tuple(uops)
        return self._sequences[key]

    def windows(
        self, layer: WindowLayer, piece: Piece, units: int, part: Part, patch: Patch, source: Place, wgt: int, acc: int
    ) -> None:
        """Add a piece to a part's accumulators in window mode."""
        columns, (step_y, step_x) = part.columns + layer.lead, layer.window.steps(piece)
        src, line, weights = source.base + part.top * step_y * patch.stride, columns * units, 0 if layer.shared else 1
        common = {
            "window": 1, "pace": int(layer.paced(piece.ky_end - piece.ky)), "inner": columns, "dst_inner": units,
            "src_inner": step_x * patch.units, **source.wrap,
        }  # fmt: skip
        uops = layer.uops(piece, patch)
        if units <= part.rows:
            for k in range(units):
                self._writer.gemm(
                    uops, **common, outer=part.rows, dst=acc + k, dst_outer=line, src=src + k,
                    src_outer=step_y * patch.stride, wgt=wgt + k * weights,
                )  # fmt: skip
            return
        for row in range(part.rows):
            self._writer.gemm(
                uops, **common, outer=units, dst=acc + row * line, dst_outer=1, src=src + row * step_y * patch.stride,
                src_outer=1, wgt=wgt, wgt_outer=weights,
            )  # fmt: skip

    def rescale(
        self, layer: AluLayer, piece: Piece, begins: bool, units: int, part: Part, patch: Patch, source: Place,
        prm: dict[object, int], acc: int,
    ) -> None:  # fmt: skip
        """Join a piece's terms with a part's accumulators; ``prm``: the entry of each scale."""
        c, (rows, columns) = self.config, layer.window.steps(piece)
        step_y, step_x = rows * patch.stride, columns * patch.units
        vectors = units // c.out_units
        if layer.product and piece.source:
            acc += part.rows * part.columns * units
        for number, (term, ky, kx) in enumerate(layer.terms_of(piece)):
            first = begins and number == 0
            step_y, step_x = step_y * term.moves[0], step_x * term.moves[1]
            start = source.base + part.top * step_y + ky * patch.stride + part.left * step_x + kx * patch.units
            common = {
                "rounding": int(term.scale.rounding), "prm": prm[term.scale],
                "combine": int(Combine.WRITE if first else term.combine), **source.wrap,
            }  # fmt: skip
            self._writer.rescale(
                vectors, term.scale.table, **common, outer=part.rows, inner=part.columns, src=start,
                src_outer=step_y, src_inner=step_x,
                dst=acc, dst_outer=part.columns * units, dst_inner=units,
            )  # fmt: skip

    def resample(
        self, turns: Sequence[Turn], tile: Tile, units: int, patch: Patch, source: Place, prm: dict[int, int], acc: int
    ) -> None:
        """Part of an output row over a tile's columns; ``prm``: the entry of each product of weights."""
        for turn in turns:
            start = source.base + (turn.y - patch.top) * patch.stride + (turn.x - patch.left) * patch.units
            self._writer.rescale(
                units // self.config.out_units, None, rounding=int(Rounding.SINGLE), prm=prm[turn.weight],
                combine=int(turn.combine), inner=turn.run.count, src=start, src_inner=turn.run.move * patch.units,
                dst=acc + (turn.run.first - tile.left) * units, dst_inner=turn.run.step * units, **source.wrap,
            )  # fmt: skip

    def multiply(self, units: int, part: Part, acc: int) -> None:
        """Multiply a part's first terms with its second ones, which lie behind them."""
        count = part.rows * part.columns * units // self.config.out_units
        self._writer.multiply(
            inner=count, dst=acc, dst_inner=self.config.out_units,
            src=acc + part.rows * part.columns * units, src_inner=self.config.out_units,
        )  # fmt: skip

    def add_once(self, units: int, part: Part, acc: int) -> None:
        """Add what is alike for all pixels of a part, of one row, to their accumulators."""
        step = self.config.out_units
        self._writer.add(
            outer=units // step, inner=part.columns, dst=acc + units, dst_outer=step, dst_inner=units, src=acc,
            src_outer=step,
        )  # fmt: skip

    def join(
        self, layer: AluLayer, sources: Sequence[Place], first: int, pixels: int, units: int, prm: dict[object, int],
        acc: int,
    ) -> None:  # fmt: skip
        """A follower's terms over pixels of a tile; ``sources`` hold the tile's pixels of each input, compact."""
        vectors = units // self.config.out_units
        for number, term in enumerate(layer.terms):
            source = sources[term.index]
            self._writer.rescale(
                vectors, term.scale.table, rounding=int(term.scale.rounding), prm=prm[term.scale],
                combine=int(term.combine if number else Combine.WRITE), inner=pixels,
                src=source.base + first * units, src_inner=units, dst=acc, dst_inner=units, **source.wrap,
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
    first, stop = part.pixels(tile)
    values = counts[first:stop]
    edges = {0, len(values), *(np.flatnonzero(np.diff(values)) + 1).tolist()}
    if layer.lead:  # rows do not lie side by side
        edges |= set(range(0, len(values), tile.columns))
    return [
        (first + a, b - a, int(values[a]), a + layer.lead * (a // tile.columns + 1))
        for a, b in pairwise(sorted(edges))
    ]  # fmt: skip
