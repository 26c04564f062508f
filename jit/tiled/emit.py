"""The tiled plan, step by step: load, compute, store.

A *step* is one piece of one tile of one chunk. The loads of a step are written in front of the work of the step
before it, as far as the memories have room, so that the bus works ahead of the arrays. Everything else follows from
program order: whoever touches the same units, entries or rows in DRAM is ordered by tokens.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.kernels.base import split_evenly, uniform_prm
from tilewright.jit.tiled.cost import Chosen
from tilewright.jit.tiled.dram import Mover, Stored
from tilewright.jit.tiled.geometry import Patch, Piece, Tile, tiles_of
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, Run, TiledLayer
from tilewright.jit.tiled.residency import Residency, Span, Wanted
from tilewright.jit.tiled.windows import WindowLayer
from tilewright.jit.tiled.work import Part, Place, Worker, count_runs, parts_of
from tilewright.jit.writer import InstructionWriter

_CACHED = 128  #: pieces whose weights are kept ready made


@dataclass(frozen=True)
class Step:
    """Piece ``index`` of ``pieces``, of tile ``tile`` and the vectors [lo, hi) of layer number ``layer``."""

    layer: int
    tile: Tile
    lo: int
    hi: int
    pieces: tuple[Piece, ...]
    index: int

    @property
    def piece(self) -> Piece:
        return self.pieces[self.index]

    @property
    def last(self) -> bool:
        return self.index == len(self.pieces) - 1


def steps_of(number: int, layer: TiledLayer, chosen: Chosen) -> Iterator[Step]:
    """The steps of a layer in order."""
    cut = chosen.cut
    tiles = tiles_of(layer.node.height, layer.node.width, cut)
    chunks = [(lo, hi, tuple(layer.pieces(lo, hi, cut))) for lo, hi in split_evenly(layer.vectors, cut.vectors)]
    if cut.tiles_first:
        pairs = [(tile, chunk) for tile in tiles for chunk in chunks]
    else:
        pairs = [(tile, chunk) for chunk in chunks for tile in tiles]
    for tile, (lo, hi, pieces) in pairs:
        for index in range(len(pieces)):
            yield Step(number, tile, lo, hi, pieces, index)


class TileEmitter:
    """Writes every layer's steps; ``stored`` says where each tensor lies in DRAM."""

    def __init__(
        self, config: Config, layers: Sequence[TiledLayer], chosen: Sequence[Chosen], stored: Mapping[str, Stored],
        writer: InstructionWriter,
    ) -> None:  # fmt: skip
        self.config, self._layers, self._chosen, self._stored = config, layers, chosen, stored
        self._writer, self._mover, self._worker = writer, Mover(writer, config), Worker(writer, config)
        self._act = Residency(max(config.in_units, config.out_units))
        self._wgt, self._prm = Residency(), Residency()
        self._wrap = {"wrap_base": 0, "wrap_size": config.act_units}
        self._work: dict[Hashable, tuple[list[Run], NDArray[np.int8]]] = {}
        self._left = [layer.node.output for layer in layers]  #: outputs of layers not yet done
        self._bank = 0
        self._results = 0

    def run(self) -> None:
        """Write all steps."""
        step = None
        for number, layer in enumerate(self._layers):
            for following in steps_of(number, layer, self._chosen[number]):
                if step is not None:
                    self._prefetch(following, step)
                    self._do(step, following.layer != step.layer)
                step = following
        if step is not None:
            self._do(step, True)

    # -- what a step needs -----------------------------------------------------------------------------

    def _patch(self, step: Step) -> Patch:
        layer = self._layers[step.layer]
        return layer.window.patch(layer.sources[step.piece.source], step.tile, step.piece)

    def _wanted_act(self, step: Step) -> list[Wanted]:
        patch, split = self._patch(step), self._chosen[step.layer].split
        wanted = [Wanted(patch, patch.size, (0, split))]
        if step.last:
            size = step.tile.rows * step.tile.columns * (step.hi - step.lo) * self.config.out_units
            key = ("result", step.layer, step.tile, step.lo)
            wanted.append(Wanted(key, size, (split, self.config.act_units)))
        return wanted

    def _weights(self, step: Step) -> tuple[list[Run], NDArray[np.int8]]:
        layer = self._layers[step.layer]
        key = self._weights_key(step)
        if key not in self._work:
            while len(self._work) >= _CACHED:
                self._work.pop(next(iter(self._work)))
            if isinstance(layer, WindowLayer):
                self._work[key] = [], layer.weights(step.lo, step.hi, step.piece)
            else:
                assert isinstance(layer, GemmLayer)
                self._work[key] = layer.runs(step.lo, step.hi, step.pieces, step.index)
        return self._work[key]

    def _weights_key(self, step: Step) -> Hashable:
        return (step.layer, step.lo, step.index)

    def _wanted_wgt(self, step: Step) -> list[Wanted]:
        if isinstance(self._layers[step.layer], AluLayer):
            return []
        return [Wanted(self._weights_key(step), len(self._weights(step)[1]), (0, self.config.wgt_entries))]

    def _wanted_prm(self, step: Step, count: int | None) -> list[Wanted]:
        """Scales of the step's layer, and the requantisation for ``count`` valid elements."""
        layer, region = self._layers[step.layer], (0, self.config.prm_entries)
        scales = list(dict.fromkeys(t.scale for t in layer.terms)) if isinstance(layer, AluLayer) else []
        wanted = [Wanted(("scale", step.layer, scale), 1, region) for scale in scales]
        if count is not None:
            size = 1 if layer.uniform else step.hi - step.lo
            wanted.append(Wanted(self._requant_key(step, count), size, region))
        return wanted

    def _requant_key(self, step: Step, count: int) -> Hashable:
        layer = self._layers[step.layer]
        return ("requant", step.layer, 0 if layer.uniform else step.lo, count)

    def _count(self, step: Step) -> int | None:
        """The first requantisation of a step that finishes its tile."""
        return int(self._layers[step.layer].counts_of(step.tile).flat[0]) if step.last else None

    # -- loads -----------------------------------------------------------------------------------------

    def _fetch(
        self, step: Step, memory: str, wanted: list[Wanted], pinned: list[Span], must: bool
    ) -> dict[Hashable, int]:
        """Make blocks resident and load what was not there; {} where there is no room yet."""
        residency = {"act": self._act, "wgt": self._wgt, "prm": self._prm}[memory]
        taken = residency.take(wanted, pinned, must)
        if taken is None:
            return {}
        places, missing = taken
        self._writer.begin(self._layers[step.layer].node.layer, self._layers[step.layer].node.name)
        for key in missing:
            if memory == "wgt":
                self._writer.load_weights(places[key], self._weights(step)[1])
            elif memory == "prm":
                self._load_prm(step, key, places[key])
            elif isinstance(key, Patch):
                self._mover.load(key, self._stored[key.tensor], places[key], self._wrap)
        return places

    def _load_prm(self, step: Step, key: Hashable, base: int) -> None:
        assert isinstance(key, tuple)
        if key[0] == "scale":
            scale = key[2]
            entries = uniform_prm(scale.bias, scale.multiplier, scale.offset, scale.shift, self.config)
        else:
            entries = self._layers[step.layer].requant_entries(key[3], step.lo, step.hi)
        self._writer.load_prm(base, entries)

    def _prefetch(self, following: Step, step: Step) -> None:
        """Load what the next step needs beside what this one holds, as far as there is room."""
        for memory, wanted_of in (("wgt", self._wanted_wgt), ("act", self._wanted_act)):
            held = self._fetch(step, memory, wanted_of(step), [], True)
            spans = [(held[w.key], held[w.key] + w.size) for w in wanted_of(step)]
            wanted = wanted_of(following)
            if memory == "act":
                wanted = wanted[:1]
                if not self._ready(following, step):
                    continue
            if wanted:
                self._fetch(following, memory, wanted, spans, False)

    def _ready(self, following: Step, step: Step) -> bool:
        """Whether the tensor that the next step reads was stored before the work of this one."""
        tensor = self._layers[following.layer].sources[following.piece.source]
        return tensor not in self._left[step.layer :]

    # -- work ------------------------------------------------------------------------------------------

    def _do(self, step: Step, layer_done: bool) -> None:
        """Compute a step; store the tile with its last piece."""
        layer, c = self._layers[step.layer], self.config
        act = self._fetch(step, "act", self._wanted_act(step), [], True)
        patch = self._patch(step)
        source = Place(act[patch], self._wrap)
        units = (step.hi - step.lo) * c.out_units
        for part in parts_of(step.tile, units, layer):
            if step.index == 0:
                self._bank = (self._bank + 1) % c.acc_banks
            acc = self._bank * c.acc_bank_units
            if not isinstance(layer, AluLayer):
                wgt = self._fetch(step, "wgt", self._wanted_wgt(step), [], True)[self._weights_key(step)]
            if isinstance(layer, GemmLayer):
                runs = self._weights(step)[0]
                self._worker.gemm(layer, step.piece, runs, step.lo, units, part, patch, source, wgt, acc)
            elif isinstance(layer, WindowLayer):
                self._worker.windows(layer, step.piece, units, part, patch, source, wgt, acc)
            else:
                assert isinstance(layer, AluLayer)
                prm = self._fetch(step, "prm", self._wanted_prm(step, self._count(step)), [], True)
                scales = {key[2]: place for key, place in prm.items() if isinstance(key, tuple) and key[0] == "scale"}
                self._worker.rescale(layer, step.piece, step.index == 0, units, part, patch, source, scales, acc)
            if step.last:
                result = Place(act["result", step.layer, step.tile, step.lo], self._wrap)
                self._finish(layer, step, part, units, acc, result)
        if step.last:
            stored = self._stored[layer.node.output]
            unit = layer.first_unit + step.lo * c.out_units
            self._mover.store(step.tile, stored, unit, units, act["result", step.layer, step.tile, step.lo], self._wrap)

    def _finish(self, layer: TiledLayer, step: Step, part: Part, units: int, acc: int, result: Place) -> None:
        for pixel, pixels, count, place in count_runs(layer, step.tile, part):
            wanted = self._wanted_prm(step, count)[-1:]
            prm = self._fetch(step, "prm", wanted, [], True)
            self._worker.requantize(layer, count, pixel, pixels, units, acc + place * units, result, prm[wanted[0].key])
