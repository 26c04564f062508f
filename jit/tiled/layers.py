"""A node as the tiled plan sees it: its window over the inputs, its constants, and what each piece reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import SAME_BANK_CYCLES, Node, Streamed, prm_entries
from tilewright.jit.kernels.elementwise import Term
from tilewright.jit.plan.ranges import split_evenly
from tilewright.jit.tiled import judge
from tilewright.jit.tiled.blocks import Blocks
from tilewright.jit.tiled.geometry import Cut, Patch, Piece, Tile, Window
from tilewright.jit.tiled.judge import LayerShape


@dataclass(frozen=True)
class Run:
    """Vectors [first, first + count) of a chunk that one GEMM computes, each reading the same pattern of blocks.

    Vector ``first + i`` reads ``blocks`` moved by ``i * shift``; its weights begin ``i * step`` entries behind
    ``entry``. ``begins``: the first piece that adds to these vectors, so that acc is overwritten.
    """

    first: int
    count: int
    blocks: tuple[int, ...]
    shift: int
    entry: int
    step: int
    begins: bool


@dataclass(kw_only=True)
class TiledLayer(ABC):
    """One node. ``vectors`` output vectors are written from unit ``first_unit`` of each pixel of ``output`` on."""

    node: Node
    config: Config
    window: Window
    requants: dict[int, Requant]
    counts: NDArray[np.int64] | None = None  #: which requantisation each output pixel takes; None if all one
    first_unit: int = 0
    vectors: int = 0
    uniform: bool = field(init=False)
    lead: int = field(init=False, default=0)  #: accumulators in front of each row of a tile, which are no pixels'

    def __post_init__(self) -> None:
        self.uniform = all(r.uniform for r in self.requants.values())

    @property
    def sources(self) -> list[str]:
        return self.node.inputs

    @property
    def flat(self) -> bool:
        """Whether pixels of a tile may be counted through its rows."""
        return self.window.pointwise

    @property
    def scale_entries(self) -> int:
        """prm entries that the layer needs beside those of its requantisation."""
        return 0

    @property
    def passes(self) -> int:
        """Passes of ALU over each output."""
        return 1

    @property
    def sums(self) -> int:
        """Accumulators of each output."""
        return 1

    def patch(self, tile: Tile, piece: Piece) -> Patch:
        """What a piece reads for a tile."""
        return self.window.patch(self.sources[piece.source], tile, piece)

    @cached_property
    def array_cycles(self) -> int:
        """Cycles of GEMM over the whole layer, uncut."""
        return 0

    def requant_entries(self, count: int, lo: int, hi: int) -> NDArray[np.int32]:
        """prm entries of the vectors [lo, hi): one for all if uniform."""
        entries = prm_entries(self.requants[count], self.config, self.vectors)
        return entries[:1] if self.uniform else entries[lo:hi]

    def counts_of(self, tile: Tile) -> NDArray[np.int64]:
        """The requantisation of each pixel of a tile (rows, columns)."""
        if self.counts is None:
            return np.full((tile.rows, tile.columns), next(iter(self.requants)), np.int64)
        return self.counts[tile.top : tile.bottom, tile.left : tile.right]

    @abstractmethod
    def pieces(self, lo: int, hi: int, cut: Cut) -> list[Piece]:
        """What the vectors [lo, hi) sum over, in order."""

    def held_as(self, piece: Piece) -> Piece:
        """The piece whose weights those of a piece are, for the same vectors."""
        return piece

    def streamed(self, lo: int, hi: int, piece: Piece) -> Streamed | None:
        """Weights of the vectors [lo, hi) that are a tensor in DRAM, behind those that are constants."""
        return None

    def weight_patches(self, lo: int, hi: int, piece: Piece) -> list[Patch]:
        """Where in its tensor lies what :meth:`streamed` says."""
        return []

    def shape(self, units: Sequence[int]) -> LayerShape:
        """What the choice of a cut looks at, alone; ``units``: units of a pixel of each input, as stored."""
        window, node = self.window, self.node
        row = {
            judge.Layer.HEIGHT: node.height, judge.Layer.WIDTH: node.width, judge.Layer.VECTORS: self.vectors,
            judge.Layer.KERNEL_Y: window.kernel[0],
            judge.Layer.KERNEL_X: window.kernel[1], judge.Layer.STRIDE_Y: window.strides[0],
            judge.Layer.STRIDE_X: window.strides[1], judge.Layer.DILATION_Y: window.dilation[0],
            judge.Layer.DILATION_X: window.dilation[1], judge.Layer.LEAD: self.lead, judge.Layer.FLAT: self.flat,
            judge.Layer.PRM_FIXED: self.scale_entries + self.uniform, judge.Layer.PRM_EACH: not self.uniform,
            judge.Layer.TERMS: 1, judge.Layer.PASSES: self.passes, judge.Layer.SUMS: self.sums,
            **self._numbers(),
        }  # fmt: skip
        numbers = np.array([row.get(column, 0) for column in judge.Layer], np.int64)
        return LayerShape(numbers, self._block_table(), np.array(units, np.int64))

    @abstractmethod
    def _numbers(self) -> dict[judge.Layer, int]:
        """The columns of the layer's row that depend on its kind."""

    def _block_table(self) -> NDArray[np.int64]:
        return np.zeros((len(self.sources), self.vectors, 3), np.int64)

    def _kernel_parts(self, cut: Cut) -> list[tuple[int, int, int, int]]:
        rows = split_evenly(self.window.kernel[0], cut.kernel_rows)
        columns = split_evenly(self.window.kernel[1], cut.kernel_columns)
        return [(*row, *column) for row in rows for column in columns]


