"""What the tiled plan loads, where to, and when: ahead of the work as far as memories have room and the bus time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.emit.writer import WEIGHTS_OF_LOAD, InstructionWriter
from tilewright.jit.graph import Scale
from tilewright.jit.kernels.base import Streamed, uniform_prm
from tilewright.jit.tiled.dram import Dram, Mover
from tilewright.jit.tiled.geometry import Patch
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, Run, TiledLayer
from tilewright.jit.tiled.residency import Residency, Wanted
from tilewright.jit.tiled.steps import Item, Items, Step
from tilewright.jit.tiled.windows import WindowLayer
from tilewright.jit.tiled.work import Worker

_CACHED = 128  #: pieces whose weights are kept ready made


@dataclass
class Lane:
    """Blocks of one kind, by the steps that want them; ``next``: the first step whose turn it is not yet.

    ``holders``: steps for which blocks were fetched and not released yet. ``full``: the step for which there was no
    room, and the memory's state then.
    """

    memory: Residency
    find: Callable[[Step], list[Wanted]]
    next: int = 0
    holders: set[int] = field(default_factory=set)
    full: tuple[int, int] | None = None
    _found: dict[int, list[Wanted]] = field(default_factory=dict)

    def wanted(self, step: Step) -> list[Wanted]:
        """The blocks that a step wants."""
        found = self._found.get(step.number)
        if found is None:
            found = self._found[step.number] = self.find(step)
        return found


class Loads:
    """Writes loads. ``written``: the items whose STORE came before, in program order."""

    def __init__(
        self, config: Config, items: Items, dram: Dram, writer: InstructionWriter, worker: Worker,
        steps: Sequence[Step],
    ) -> None:  # fmt: skip
        self.config, self._items, self._dram = config, items, dram
        self._chains, self._chosen = items.chains, items.chosen
        self._writer, self._mover, self._worker, self._steps = writer, Mover(writer, config), worker, steps
        self._wrap = {"wrap_base": 0, "wrap_size": config.act_units}
        self._vector = max(config.in_units, config.out_units)  #: what a block of act is aligned to
        self.written: set[int] = set()
        self._work: dict[Hashable, tuple[list[Run], NDArray[np.int8]]] = {}
        self._now = -1
        self._bus = self._array = self._before = 0.0  #: when the bus, GEMM, and GEMM's last step but one are done
        act, wgt, prm = (Residency(self._next_use) for _ in range(3))
        self.patches, self.results = Lane(act, self._patch), Lane(act, self._results)
        self.weights, self.constants = Lane(wgt, self._blocks), Lane(prm, self._prm)
        self._lanes = (self.patches, self.weights, self.results, self.constants)
        self._begun: dict[Hashable, int] = {}  #: weights that have a place, and how many of their entries are loaded
        self._uses: dict[Hashable, list[int]] = {}
        for step in steps:
            keys = [block.key for lane in (self.patches, self.results, self.constants) for block in lane.wanted(step)]
            for key in [*keys, self._weights_key(step)]:
                self._uses.setdefault(key, []).append(step.number)

    # -- what steps want -------------------------------------------------------------------------------

    def _patch(self, step: Step) -> list[Wanted]:
        return [self.wanted_patch(step, self._items.patches(step.item, step.piece, step.finishes)[0])]

    def wanted_patch(self, step: Step, patch: Patch) -> Wanted:
        """A patch that a step reads, in its chain's part of act."""
        chosen = self._chosen[step.item.chain]
        return Wanted(patch, patch.size, (chosen.low, chosen.split), self._vector)

    def _results(self, step: Step) -> list[Wanted]:
        """Where the tile's results go, and what followers read beside them."""
        if not step.finishes:
            return []
        item = step.item
        chain, chosen = self._chains[item.chain], self._chosen[item.chain]
        size = item.tile.rows * item.tile.columns * (item.hi - item.lo) * self.config.out_units
        result = Wanted(self.result_key(item), size, (chosen.split, chosen.middle), chosen.slot)
        patches = chain.operands(item.tile, item.lo, item.hi).values()
        return [result, *(Wanted(patch, size, (chosen.middle, chosen.high), self._vector) for patch in patches)]

    @staticmethod
    def result_key(item: Item) -> Hashable:
        return ("result", item.number)

    def _blocks(self, step: Step) -> list[Wanted]:
        if not self._chains[step.item.chain].uses_gemm:
            return []
        part = self._streamed(step)
        entries = len(self.weights_of(step)[1]) + (part.entries if part is not None else 0)
        return [Wanted(self._weights_key(step), entries, (0, self.config.wgt_entries))]

    def _weights_key(self, step: Step) -> Hashable:
        item = step.item
        piece = self._chains[item.chain].leader.held_as(item.pieces[step.piece])
        return ("weights", item.chain, item.lo, piece)

    def _streamed(self, step: Step) -> Streamed | None:
        """Of a step's weights those that are a tensor in DRAM."""
        item = step.item
        return self._chains[item.chain].leader.streamed(item.lo, item.hi, item.pieces[step.piece])

    def weights_of(self, step: Step) -> tuple[list[Run], NDArray[np.int8]]:
        """The GEMMs of a step and its constant weights in their order; no GEMMs for window mode, which has one form."""
        item = step.item
        leader, key = self._chains[item.chain].leader, (item.chain, item.lo, step.piece)
        if key not in self._work:
            while len(self._work) >= _CACHED:
                self._work.pop(next(iter(self._work)))
            if isinstance(leader, WindowLayer):
                self._work[key] = [], leader.weights(item.lo, item.hi, item.pieces[step.piece])
            else:
                assert isinstance(leader, GemmLayer)
                self._work[key] = leader.runs(item.lo, item.hi, item.pieces, step.piece)
        return self._work[key]

    def _prm(self, step: Step) -> list[Wanted]:
        """Scales of the ALU layers of a step's chain, and the first requantisation of each layer."""
        wanted = []
        for k, layer in enumerate(self._chains[step.item.chain].layers if step.finishes else ()):
            if isinstance(layer, AluLayer):
                wanted += self.wanted_scales(step, k, layer)
            wanted.append(self.wanted_requant(step, k, layer, int(layer.counts_of(step.item.tile).flat[0])))
        return wanted

    def wanted_scales(self, step: Step, k: int, layer: AluLayer) -> list[Wanted]:
        """The scales of layer ``k`` of a step's chain, in the order of its terms."""
        return [self.wanted_scale(step, k, scale) for scale in dict.fromkeys(t.scale for t in layer.terms)]

    def wanted_scale(self, step: Step, k: int, scale: Scale) -> Wanted:
        """A scale of layer ``k`` of a step's chain."""
        return Wanted(("scale", step.item.chain, k, scale), 1, (0, self.config.prm_entries))

    def wanted_requant(self, step: Step, k: int, layer: TiledLayer, count: int) -> Wanted:
        """The requantisation of layer ``k`` of a step's chain for ``count`` valid elements."""
        item = step.item
        key = ("requant", item.chain, k, 0 if layer.uniform else item.lo, count)
        return Wanted(key, 1 if layer.uniform else item.hi - item.lo, (0, self.config.prm_entries))

    def _next_use(self, key: Hashable) -> float:
        uses = self._uses.get(key, [])
        at = bisect_right(uses, self._now)
        return uses[at] if at < len(uses) else float("inf")

    # -- loads -----------------------------------------------------------------------------------------

    def is_stored(self, step: Step) -> bool:
        """Whether all that a step reads was stored before."""
        return self.written.issuperset(self._items.reads(step.item, step.piece, step.finishes))

    def begin(self, step: Step) -> None:
        """The work of this step comes next."""
        self._now = step.number
        for lane in self._lanes:
            lane.next = max(lane.next, step.number)

    def fetch(self, lane: Lane, step: Step, wanted: Sequence[Wanted], must: bool = False) -> dict[Hashable, int] | None:
        """Places of blocks, which are loaded where they are not there; None without room beside what is held.

        With ``must`` everything else makes way.
        """
        taken = lane.memory.take(wanted, must)
        if taken is None:
            return None
        places, missing = taken
        node = self._chains[step.item.chain].leader.node
        self._writer.begin(node.layer, node.name)
        if not missing and lane is not self.weights:
            return places
        self._bus = max(self._bus, self._before)
        sizes = {block.key: block.size for block in wanted}
        beat = self.config.beat_bytes
        for key in missing:
            if isinstance(key, Patch):
                dram = self._items.read(key)
                self._mover.load(
                    key, self._dram.tensors[key.tensor], places[key], self._wrap, dram if len(dram) else None
                )
                self._bus += sizes[key] * self.config.act_unit_bytes / beat
            elif lane is self.weights:
                self._begun[key] = 0
            elif lane is self.constants:
                self._writer.load_prm(places[key], self._prm_entries(step.item, key))
                self._bus += sizes[key] * self.config.prm_entry_bytes / beat
        if lane is self.weights and wanted:
            self._stream(step, places[wanted[0].key])
        return places

    def _stream(self, step: Step, base: int) -> bool:
        """Load more of a step's weights: all for this step and the next, else as much as the bus has time for."""
        key, weights, streamed = self._weights_key(step), self.weights_of(step)[1], self._streamed(step)
        while key in self._begun:
            if self._far(step):
                return False
            start = self._begun.pop(key)
            part = weights[start : start + WEIGHTS_OF_LOAD]
            count = len(part)
            if count:
                self._writer.load_weights(base + start, part)
            elif streamed is not None:
                count = streamed.entries
                self._load_blocks(step, streamed, base + start)
            self._bus += count * self.config.wgt_entry_bytes / self.config.beat_bytes
            if start + count < len(weights) + (streamed.entries if streamed is not None else 0):
                self._begun[key] = start + count
        return True

    def _load_blocks(self, step: Step, part: Streamed, base: int) -> None:
        """Load weights that are a tensor in DRAM."""
        item, (form, segment, offset) = step.item, self._dram.blocked[part.name]
        patches = self._chains[item.chain].leader.weight_patches(item.lo, item.hi, item.pieces[step.piece])
        writers = np.concatenate([self._items.read(patch) for patch in patches])
        fields = {**form.loaded(part, offset), "sram": base, "segment": segment}
        self._writer.load_blocks(fields, writers if len(writers) else None)

    def _far(self, step: Step) -> bool:
        """Whether a step comes late enough to leave the bus to others, and the bus has no time."""
        return step.number > self._now + 1 and self._bus > self._array

    def hold(self, lane: Lane, step: Step, wanted: Sequence[Wanted]) -> None:
        """These blocks, fetched for a step, stay until they are released."""
        if step.number not in lane.holders:
            lane.holders.add(step.number)
            lane.memory.keep(block.key for block in wanted)

    def release(self, lane: Lane, step: Step) -> None:
        """A step is done with its blocks."""
        lane.next = max(lane.next, step.number + 1)
        if step.number in lane.holders:
            lane.holders.remove(step.number)
            lane.memory.release(block.key for block in lane.wanted(step))

    def ahead(self) -> None:
        """Load what next steps want, those that are next first."""
        lanes = list(self._lanes)
        while lanes:
            lane = min(lanes, key=lambda lane: lane.next)
            if lane.next >= len(self._steps) or not self._fetch_next(lane):
                lanes.remove(lane)

    def _fetch_next(self, lane: Lane) -> bool:
        step, state = self._steps[lane.next], (lane.next, lane.memory.state)
        if lane.full == state or self._far(step):
            return False
        wanted = lane.wanted(step)
        in_dram = lane.memory is self.patches.memory or (lane is self.weights and self._streamed(step) is not None)
        if in_dram and wanted and not self.is_stored(step):
            return False
        if wanted and self.fetch(lane, step, wanted) is None:
            lane.full = state
            return False
        if lane is self.patches:
            self.prepare(step)
        self.hold(lane, step, wanted)
        if lane is self.weights and self._weights_key(step) in self._begun:
            return False
        lane.next += 1
        return True

    def prepare(self, step: Step) -> None:
        """Load the micro-ops of a step on the array."""
        item, index = step.item, step.piece
        leader, patch = self._chains[item.chain].leader, self._items.patches(step.item, step.piece, step.finishes)[0]
        if isinstance(leader, GemmLayer | WindowLayer):
            self._worker.prepare(leader, item.pieces[index], self.weights_of(step)[0], patch)

    def worked(self, cycles: float) -> None:
        """GEMM has a step's work before it, which begins when its loads are done."""
        waits = self._now not in self.patches.holders  # else they came ahead
        self._before, self._array = self._array, max(self._array, self._bus * waits) + cycles

    def _prm_entries(self, item: Item, key: Hashable) -> NDArray[np.int32]:
        assert isinstance(key, tuple)
        if key[0] == "scale":
            scale = key[3]
            return uniform_prm(scale.bias, scale.multiplier, scale.offset, scale.shift, self.config)
        return self._chains[item.chain].layers[key[2]].requant_entries(key[4], item.lo, item.hi)
