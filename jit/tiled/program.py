"""A program of the tiled plan: every tensor in DRAM, every layer cut as :mod:`tilewright.jit.tiled.cost` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.config import Config
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.tensors import Lowered
from tilewright.jit.tiled.build import tiled_layers
from tilewright.jit.tiled.cost import Chosen, choose
from tilewright.jit.tiled.dram import Stored
from tilewright.jit.tiled.emit import TileEmitter
from tilewright.jit.writer import INPUT, OUTPUT, SCRATCH, InstructionWriter


class TiledProgram:
    """The tiled form of a graph, prepared once; its tiles are chosen as if memories were those of any smaller Config.

    ``lowered`` is not bound. ``offsets``: byte offsets of inputs (by packed tensor) and outputs (by graph tensor).
    """

    def __init__(self, graph: Graph, lowered: Lowered, config: Config) -> None:
        self.lowered, self._config = lowered, config
        self._stored, self.offsets, self._sizes, self._rows = _lay_out(graph, lowered, config)
        self._forms = [tiled_layers(node, config) for node in lowered.nodes]
        self._shapes = [[form.shape([self._stored[t].units for t in form.sources]) for form in f] for f in self._forms]

    def choose(self, plan: Config) -> tuple[tuple[int, Chosen], ...]:
        """For each node, which of its forms and the cut that is fastest with ``plan``'s memories."""
        result = []
        for node, shapes in zip(self.lowered.nodes, self._shapes, strict=True):
            best = ((k, choose(shape, plan, self._config)) for k, shape in enumerate(shapes))
            found = [(k, chosen) for k, chosen in best if chosen is not None]
            if not found:
                raise PlaceError(f"{node.name}: not even one pixel of one vector fits {self._config.name}")
            result.append(min(found, key=lambda form: form[1].cycles))
        return tuple(result)

    def program(self, choice: Sequence[tuple[int, Chosen]], meta: dict[str, Any]) -> Program:
        """The program of a choice."""
        layers = [forms[k] for forms, (k, _) in zip(self._forms, choice, strict=True)]
        writer = InstructionWriter(self._config, self._rows)
        TileEmitter(self._config, layers, [chosen for _, chosen in choice], self._stored, writer).run()
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
) -> tuple[dict[str, Stored], dict[str, int], dict[int, int], int]:
    """Every tensor's place, byte offsets of inputs and outputs, segment sizes, and rows that are written."""
    ends = {INPUT: 0, OUTPUT: 0, SCRATCH: 0}
    outputs = {lowered.outputs[t][0] for t in graph.outputs}
    stored: dict[str, Stored] = {}
    starts: dict[str, int] = {}
    rows = 0
    for name, (height, width, units) in lowered.tensors.items():
        segment = INPUT if name in lowered.packs else OUTPUT if name in outputs else SCRATCH
        starts[name] = ends[segment]
        written = segment != INPUT
        stored[name] = Stored(
            segment, ends[segment] // config.beat_bytes, height, width, units, rows if written else None,
        )  # fmt: skip
        rows += height * written
        ends[segment] += whole_pages(height * width * units * config.act_unit_bytes)
    offsets = {name: starts[name] for name in lowered.packs}
    offsets |= {t: starts[lowered.outputs[t][0]] for t in graph.outputs}
    return stored, offsets, {segment: max(PAGE, end) for segment, end in ends.items()}, rows
