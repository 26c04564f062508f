"""A program of the tiled plan: every tensor in DRAM, every layer cut as :mod:`tilewright.jit.tiled.choose` says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.config import Config
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import PlaceError
from tilewright.jit.tensors import Lowered
from tilewright.jit.tiled.build import tiled_layers
from tilewright.jit.tiled.choose import Chosen, choose
from tilewright.jit.tiled.dram import Stored
from tilewright.jit.tiled.emit import TileEmitter
from tilewright.jit.tiled.layers import TiledLayer
from tilewright.jit.writer import INPUT, OUTPUT, SCRATCH, InstructionWriter


def tiled_program(
    graph: Graph, lowered: Lowered, config: Config, plan: Config, meta: dict[str, Any]
) -> tuple[Program, dict[str, int]]:
    """The program, and the byte offsets of its inputs (by packed tensor) and outputs (by graph tensor).

    Tiles are chosen as if the memories were ``plan``'s. ``lowered`` is bound with nothing in DRAM; its inputs are
    packed without padding from here on.
    """
    for name in lowered.rows_inputs:
        lowered.packs[name] = replace(lowered.packs[name], padding=(0, 0, 0, 0))
    stored, offsets, sizes, rows = _lay_out(graph, lowered, config)
    layers: list[TiledLayer] = []
    chosen: list[Chosen] = []
    for node in lowered.nodes:
        units = [stored[name].units for name in node.inputs]
        forms = [(layer, found) for layer in tiled_layers(node, config) if (found := choose(layer, units, plan))]
        if not forms:
            raise PlaceError(f"{node.name}: not even one pixel of one vector fits {config.name}")
        layer, found = min(forms, key=lambda form: form[1].cycles)
        layers.append(layer)
        chosen.append(found)
    writer = InstructionWriter(config, rows)
    TileEmitter(config, layers, chosen, stored, writer).run()
    segments = [
        Segment("input", "input", sizes[INPUT], repeat_stride=sizes[INPUT]),
        Segment("output", "output", sizes[OUTPUT], repeat_stride=sizes[OUTPUT]),
    ]
    if any(place.segment == SCRATCH for place in stored.values()):
        segments.append(Segment("scratch", "scratch", sizes[SCRATCH]))
    return writer.program(segments, meta), offsets


def _lay_out(
    graph: Graph, lowered: Lowered, config: Config
) -> tuple[dict[str, Stored], dict[str, int], dict[int, int], int]:
    """Every tensor's place, byte offsets of inputs and outputs, segment sizes, and rows that are written."""
    ends = {INPUT: 0, OUTPUT: 0, SCRATCH: 0}
    outputs = {lowered.outputs[t][0] for t in graph.outputs}
    stored: dict[str, Stored] = {}
    starts: dict[str, int] = {}
    rows = 0
    for name, buffer in lowered.buffers.items():
        segment = INPUT if name in lowered.packs else OUTPUT if name in outputs else SCRATCH
        starts[name] = ends[segment]
        written = segment != INPUT
        stored[name] = Stored(
            segment, ends[segment] // config.beat_bytes, buffer.height, buffer.width, buffer.units,
            rows if written else None,
        )  # fmt: skip
        rows += buffer.height * written
        ends[segment] += whole_pages(buffer.height * buffer.width * buffer.units * config.act_unit_bytes)
    offsets = {name: starts[name] for name in lowered.packs}
    offsets |= {t: starts[lowered.outputs[t][0]] for t in graph.outputs}
    return stored, offsets, {segment: max(PAGE, end) for segment, end in ends.items()}, rows
