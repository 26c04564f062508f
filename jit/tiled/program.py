"""A program of the tiled plan: every tensor in DRAM, every layer cut as :mod:`tilewright.jit.tiled.cost` says."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.config import Config
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.tensors import Lowered
from tilewright.jit.tiled.build import tiled_layers
from tilewright.jit.tiled.chains import Chain, chains_of
from tilewright.jit.tiled.cost import Chosen, LayerShape, choose
from tilewright.jit.tiled.dram import Stored
from tilewright.jit.tiled.emit import TileEmitter
from tilewright.jit.tiled.steps import Items, Order
from tilewright.jit.writer import INPUT, OUTPUT, SCRATCH, InstructionWriter

_ROUNDS = 4  #: of asking who runs beside whom
_SIDE_SHARE = 4  #: of the banks of act, one in so many is for layers that ALU runs beside others


class TiledProgram:
    """The tiled form of a graph, prepared once; its tiles are chosen as if memories were those of any smaller Config.

    ``lowered`` is not bound. ``offsets``: byte offsets of inputs (by packed tensor) and outputs (by graph tensor).
    """

    def __init__(self, graph: Graph, lowered: Lowered, config: Config) -> None:
        self.lowered, self._config = lowered, config
        self._stored, self.offsets, self._sizes = _lay_out(graph, lowered, config)
        outputs = {lowered.outputs[t][0] for t in graph.outputs}
        self._forms = chains_of([tiled_layers(node, config) for node in lowered.nodes], outputs)
        self._shapes = [[self._shape(form) for form in forms] for forms in self._forms]

    def _shape(self, chain: Chain) -> LayerShape:
        units = [self._stored[t].units for t in chain.leader.sources]
        return chain.shape(units, self._stored[chain.last.node.output].units)

    def choose(self, plan: Config) -> tuple[tuple[int, Chosen], ...]:
        """For each chain, which of its forms and the cut that is fastest with ``plan``'s memories.

        Where ALU's layers can run beside others, both get banks of act of their own.
        """
        banks = self._config.act_banks
        shared = banks - max(1, banks // _SIDE_SHARE)
        parts: dict[int, tuple[int, int] | None] = {
            number: None if forms[0].uses_gemm else (shared, banks) for number, forms in enumerate(self._forms)
        }
        chosen = self._all(plan, parts)
        for _ in range(_ROUNDS):
            order = Order(self.items(chosen))
            deque(order, maxlen=0)
            sides, hosts = {side for side, _ in order.beside}, {host for _, host in order.beside}
            new = {k: (0, shared) if k in hosts or part == (0, shared) else part for k, part in parts.items()}
            if new == parts:
                break
            parts, chosen = new, self._all(plan, new)
        return self._all(
            plan, {k: None if part == (shared, banks) and k not in sides else part for k, part in parts.items()}
        )

    def _all(self, plan: Config, parts: Mapping[int, tuple[int, int] | None]) -> tuple[tuple[int, Chosen], ...]:
        """For each chain the best form and cut in its banks of act, in all where those are too few."""
        return tuple(self._best(number, plan, part) for number, part in parts.items())

    def _best(self, number: int, plan: Config, banks: tuple[int, int] | None) -> tuple[int, Chosen]:
        best = ((k, choose(shape, plan, self._config, banks)) for k, shape in enumerate(self._shapes[number]))
        found = [(k, chosen) for k, chosen in best if chosen is not None]
        if not found and banks is not None:
            return self._best(number, plan, None)
        if not found:
            name = self._forms[number][0].leader.node.name
            raise PlaceError(f"{name}: not even one pixel of one vector fits {self._config.name}")
        return min(found, key=lambda form: form[1].cycles)

    def items(self, choice: Sequence[tuple[int, Chosen]]) -> Items:
        """What a choice makes of the network."""
        chains = [forms[k] for forms, (k, _) in zip(self._forms, choice, strict=True)]
        return Items(chains, [chosen for _, chosen in choice])

    def program(self, choice: Sequence[tuple[int, Chosen]], meta: dict[str, Any]) -> Program:
        """The program of a choice."""
        items = self.items(choice)
        writer = InstructionWriter(self._config, items.count)
        TileEmitter(self._config, items, self._stored, writer).run()
        sizes = self._sizes
        segments = [
            Segment("input", "input", sizes[INPUT], repeat_stride=sizes[INPUT]),
            Segment("output", "output", sizes[OUTPUT], repeat_stride=sizes[OUTPUT]),
        ]
        if any(place.segment == SCRATCH for place in self._stored.values()):
            segments.append(Segment("scratch", "scratch", sizes[SCRATCH]))
        return writer.program(segments, meta)


def _lay_out(
    graph: Graph, lowered: Lowered, config: Config
) -> tuple[dict[str, Stored], dict[str, int], dict[int, int]]:
    """Every tensor's place, byte offsets of inputs and outputs, and segment sizes."""
    ends = {INPUT: 0, OUTPUT: 0, SCRATCH: 0}
    outputs = {lowered.outputs[t][0] for t in graph.outputs}
    stored: dict[str, Stored] = {}
    starts: dict[str, int] = {}
    for name, (height, width, units) in lowered.tensors.items():
        segment = INPUT if name in lowered.packs else OUTPUT if name in outputs else SCRATCH
        starts[name] = ends[segment]
        stored[name] = Stored(segment, ends[segment] // config.beat_bytes, height, width, units)
        ends[segment] += whole_pages(height * width * units * config.act_unit_bytes)
    offsets = {name: starts[name] for name in lowered.packs}
    offsets |= {t: starts[lowered.outputs[t][0]] for t in graph.outputs}
    return stored, offsets, {segment: max(PAGE, end) for segment, end in ends.items()}
