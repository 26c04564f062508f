"""Where a program finds its tensors in DRAM, and the steps around it that pack and unpack them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TypeVar

from tilewright.config import Config
from tilewright.isa.program import PAGE, whole_pages
from tilewright.jit.emit.emitter import Image
from tilewright.jit.emit.writer import INPUT, OUTPUT, SCRATCH
from tilewright.jit.graph import Graph
from tilewright.jit.lower.tensors import Lowered
from tilewright.runtime.steps import PackStep, UnpackStep

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class DramLayout:
    """Byte offsets of tensors in their segments, and the segments' sizes by number."""

    inputs: dict[str, int]
    outputs: dict[str, int]  #: by graph tensor
    images: dict[str, Image]  #: by on-chip tensor: the output itself or a slice of it
    scratch: dict[str, int]
    sizes: dict[int, int]


def dram_layout(graph: Graph, lowered: Lowered, config: Config) -> DramLayout:
    """Every input, output and spilled tensor on pages of its own."""
    sizes = {}

    def lay_out(segment: int, units: dict[_Key, int]) -> dict[_Key, int]:
        offsets, position = {}, 0
        for name, count in units.items():
            offsets[name] = position
            position += whole_pages(count * config.act_unit_bytes)
        sizes[segment] = max(PAGE, position)
        return offsets

    buffers = lowered.buffers
    held = {t: tuple(lowered.outputs[t]) for t in graph.outputs}
    pixels = {parts: sum(buffers[part].units for part in parts) for parts in held.values()}
    places = lay_out(OUTPUT, {p: buffers[p[0]].height * buffers[p[0]].width * units for p, units in pixels.items()})
    images: dict[str, Image] = {}
    for parts, units in pixels.items():
        first = 0
        for part in parts:
            images[part] = Image(places[parts] + first * config.act_unit_bytes, units)
            first += buffers[part].units
    return DramLayout(
        lay_out(INPUT, {t: pack.size // config.act_unit_bytes for t, pack in lowered.packs.items()}),
        {t: places[parts] for t, parts in held.items()},
        images,
        lay_out(
            SCRATCH,
            {t: buffers[t].rows * buffers[t].stride for t in dict.fromkeys(lowered.spills.values())}
            | {
                name: b.entries * config.wgt_entry_bytes // config.act_unit_bytes
                for name, b in lowered.blocked.items()
                if not b.packed
            },
        ),
        sizes,
    )


def edges(
    graph: Graph, lowered: Lowered, offsets: dict[str, int], config: Config
) -> tuple[list[PackStep], list[UnpackStep]]:
    """The steps around a program, as number 0: those that pack its inputs and those that unpack its outputs."""
    packs = [replace(pack, offset=offsets[name]) for name, pack in lowered.packs.items() if name in offsets]
    return packs, [_unpack(graph, name, lowered, offsets, config) for name in graph.outputs]


def _unpack(graph: Graph, tensor: str, lowered: Lowered, offsets: dict[str, int], config: Config) -> UnpackStep:
    parts = lowered.outputs[tensor]
    shape = lowered.specs[parts[0]].shape
    whole = (1, shape[1], shape[2], sum(lowered.specs[part].shape[3] for part in parts))
    return UnpackStep(
        tensor=tensor, segment=OUTPUT, shape=whole, tensor_shape=graph.tensors[tensor].shape, lanes=config.lanes,
        units=sum(lowered.units(part) for part in parts), offset=offsets[tensor], batch=config.batch,
    )  # fmt: skip
