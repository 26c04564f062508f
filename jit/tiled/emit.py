"""The tiled plan, step by step: compute, requantise, go on with the results, store.

A tile is requantised, joined with what followers add, and stored behind the next step's work on the array, so that
neither engine waits for the other's instructions. Everything else follows from program order: whoever touches the same
units, entries or tiles in DRAM is ordered by tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilewright.config import Config
from tilewright.jit.emit.writer import InstructionWriter
from tilewright.jit.tiled.dram import Dram, Mover
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, TiledLayer
from tilewright.jit.tiled.loads import Lane, Loads, Wanted
from tilewright.jit.tiled.products import ProductLayer
from tilewright.jit.tiled.resample import ResampleLayer
from tilewright.jit.tiled.steps import Item, Items, Order, Step
from tilewright.jit.tiled.windows import WindowLayer
from tilewright.jit.tiled.work import Place, Worker, count_runs


class _Waiting(NamedTuple):
    """A part whose sums lie from ``acc`` on, to be requantised."""

    step: Step
    acc: int


class TileEmitter:
    """Writes every step; ``dram`` says where each tensor lies."""

    def __init__(
        self, config: Config, items: Items, dram: Dram, writer: InstructionWriter
    ) -> None:  # fmt: skip
        self.config, self._dram = config, dram
        self._writer, self._mover, self._worker = writer, Mover(writer, config), Worker(writer, config)
        self._items, self._chains, self._chosen = items, items.chains, items.chosen
        self._steps = list(Order(items))
        self._loads = Loads(config, items, dram, writer, self._worker, self._steps)
        self._wrap = {"wrap_base": 0, "wrap_size": config.act_units}
        self._bank = 0
        self._open: int | None = None  #: the bank of an item whose sums are not complete yet
        self._waiting: _Waiting | None = None

    def run(self) -> None:
        """Write all steps."""
        for step in self._steps:
            self._loads.begin(step)
            if not self._loads.is_stored(step):
                self._flush()
            if self._chains[step.item.chain].uses_gemm:
                self._compute(step)
            else:
                self._pass(step)
        self._flush()

    def _begin(self, step: Step, layer: int) -> None:
        node = self._chains[step.item.chain].layers[layer].node
        self._writer.begin(node.layer, node.name)

    def _fetch(self, lane: Lane, step: Step, wanted: Sequence[Wanted]) -> list[int]:
        """Places of blocks, whatever must make way for them."""
        places = self._loads.fetch(lane, step, wanted)
        if places is None:
            self._flush()
            places = self._loads.fetch(lane, step, wanted, must=True)
        assert places is not None, "a cut was chosen that does not fit"
        return [places[block.key] for block in wanted]

    def _free_bank(self) -> int:
        """The next bank of acc that holds nothing, made free if need be."""
        taken = {self._open, self._waiting.acc if self._waiting is not None else None}
        for _ in range(self.config.acc_banks):
            self._bank = (self._bank + 1) % self.config.acc_banks
            if self._bank * self.config.acc_bank_units not in taken:
                return self._bank * self.config.acc_bank_units
        self._flush()
        return self._free_bank()

    # -- work ------------------------------------------------------------------------------------------

    def _compute(self, step: Step) -> None:
        """A step's work on the array, and then what waits from the one before."""
        item, index = step.item, step.piece
        chain, piece, loads = self._chains[item.chain], item.pieces[index], self._loads
        leader, units = chain.leader, (item.hi - item.lo) * self.config.out_units
        patch = self._items.patches(item, index, step.finishes)[0]
        loads.worked(self._items.array[item.chain] / (len(item.pieces) * len(item.parts)))
        (wgt,) = self._fetch(loads.weights, step, loads.weights.wanted(step))
        loads.hold(loads.weights, step, loads.weights.wanted(step))
        acc = self._free_bank() if self._open is None else self._open
        (base,) = self._fetch(loads.patches, step, loads.patches.wanted(step))  # the last that may make others way
        loads.hold(loads.patches, step, loads.patches.wanted(step))
        loads.prepare(step)
        loads.ahead()
        self._begin(step, 0)
        place = Place(base, self._wrap)
        if isinstance(leader, WindowLayer):
            self._worker.windows(leader, piece, units, step.part, patch, place, wgt, acc)
        else:
            assert isinstance(leader, GemmLayer)
            runs = loads.weights_of(step)[0]
            self._worker.gemm(leader, piece, runs, item.lo, units, step.part, patch, place, wgt, acc)
        loads.release(loads.patches, step)
        loads.release(loads.weights, step)
        self._flush()
        self._open = None if step.finishes else acc
        self._waiting = _Waiting(step, acc) if step.finishes else None
        loads.ahead()

    def _pass(self, step: Step) -> None:
        """All of a step that ALU alone computes."""
        if not step.last:  # its results lie there until the last part comes
            self._flush()
        item, acc, loads = step.item, self._free_bank(), self._loads
        layer, units = self._chains[item.chain].leader, (item.hi - item.lo) * self.config.out_units
        assert isinstance(layer, AluLayer)
        if isinstance(layer, ResampleLayer):
            self._resample(step, layer, acc)
        for index, piece in enumerate(item.pieces if not isinstance(layer, ResampleLayer) else ()):
            patch = layer.patch(item.tile, piece)
            prm = self._scales(step, 0, layer)
            (base,) = self._fetch(loads.patches, step, [loads.wanted_patch(step, patch)])
            self._begin(step, 0)
            place = Place(base, self._wrap)
            self._worker.rescale(layer, piece, index == 0, units, step.part, patch, place, prm, acc)
        if layer.product:
            self._worker.multiply(units, step.part, acc)
        loads.release(loads.patches, step)
        self._finish(step, acc)
        loads.ahead()

    def _resample(self, step: Step, layer: ResampleLayer, acc: int) -> None:
        """A part's rows one after another, each with its own weights in prm."""
        item, part, loads = step.item, step.part, self._loads
        tile, units = item.tile, (item.hi - item.lo) * self.config.out_units
        patch = layer.patch(tile, item.pieces[0])
        for row in range(part.top, part.bottom):
            first = acc + (row - part.top) * tile.columns * units
            for turns in layer.turns(tile.top + row, tile):
                weights = list(dict.fromkeys(turn.weight for turn in turns))
                wanted = [loads.wanted_scale(step, 0, layer.scale(weight)) for weight in weights]
                prm = dict(zip(weights, self._fetch(loads.constants, step, wanted), strict=True))
                (base,) = self._fetch(loads.patches, step, [loads.wanted_patch(step, patch)])
                self._begin(step, 0)
                self._worker.resample(turns, tile, units, patch, Place(base, self._wrap), prm, first)

    def _scales(self, step: Step, k: int, layer: AluLayer) -> dict[object, int]:
        wanted = self._loads.wanted_scales(step, k, layer)
        scales = dict.fromkeys(term.scale for term in layer.terms)
        return dict(zip(scales, self._fetch(self._loads.constants, step, wanted), strict=True))

    def _flush(self) -> None:
        """What waits behind the array, if anything does."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._finish(*waiting)

    def _finish(self, step: Step, acc: int) -> None:
        """Requantise a part, let followers go on with it, and store the tile with its last part."""
        item, loads = step.item, self._loads
        chain, units = self._chains[item.chain], (item.hi - item.lo) * self.config.out_units
        wanted = loads.results.wanted(step)
        bases = self._fetch(loads.results, step, wanted)
        places = {block.key: Place(base, self._wrap) for block, base in zip(wanted, bases, strict=True)}
        loads.hold(loads.results, step, wanted)
        result = places[loads.result_key(item)]
        if isinstance(chain.leader, ProductLayer) and chain.leader.lead:
            self._begin(step, 0)
            self._worker.add_once(units, step.part, acc)
        for pixel, pixels, count, place in count_runs(chain.leader, item.tile, step.part):
            self._requantize(step, 0, count, pixel, pixels, acc + place * units, result)
        first, stop = step.part.pixels(item.tile)
        operands = chain.operands(item.tile, item.lo, item.hi)
        for k, layer in enumerate(chain.followers, 1):
            sources = [places[operands[t]] if t in operands else result for t in layer.sources]
            prm = self._scales(step, k, layer)
            self._begin(step, k)
            self._worker.join(layer, sources, first, stop - first, units, prm, acc)
            self._requantize(step, k, 0, first, stop - first, acc, result)
        loads.release(loads.constants, step)
        if step.last:
            self._store(item, chain.last, units, result.base)
            loads.written.add(item.number)
        loads.release(loads.results, step)

    def _store(self, item: Item, layer: TiledLayer, units: int, base: int) -> None:
        """Store a tile in every form in which its tensor lies in DRAM."""
        name, unit = layer.node.output, layer.first_unit + item.lo * self.config.out_units
        place = unit, units, base, self._wrap, np.array([item.number]), layer.node.lattice
        if name in self._dram.tensors:
            self._mover.store(item.tile, self._dram.tensors[name], *place)
        for blocks in self._dram.blocked.values():
            if blocks.form.tensor == name:
                self._mover.store_blocks(item.tile, blocks, *place)

    def _requantize(self, step: Step, k: int, count: int, pixel: int, pixels: int, acc: int, result: Place) -> None:
        item, layer = step.item, self._chains[step.item.chain].layers[k]
        (prm,) = self._fetch(self._loads.constants, step, [self._loads.wanted_requant(step, k, layer, count)])
        self._begin(step, k)
        units = (item.hi - item.lo) * self.config.out_units
        self._worker.requantize(layer, count, pixel, pixels, units, acc, result, prm)