@dataclass(kw_only=True)
class GemmLayer(TiledLayer):
    """Sums of weight blocks: every operator that GEMM computes, window mode not used."""

    blocks: Blocks

    @cached_property
    def _reads(self) -> list[list[NDArray[np.int64]]]:
        return [
            [self.blocks.reads(source, vector) for vector in range(self.vectors)] for source in range(len(self.sources))
        ]

    def reads(self, source: int, vector: int) -> NDArray[np.int64]:
        """Blocks of an input that a vector reads."""
        return self._reads[source][vector]

    def once(self, piece: Piece) -> bool:
        """Whether a piece adds the same to all pixels of a tile: then to the accumulator ahead of them alone."""
        return False

    def span(self, source: int, lo: int, hi: int) -> tuple[int, int] | None:
        """First block and the one behind the last that vectors [lo, hi) read of an input."""
        found = [blocks for blocks in self._reads[source][lo:hi] if len(blocks)]
        if not found:
            return None
        return min(int(b[0]) for b in found), max(int(b[-1]) for b in found) + 1

    def pieces(self, lo: int, hi: int, cut: Cut) -> list[Piece]:
        step, result = self.config.in_units, []
        for source in range(len(self.sources)):
            span = self.span(source, lo, hi)
            if span is None:
                continue
            for a, b in split_evenly(span[1] - span[0], cut.blocks):
                first, last = span[0] + a, span[0] + b
                if any(((r >= first) & (r < last)).any() for r in self._reads[source][lo:hi]):
                    result += [
                        Piece(source, *part, first * step, last * step) for part in self._kernel_parts(cut)
                    ]  # fmt: skip
        return result

    def runs(self, lo: int, hi: int, pieces: Sequence[Piece], index: int) -> tuple[list[Run], NDArray[np.int8]]:
        """The GEMMs of piece ``index`` of a chunk, and its weights in their order."""
        piece, c = pieces[index], self.config
        low, high = piece.unit // c.in_units, piece.unit_end // c.in_units
        groups: list[tuple[int, list[tuple[int, ...]], bool]] = []
        for vector in range(lo, hi):
            blocks = tuple(int(b) for b in self._reads[piece.source][vector] if low <= b < high)
            if not blocks:
                continue
            begins = not any(self._adds(p, vector) for p in pieces[:index])
            if groups and self._joins(groups[-1], vector, blocks, begins):
                groups[-1][1].append(blocks)
            else:
                groups.append((vector, [blocks], begins))
        runs: list[Run] = []
        entries: list[NDArray[np.int8]] = []
        known: dict[bytes, int] = {}
        position = 0
        for first, members, begins in groups:
            found = [
                self.blocks.entries(piece.source, first + i, blocks, piece) for i, blocks in enumerate(members)
            ]  # fmt: skip
            alike = all(np.array_equal(found[0], other) for other in found[1:])
            data = found[0] if alike else np.concatenate(found)
            key = data.tobytes()
            if key not in known:
                known[key] = position
                entries.append(data)
                position += len(data)
            shift = members[1][0] - members[0][0] if len(members) > 1 else 0
            step = 0 if alike else len(found[0])
            runs.append(Run(first, len(members), members[0], shift, known[key], step, begins))
        return runs, np.concatenate(entries)

    def _adds(self, piece: Piece, vector: int) -> bool:
        low, high = piece.unit // self.config.in_units, piece.unit_end // self.config.in_units
        reads = self._reads[piece.source][vector]
        return bool(((reads >= low) & (reads < high)).any())

    @staticmethod
    def _joins(
        group: tuple[int, list[tuple[int, ...]], bool], vector: int, blocks: tuple[int, ...], begins: bool
    ) -> bool:
        first, members, same = group
        if vector != first + len(members) or begins != same or len(blocks) != len(members[0]):
            return False
        shift = members[1][0] - members[0][0] if len(members) > 1 else blocks[0] - members[0][0]
        moved = [block + shift * len(members) for block in members[0]]
        return shift >= 0 and list(blocks) == moved

    @cached_property
    def array_cycles(self) -> int:
        taps = self.window.kernel[0] * self.window.kernel[1]
        return self.node.height * self.node.width * taps * int(self._block_table()[:, :, 2].sum())

    def _numbers(self) -> dict[judge.Layer, int]:
        return {
            judge.Layer.KIND: judge.GEMM, judge.Layer.SHARED: self.blocks.shared, judge.Layer.ARRAY: self.array_cycles,
        }  # fmt: skip

    def _block_table(self) -> NDArray[np.int64]:
        return self.blocks.table(len(self.sources), self.vectors)


