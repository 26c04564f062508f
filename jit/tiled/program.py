"""A program of the tiled plan: every tensor in DRAM, every layer cut as :mod:`tilewright.jit.tiled.cost` says."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.config import Config
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.jit.emit.writer import INPUT, OUTPUT, SCRATCH, InstructionWriter
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.tiled.chains import Chain
from tilewright.jit.tiled.cost import Chosen, choose
from tilewright.jit.tiled.dram import Dram, Stored, StoredBlocks
from tilewright.jit.tiled.emit import TileEmitter
from tilewright.jit.tiled.resample import ResampleLayer
from tilewright.jit.tiled.shapes import chain_shape, tiled_forms
from tilewright.jit.tiled.steps import Items, Order, count_steps

_ROUNDS = 4  #: of asking who runs beside whom
#: Of a layer: a step takes some tenth of a millisecond to plan and to write, each time, and some kilobytes till then.
MOST_STEPS = 1 << 16
_SIDE_SHARE = 4  #: of the banks of act, one in so many is for layers that ALU runs beside others


@dataclass(frozen=True)
class Choice:
    """The tiles of all chains, and the cycles that they take by a coarse count."""

    items: Items
    cycles: float

    @property
    def key(self) -> Hashable:
        """What tells it from other choices for the same graph."""
        return tuple((type(chain.leader), cut) for chain, cut in zip(self.items.chains, self.items.chosen, strict=True))


class TiledProgram:
    """The tiled form of a graph, prepared once; its tiles are chosen as if memories were those of any smaller Config.

    ``lowered`` is not bound. ``offsets``: byte offsets of inputs (by packed tensor) and outputs (by graph tensor).
    """

    def __init__(self, graph: Graph, lowered: Lowered, config: Config) -> None:
        self.lowered, self._config = lowered, config
        self._forms = tiled_forms(lowered, config)
        self._dram, self.offsets, self._sizes = _lay_out(graph, lowered, config)
        self._shapes = [[chain_shape(form, lowered) for form in forms] for forms in self._forms]
        self._choices: dict[Config, Choice] = {}

    def choose(self, plan: Config) -> Choice:
        """For each chain the form and the cut that are fastest with ``plan``'s memories.

        Where ALU's layers can run beside others, both get banks of act of their own.
        """
        if plan not in self._choices:
            self._choices[plan] = self._choice(plan)
        return self._choices[plan]

    def _choice(self, plan: Config) -> Choice:
        banks = self._config.act_banks
        shared = banks - max(1, banks // _SIDE_SHARE)
        parts: dict[int, tuple[int, int] | None] = {
            number: None if forms[0].uses_gemm else (shared, banks) for number, forms in enumerate(self._forms)
        }
        for _ in range(_ROUNDS):
            order = self._order(plan, parts)
            hosts = {host for _, host in order.beside if parts[host] is None}
            if not hosts:
                break
            parts |= dict.fromkeys(hosts, (0, shared))
        sides = {side for side, _ in order.beside}
        idle = [k for k, part in parts.items() if part == (shared, banks) and k not in sides]
        if idle:
            order = self._order(plan, {**parts, **dict.fromkeys(idle)})
        return Choice(order.items, order.cycles)

    def _order(self, plan: Config, parts: Mapping[int, tuple[int, int] | None]) -> Order:
        """The order of steps, with the best form and cut of each chain in its banks of act, or in all of it."""
        best = [self._best(number, plan, part) for number, part in parts.items()]
        order = Order(Items([chain for chain, _ in best], [chosen for _, chosen in best]))
        deque(order, maxlen=0)
        return order

    def _best(self, number: int, plan: Config, banks: tuple[int, int] | None) -> tuple[Chain, Chosen]:
        forms = zip(self._forms[number], self._shapes[number], strict=True)
        best = [(chain, choose(shape, plan, self._config, banks)) for chain, shape in forms]
        found = [(chain, chosen) for chain, chosen in best if chosen is not None]
        if not found and banks is not None:
            return self._best(number, plan, None)
        if not found:
            name = self._forms[number][0].leader.node.name
            raise PlaceError(f"{name}: not even one pixel of one vector fits {self._config.name}")
        chain, chosen = min(found, key=lambda form: form[1].cycles)
        if (steps := count_steps(chain, chosen.cut)) > MOST_STEPS:
            name = chain.leader.node.name
            raise PlaceError(f"{name}: takes {steps:,} steps on {plan.name}; at most {MOST_STEPS:,} are planned")
        if isinstance(chain.leader, ResampleLayer):
            chain.leader.resampling.check_rescales(chosen.cut.columns)
        return chain, chosen

    def program(self, choice: Choice, meta: dict[str, Any]) -> Program:
        """The program of a choice."""
        writer = InstructionWriter(self._config, choice.items.count)
        TileEmitter(self._config, choice.items, self._dram, writer).run()
        sizes = self._sizes
        segments = [
            Segment("input", "input", sizes[INPUT], repeat_stride=sizes[INPUT]),
            Segment("output", "output", sizes[OUTPUT], repeat_stride=sizes[OUTPUT]),
        ]
        if self._sizes[SCRATCH]:
            segments.append(Segment("scratch", "scratch", sizes[SCRATCH]))
        return writer.program(segments, meta)


def _lay_out(graph: Graph, lowered: Lowered, config: Config) -> tuple[Dram, dict[str, int], dict[int, int]]:
    """Every tensor's place, byte offsets of inputs and outputs, and segment sizes. What is read as weights alone lies
    there in no other form."""
    ends = {INPUT: 0, OUTPUT: 0, SCRATCH: 0}
    outputs = {lowered.outputs[t][0] for t in graph.outputs}
    read = outputs.union(*(node.inputs for node in lowered.nodes))
    weights = {form.tensor for form in lowered.blocked.values()}
    for node in lowered.nodes:
        if node.output in weights and node.lattice.across > 1:
            raise PlaceError(f"{node.name}: writes every {node.lattice.across}th pixel of what is read as weights")
    weights -= read
    stored: dict[str, Stored] = {}
    starts: dict[str, int] = {}
    for name, (height, width, units) in lowered.tensors.items():
        if name in weights:
            continue
        segment = INPUT if name in lowered.packs else OUTPUT if name in outputs else SCRATCH
        starts[name] = ends[segment]
        stored[name] = Stored(segment, ends[segment] // config.beat_bytes, height, width, units)
        ends[segment] += whole_pages(height * width * units * config.act_unit_bytes)
    blocked: dict[str, StoredBlocks] = {}
    for name, form in lowered.blocked.items():
        segment = INPUT if form.packed else SCRATCH
        starts[name] = ends[segment]
        blocked[name] = StoredBlocks(form, segment, ends[segment])
        ends[segment] += whole_pages(form.entries * config.wgt_entry_bytes)
    offsets = {name: starts[name] for name in lowered.packs}
    offsets |= {t: starts[lowered.outputs[t][0]] for t in graph.outputs}
    return Dram(stored, blocked), offsets, {**ends, **{k: max(PAGE, ends[k]) for k in (INPUT, OUTPUT)}}
