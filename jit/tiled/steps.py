"""What there is to do, and in which order: tiles of all layers, each as soon as what it reads is stored.

An *item* is one tile of one chunk of a chain, a *step* one piece of an item, or a part of it that fits a bank of acc.
Layers that need the array follow one another. Those of ALU passes alone come in between as soon as they can, and as
far as ALU would else be idle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain as joined
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.plan.ranges import split_evenly
from tilewright.jit.tiled.chains import Chain
from tilewright.jit.tiled.cost import Chosen
from tilewright.jit.tiled.geometry import Cut, Patch, Piece, Tile, tiles_of
from tilewright.jit.tiled.layers import TiledLayer

_FRESH = 2  #: steps until a tile is stored; LOAD, which keeps its order, would wait for it


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

    def pixels(self, tile: Tile) -> tuple[int, int]:
        """First pixel and the one behind the last, counted through the rows of the tile."""
        return (self.left, self.right) if self.flat else (self.top * tile.columns, self.bottom * tile.columns)


@dataclass(frozen=True, eq=False)
class Item:
    """Tile ``tile`` of the vectors [lo, hi) of chain number ``chain``; ``number`` among all items.

    Either the pieces of its sums are several or the parts of its tile.
    """

    number: int
    chain: int
    tile: Tile
    lo: int
    hi: int
    pieces: tuple[Piece, ...]
    parts: tuple[Part, ...]


class Step(NamedTuple):
    """Piece number ``piece`` of an item for a part of its tile; for ALU alone all pieces at once (as number 0).

    ``number`` among all steps in order. ``finishes``: the part's sums are complete, ``last``: so is the item.
    """

    number: int
    item: Item
    piece: int
    part: Part
    finishes: bool
    last: bool


class _Grid(NamedTuple):
    """Where the items of a chain lie in the tensor that it writes: bounds of rows, columns and units, first number.

    Of items whose pixels are several of the tensor's there are no bounds of units: each may have any.
    """

    rows: list[int]
    columns: list[int]
    units: list[int]
    first: int
    chunks: int


def count_steps(chain: Chain, cut: Cut) -> int:
    """How many steps a chain takes, if all its items have as many pieces as the first."""
    leader, node = chain.leader, chain.leader.node
    items = -(-node.height // cut.rows) * -(-node.width // cut.columns) * -(-leader.vectors // cut.vectors)
    return items * len(leader.pieces(0, min(leader.vectors, cut.vectors), cut))


class Items:
    """The items of all chains."""

    def __init__(self, chains: Sequence[Chain], chosen: Sequence[Chosen]) -> None:
        self.of: list[list[Item]] = []  #: by chain, in order
        self.chains, self.chosen = chains, chosen
        self._writers: dict[str, list[_Grid]] = {}
        self.count = 0
        self._known: dict[Patch, NDArray[np.int64]] = {}
        self._patches: dict[tuple[int, int, bool], list[Patch]] = {}
        self._reads: dict[tuple[int, int, bool], list[int]] = {}
        for number, (chain, choice) in enumerate(zip(chains, chosen, strict=True)):
            self._add(number, chain, choice)
        self.array = [choice.array / len(of) for choice, of in zip(chosen, self.of, strict=True)]  #: cycles of an item
        self.alu = [choice.alu / len(of) for choice, of in zip(chosen, self.of, strict=True)]
        self.bus = [choice.bus / len(of) for choice, of in zip(chosen, self.of, strict=True)]

    def _add(self, number: int, chain: Chain, chosen: Chosen) -> None:
        cut, node, step = chosen.cut, chain.leader.node, chain.leader.config.out_units
        tiles = tiles_of(node.height, node.width, cut)
        chunks = split_evenly(chain.leader.vectors, cut.vectors)
        made = [
            [
                Item(self.count + c * len(tiles) + t, number, tile, lo, hi, pieces, parts)
                for t, tile in enumerate(tiles)
                for parts in [_parts(tile, (hi - lo) * step, chain.leader)]
            ]
            for c, (lo, hi) in enumerate(chunks)
            for pieces in [tuple(chain.leader.pieces(lo, hi, cut))]
        ]
        in_turn = zip(*made, strict=True) if cut.tiles_first else made
        self.of.append([item for items in in_turn for item in items])
        first, lattice = chain.last.first_unit, chain.last.node.lattice
        self._writers.setdefault(chain.last.node.output, []).append(
            _Grid(
                [bound * lattice.down for bound in _bounds(split_evenly(node.height, cut.rows))],
                [bound * lattice.across for bound in _bounds(split_evenly(node.width, cut.columns))],
                [] if lattice.pixels > 1 else [first + bound * step for bound in _bounds(chunks)],
                self.count, len(chunks),
            )
        )  # fmt: skip
        self.count += len(tiles) * len(chunks)

    def read(self, patch: Patch) -> NDArray[np.int64]:
        """Numbers of the items whose results lie in a patch; none for an input of the network."""
        if patch not in self._known:
            numbers = [_numbers(grid, patch) for grid in self._writers.get(patch.tensor, [])]
            self._known[patch] = np.concatenate([np.zeros(0, np.int64), *numbers])
        return self._known[patch]

    def patches(self, item: Item, index: int, finishes: bool) -> list[Patch]:
        """What a step loads: the patch of its piece (for ALU alone, of all), and with the last what followers read."""
        key = (item.number, index, finishes)
        if key not in self._patches:
            chain = self.chains[item.chain]
            pieces = item.pieces[index : index + 1] if chain.uses_gemm else item.pieces
            found = [chain.leader.patch(item.tile, p) for p in pieces]
            found += chain.operands(item.tile, item.lo, item.hi).values() if finishes else ()
            self._patches[key] = found
        return self._patches[key]

    def reads(self, item: Item, index: int, finishes: bool) -> list[int]:
        """Numbers of the items whose results a step reads."""
        key = (item.number, index, finishes)
        if key not in self._reads:
            leader = self.chains[item.chain].leader
            weights = leader.weight_patches(item.lo, item.hi, item.pieces[index])
            numbers = [self.read(patch).tolist() for patch in (*self.patches(item, index, finishes), *weights)]
            self._reads[key] = list(dict.fromkeys(joined.from_iterable(numbers)))
        return self._reads[key]


def _parts(tile: Tile, units: int, layer: TiledLayer) -> tuple[Part, ...]:
    """A tile with ``units`` accumulators a pixel, cut to banks of acc."""
    bank, units = layer.config.acc_bank_units, units * layer.sums
    if layer.flat:
        return tuple(Part(0, 1, a, b, True) for a, b in split_evenly(tile.rows * tile.columns, bank // units))
    rows = split_evenly(tile.rows, bank // ((tile.columns + layer.lead) * units))
    return tuple(Part(a, b, 0, tile.columns, False) for a, b in rows)


def _bounds(ranges: Sequence[tuple[int, int]]) -> list[int]:
    return [ranges[0][0], *(stop for _, stop in ranges)]


def _numbers(grid: _Grid, patch: Patch) -> NDArray[np.int64]:
    rows = _overlap(grid.rows, patch.top, patch.top + (patch.rows - 1) * patch.step_y + 1)
    columns = _overlap(grid.columns, patch.left, patch.left + (patch.columns - 1) * patch.step_x + 1)
    chunks = _overlap(grid.units, patch.unit, patch.unit + patch.units) if grid.units else (0, grid.chunks)
    across, down = len(grid.columns) - 1, len(grid.rows) - 1
    tiles = np.arange(*rows)[:, None] * across + np.arange(*columns)
    return (grid.first + np.arange(*chunks)[:, None] * (down * across) + tiles.ravel()).ravel()


def _overlap(bounds: list[int], first: int, stop: int) -> tuple[int, int]:
    """Which of the parts between these bounds lie in [first, stop)."""
    return max(0, bisect_right(bounds, first) - 1), min(len(bounds) - 1, bisect_left(bounds, stop))


class Order:
    """All steps, each behind the items whose results it reads.

    ``beside``: pairs of chains of which the first, ALU's alone, has steps that run beside the second's.
    """

    def __init__(self, items: Items) -> None:
        self.items = items
        self.beside: set[tuple[int, int]] = set()
        self._by_number = {item.number: item for of in items.of for item in of}
        self._done = np.zeros(items.count, np.bool_)
        self._array = self._alu = self._bus = 0.0  #: when each is free
        self._count = 0
        self._spare_banks = items.chains[0].leader.config.acc_banks - 2  #: of acc: so far GEMM may be ahead of ALU
        self._waiting = 0.0  #: cycles of ALU for the last part of the array, which come after its next step
        self._fresh: list[list[int]] = [[]] * _FRESH  #: what the last steps completed, too new for what runs beside
        self._missing: dict[int, int] = {}  #: items of ALU alone that are to come: how many results they miss
        self._readers: dict[int, list[int]] = {}
        self._ready: list[int] = []  #: a heap of those that miss none
        for of, chain in zip(items.of, items.chains, strict=True):
            for item in of if not chain.uses_gemm else ():
                read = items.reads(item, 0, True)
                self._missing[item.number] = len(read)
                for number in read:
                    self._readers.setdefault(number, []).append(item.number)
                if not read:
                    self._ready.append(item.number)

    @property
    def cycles(self) -> float:
        """When everything is done, once all steps were taken, by a coarse count."""
        return max(self._array, self._alu + self._waiting, self._bus)

    def __iter__(self) -> Iterator[Step]:
        for chain, of in zip(self.items.chains, self.items.of, strict=True):
            for item in of if chain.uses_gemm else ():
                yield from self._main(item)
        for number in sorted(self._missing):
            if number in self._missing:  # not beside those before
                yield from self._side(number)

    def _main(self, item: Item) -> Iterator[Step]:
        work = [(index, part) for index in range(len(item.pieces)) for part in item.parts]
        for k, (index, part) in enumerate(work):
            finishes, last = index == len(item.pieces) - 1, k == len(work) - 1
            for number in self.items.reads(item, index, finishes):
                yield from self._side(number)
            yield self._step(item, index, part, finishes, last)
            self._worked(item, len(work), finishes)
            self._done[item.number] = last
            self._fresh.append([item.number] if last else [])
            self._settle(self._fresh.pop(0))
            while (beside := self._beside()) is not None:
                self.beside.add((self._by_number[beside].chain, item.chain))
                yield from self._side(beside)

    def _worked(self, item: Item, steps: int, finishes: bool) -> None:
        """The array has one of an item's ``steps`` more behind it."""
        before, chain = self._array, item.chain
        if self._waiting:
            self._alu = max(self._alu, before) + self._waiting
        self._bus = max(self._bus, before) + self.items.bus[chain] / steps
        cycles = self.items.array[chain] / steps
        self._array = max(before, self._alu - self._spare_banks * cycles) + cycles
        self._waiting = self.items.alu[chain] / len(item.parts) if finishes else 0.0

    def _step(self, item: Item, index: int, part: Part, finishes: bool, last: bool) -> Step:
        self._count += 1
        return Step(self._count - 1, item, index, part, finishes, last)

    def _beside(self) -> int | None:
        """An item of ALU alone, while ALU and bus are done before the array is."""
        while self._ready and self._done[self._ready[0]]:
            heappop(self._ready)
        return self._ready[0] if self._ready and max(self._alu, self._bus) < self._array else None

    def _side(self, number: int) -> Iterator[Step]:
        """An item of ALU alone, and what it reads of others, if it is still to come."""
        if self._done[number]:
            return
        item = self._by_number[number]
        for other in self.items.reads(item, 0, True):
            yield from self._side(other)
        for part in item.parts:
            yield self._step(item, 0, part, True, part is item.parts[-1])
        self._done[number] = True
        del self._missing[number]
        self._alu += self.items.alu[item.chain]
        self._bus += self.items.bus[item.chain]
        self._settle([number])

    def _settle(self, numbers: Sequence[int]) -> None:
        """Those who read these items miss them no longer."""
        for number in numbers:
            for reader in self._readers.get(number, ()):
                if reader in self._missing:
                    self._missing[reader] -= 1
                    if not self._missing[reader]:
                        heappush(self._ready, reader)