@dataclass(kw_only=True)
class AluLayer(TiledLayer):
    """Rescaled pixels, added, compared or (a ``product`` of two terms) multiplied: ``terms`` by kernel position."""

    terms: list[Term]
    product: bool = False

    @property
    def scale_entries(self) -> int:
        return len(dict.fromkeys(term.scale for term in self.terms))

    @property
    def passes(self) -> int:
        return len(self.terms) + 1 + (SAME_BANK_CYCLES if self.product else 0)

    @property
    def sums(self) -> int:
        return 1 + self.product

    @property
    def flat(self) -> bool:
        return super().flat and all(term.moves[0] == term.moves[1] for term in self.terms)

    @property
    def joins(self) -> bool:
        """Whether it can go on with another's results where they lie in acc: one accumulator each, pixel by pixel."""
        return not self.product and all(all(term.moves) for term in self.terms)

    def patch(self, tile: Tile, piece: Piece) -> Patch:
        patch = super().patch(tile, piece)
        down, across = next(term.moves for term in self.terms if term.index == piece.source)
        if not down:
            patch = patch._replace(top=0, rows=1)
        return patch if across else patch._replace(left=0, columns=1)

    def pieces(self, lo: int, hi: int, cut: Cut) -> list[Piece]:
        units = (lo * self.config.out_units, hi * self.config.out_units)
        return [
            Piece(source, *part, *units) for source in range(len(self.sources)) for part in self._kernel_parts(cut)
        ]  # fmt: skip

    def terms_of(self, piece: Piece) -> list[tuple[Term, int, int]]:
        """The piece's terms, each with its row and column within the patch."""
        found = []
        for term in self.terms:
            ky, kx = term.dy + self.window.top, term.dx + self.window.left
            if term.index == piece.source and piece.ky <= ky < piece.ky_end and piece.kx <= kx < piece.kx_end:
                found.append((term, ky - piece.ky, kx - piece.kx))
        return found

    def _numbers(self) -> dict[judge.Layer, int]:
        return {judge.Layer.KIND: judge.ALU, judge.Layer.TERMS: len(self.terms)}
