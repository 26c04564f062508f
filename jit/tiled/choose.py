"""Which cut of a layer is fastest: memories first, then bus and array cycles by a coarse count."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tilewright.config import Config
from tilewright.isa.spec import LOOP_BITS, instruction_width
from tilewright.jit.kernels.base import split_evenly
from tilewright.jit.tiled.geometry import Cut
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, TiledLayer
from tilewright.jit.tiled.windows import WindowLayer

#: cycles that a step costs beside its work: tokens, and the latency that nothing hides
_STEP = 12
MOST_LOOPS = 1 << LOOP_BITS


class Regions(NamedTuple):
    """Parts of act: patches lie below ``split``, results above, on banks of their own where there is room."""

    split: int


class Chosen(NamedTuple):
    """A cut, the regions of act for it, and the cycles it is thought to take."""

    cut: Cut
    regions: Regions
    cycles: float


def choose(layer: TiledLayer, units: list[int], plan: Config) -> Chosen | None:
    """The best cut for the memories of ``plan``, at most the layer's own, and its regions; None if nothing fits.

    ``units``: units per pixel of each input.
    """
    model = _Model(layer, units, plan)
    for candidates in _levels(layer):
        found = [chosen for cut in candidates if (chosen := model.judge(cut)) is not None]
        if found:
            best = min(found, key=lambda c: c.cycles)
            return best if plan == layer.config else _Model(layer, units, layer.config).judge(best.cut)
    return None


def _sizes(count: int) -> list[int]:
    """Sizes to try: the whole, halves of it, down to 1."""
    result, pieces = [], 1
    while True:
        size = -(-count // pieces)
        result.append(size)
        if size == 1:
            return list(dict.fromkeys(result))
        pieces *= 2


def _levels(layer: TiledLayer) -> Iterator[list[Cut]]:
    """Cuts by how much they take apart; the first level with one that fits is enough."""
    kh, kw = layer.window.kernel
    blocks = _most_blocks(layer)
    rows, columns, vectors = (_sizes(n) for n in (layer.node.height, layer.node.width, layer.vectors))

    def cuts(parts: list[int], kernels: list[tuple[int, int]]) -> list[Cut]:
        return [
            Cut(r, c, v, b, ky, kx, first)
            for r, c, v, b, (ky, kx), first in product(rows, columns, vectors, parts, kernels, (False, True))
        ]

    if isinstance(layer, WindowLayer):
        yield cuts([1], [(size, kw) for size in _sizes(kh)])
        return
    yield cuts(_sizes(blocks)[:3], [(kh, kw)])
    yield cuts(_sizes(blocks), [(kh, kw)])
    yield cuts(_sizes(blocks), [(1, kw)])
    yield cuts(_sizes(blocks), [(1, size) for size in _sizes(kw)])


def _most_blocks(layer: TiledLayer) -> int:
    if not isinstance(layer, GemmLayer):
        return 1
    spans = (layer.span(source, 0, layer.vectors) for source in range(len(layer.sources)))
    return max(span[1] - span[0] for span in spans if span is not None)


class _Model:
    def __init__(self, layer: TiledLayer, units: list[int], config: Config) -> None:
        self.layer, self.units, self.config = layer, units, config
        self.align = max(self.config.in_units, self.config.out_units)
        self.array = layer.array_cycles()
        self._chunks: dict[tuple[int, int], tuple[int, int, int, int, bool]] = {}
        self._lines: dict[tuple[int, int], int] = {}

    def chunk_sizes(self, vectors: int, blocks: int) -> tuple[int, int, int, int, bool]:
        """(most units of a patch's pixel, most weight blocks of a tap, parts of a chunk, all blocks, whole pixels)."""
        key = (vectors, blocks)
        if key in self._chunks:
            return self._chunks[key]
        layer, c = self.layer, self.config
        ranges = split_evenly(layer.vectors, vectors)
        if not isinstance(layer, GemmLayer):
            size = vectors * c.out_units
            blocks_held = [0]
            if isinstance(layer, WindowLayer):
                blocks_held = [1 if layer.shared else (hi - lo) * c.out_units for lo, hi in ranges]
            found = (size, max(blocks_held), len(layer.sources), sum(blocks_held), size == max(self.units))
            self._chunks[key] = found
            return found
        units = entries = parts = total = 0
        whole = True
        for lo, hi in ranges:
            pieces, held = 0, 0
            for source in range(len(layer.sources)):
                span = layer.span(source, lo, hi)
                if span is None:
                    continue
                cuts = split_evenly(span[1] - span[0], blocks)
                pieces += len(cuts)
                size = max(b - a for a, b in cuts)
                units = max(units, size * c.in_units)
                whole = whole and size * c.in_units == self.units[source]
                counts = [len(layer.reads(source, v)) for v in range(lo, hi)]
                held += sum(counts)
                entries = max(entries, sum(min(count, size) for count in counts))
            parts, total = max(parts, pieces), total + held
        self._chunks[key] = (units, entries, parts, total, whole)
        return self._chunks[key]

    def judge(self, cut: Cut) -> Chosen | None:
        layer, c, window = self.layer, self.config, self.layer.window
        units, entries, parts, total, whole = self.chunk_sizes(cut.vectors, cut.blocks)
        height, width = layer.node.height, layer.node.width
        result = cut.vectors * c.out_units
        pixels = cut.rows * cut.columns
        kernel_rows, columns_of_acc = cut.kernel_rows, cut.columns + layer.lead
        if isinstance(layer, WindowLayer):
            kernel_rows = min(kernel_rows, layer.most_rows)
            if columns_of_acc > MOST_LOOPS:
                return None
        kernel_parts = -(-window.kernel[0] // kernel_rows) * -(-window.kernel[1] // cut.kernel_columns)
        parts *= kernel_parts
        flat = layer.flat
        # acc: a row of the tile, or where pieces add up all of it
        if (1 if flat and parts == 1 else columns_of_acc) * result > c.acc_bank_units:
            return None
        if parts > 1 and cut.rows * columns_of_acc * result > c.acc_bank_units:
            return None
        prm = (1 if layer.uniform else cut.vectors) + layer.scale_entries
        if prm > c.prm_entries:
            return None
        shared = isinstance(layer, GemmLayer) and layer.blocks.shared
        taps = 1 if shared or isinstance(layer, WindowLayer) else kernel_rows * cut.kernel_columns
        weights = min(entries, max(c.in_units, c.out_units)) if shared else entries * taps
        if weights > c.wgt_entries:
            return None
        rows, columns = window.extent(cut.rows, cut.columns, kernel_rows, cut.kernel_columns)
        patch, out = self._up(rows * columns * units), self._up(pixels * result)
        regions = self._regions(patch, out)
        if regions is None:
            return None
        double = 2 * patch <= regions.split and 2 * out <= c.act_units - regions.split and 2 * weights <= c.wgt_entries

        tiles = -(-height // cut.rows) * -(-width // cut.columns)
        chunks = -(-layer.vectors // cut.vectors)
        passes = tiles * chunks
        beats = c.act_unit_bytes // c.beat_bytes
        per_channel = not isinstance(layer, GemmLayer) or chunks == 1
        loaded = tiles * parts if cut.tiles_first and parts * patch <= regions.split and not per_channel else (
            passes * parts
        )  # fmt: skip
        if not cut.tiles_first and tiles * parts * patch <= regions.split:
            loaded = tiles * parts if not per_channel else passes * parts
        burst = c.dram_latency / c.outstanding
        row = max(columns * units * beats, burst) if whole else columns * max(units * beats, burst)
        bus = float(loaded * rows * row)
        everything = total * taps * (kernel_parts if not shared else 1)
        again = 1
        if everything > c.wgt_entries and chunks * parts > 1:
            again = tiles if cut.tiles_first or parts > 1 else 1
        bus += again * everything * c.wgt_entry_bytes / c.beat_bytes
        full = result == layer.node.out_units
        written = float(height * width * layer.vectors * c.out_units * beats)
        if not full:
            written = height * width * chunks * max(result * beats, burst)
        lines = (
            1 if flat else cut.rows * (1 + 1 / parts) if isinstance(layer, WindowLayer) else min(cut.rows, cut.vectors)
        )
        moves = (1 if whole else rows) + (1 if full else cut.rows) / parts
        terms = len(layer.terms) if isinstance(layer, AluLayer) else 1
        issued = passes * parts * (lines * terms / parts + moves + 2)
        bus += issued * instruction_width(c) / 8 / c.beat_bytes
        gemm = self.array if isinstance(layer, GemmLayer) else 0
        if isinstance(layer, WindowLayer):
            key = (cut.columns, kernel_rows)
            if key not in self._lines:
                parts_of_line = split_evenly(width, cut.columns)
                self._lines[key] = sum(layer.row_cycles(b - a, kernel_rows) for a, b in parts_of_line)
            line = self._lines[key]
            gemm = height * layer.vectors * c.out_units * line
        alu = height * width * layer.vectors + (self.array if isinstance(layer, AluLayer) else 0)
        bus = max(bus, written)  # channels of their own
        work = max(bus, gemm, alu)
        shared_bank = regions.split % c.act_bank_units > 0  # GEMM waits for a STORE that reads the same bank
        if shared_bank:
            work += min(bus, max(gemm, alu)) / 4
        serial = 0.0 if double else min(bus, max(gemm, alu)) + passes * parts * c.dram_latency
        return Chosen(cut, regions, work + serial + passes * parts * _STEP)

    def _up(self, units: int) -> int:
        return -(-units // self.align) * self.align

    def _regions(self, patch: int, out: int) -> Regions | None:
        """Two of each, the results on banks of their own; else as near to that as there is room."""
        act, bank = self.config.act_units, self.config.act_bank_units
        for patches, outs in ((2, 2), (2, 1), (1, 2), (1, 1)):
            aligned = (act - outs * out) // bank * bank
            for split in (aligned, (act - outs * out) // self.align * self.align):
                if split >= patches * patch:
                    return Regions(split)
        return None
