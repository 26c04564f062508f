"""Buffers in act for a lowered network, with some tensors going through DRAM: as ``jit.tensors`` binds them.

A tensor that goes through DRAM is read from a copy per consumer; one that both GEMM and ALU read has a twin; a first
convolution may read patches that the host packs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dse import arrays as a
from tilewright.dse import lowering as n
from tilewright.dse.arrays import NetworkArrays, Table, compiled
from tilewright.dse.lowering import units_per_pixel

(B_TENSOR, B_KIND, B_USER, B_HEIGHT, B_TOP, B_BOTTOM, B_ROWS, B_UNITS, B_LOADED, B_STORED, B_SOURCE, B_CAPACITY,
 B_FIRST, B_READ, B_READS, B_MAKER, B_GROUP, B_LAST_GROUP) = range(18)  # fmt: skip
PLAIN, TWIN, COPY, PATCHES = range(4)
KEPT, SPILLED, ALU_SPILLED = range(3)  #: a tensor stays; goes through DRAM; does so for ALU alone


@dataclass(frozen=True)
class Bound:
    """Tables of one binding. ``outputs``: buffer and twin (-1: none) of each layer; ``readers``: edges by buffer;
    ``windows``: rows that each edge reads, as (stride, offset, span)."""

    buffers: Table
    edge_buffer: Table
    outputs: Table
    windows: Table
    readers: Table


def room_for(network: NetworkArrays) -> Bound:
    """Tables large enough for any binding of a network."""
    edges, layers = len(network.edges), len(network.layers)
    most = 2 * len(network.tensors) + 2 * edges
    return Bound(
        np.empty((most, 18), np.int64), np.empty(edges, np.int64), np.empty((layers, 2), np.int64),
        np.empty((edges, 3), np.int64), np.empty(edges, np.int64),
    )  # fmt: skip


def bind(network: NetworkArrays, nodes: Table, c: Table, spills: Table) -> Bound:
    """The buffers of a network; ``spills`` says for each tensor what goes through DRAM."""
    room = room_for(network)
    count = bind_buffers(
        network.layers, network.edges, network.tensors, nodes, c, spills, room.buffers, room.edge_buffer,
        room.outputs, room.windows, room.readers,
    )  # fmt: skip
    return Bound(room.buffers[:count], room.edge_buffer, room.outputs, room.windows, room.readers)


@compiled
def bind_buffers(
    layers: Any, edges: Any, tensors: Any, nodes: Any, c: Any, spills: Any, buffers: Any, edge_buffer: Any,
    outputs: Any, windows: Any, readers: Any,
) -> int:  # fmt: skip
    """Fills the tables of :class:`Bound`; returns how many buffers there are."""
    count = 0
    main = np.full(len(tensors), -1, np.int64)
    twins = np.full(len(tensors), -1, np.int64)
    by_gemm, by_alu = np.zeros(len(tensors), np.bool_), np.zeros(len(tensors), np.bool_)
    for e in range(len(edges)):
        t, gemm = edges[e, a.E_TENSOR], nodes[edges[e, a.E_LAYER], n.N_GEMM] != 0
        if tensors[t, a.T_MADE] and (spills[t] == KEPT or (spills[t] == ALU_SPILLED and gemm)):
            by_gemm[t] |= gemm
            by_alu[t] |= not gemm
    for layer in range(len(layers)):
        gemm = nodes[layer, n.N_GEMM] != 0
        for e in range(layers[layer, a.L_EDGE], layers[layer, a.L_EDGE] + layers[layer, a.L_EDGES]):
            t = edges[e, a.E_TENSOR]
            windows[e, 0], windows[e, 1] = edges[e, a.E_STRIDE], edges[e, a.E_OFFSET]
            windows[e, 2] = edges[e, a.E_SPAN]
            if not tensors[t, a.T_MADE]:
                if nodes[layer, n.N_PATCHES]:
                    count = _add(buffers, count, t, PATCHES, layer, layers[layer, a.L_HEIGHT], -1)
                    edge_buffer[e] = count - 1
                    windows[e, 0], windows[e, 1], windows[e, 2] = 1, 0, 1
                else:
                    if main[t] < 0:
                        main[t] = count
                        count = _add(buffers, count, t, PLAIN, layer, tensors[t, a.T_HEIGHT], -1)
                    edge_buffer[e] = main[t]
                buffers[edge_buffer[e], B_LOADED] = 1
            elif spills[t] == SPILLED or (spills[t] == ALU_SPILLED and not gemm):
                edge_buffer[e] = count
                count = _add(buffers, count, t, COPY, layer, tensors[t, a.T_HEIGHT], main[t])
                buffers[edge_buffer[e], B_LOADED] = 1
            else:
                edge_buffer[e] = twins[t] if twins[t] >= 0 and not gemm else main[t]
        t = layers[layer, a.L_OUTPUT]
        if main[t] < 0:
            main[t] = count
            count = _add(buffers, count, t, PLAIN, layer, tensors[t, a.T_HEIGHT], -1)
            buffers[main[t], B_STORED] = tensors[t, a.T_OUTPUT] or spills[t] != KEPT
            if by_gemm[t] and by_alu[t]:
                twins[t] = count
                count = _add(buffers, count, t, TWIN, layer, tensors[t, a.T_HEIGHT], -1)
        outputs[layer, 0], outputs[layer, 1] = main[t], twins[t]
        for k in range(2):
            if outputs[layer, k] >= 0 and buffers[outputs[layer, k], B_MAKER] < 0:
                buffers[outputs[layer, k], B_MAKER] = layer
    _measure(layers, edges, tensors, c, buffers[:count], edge_buffer, main)
    _sort_readers(buffers[:count], edge_buffer, readers)
    return count


@compiled
def _add(buffers: Any, number: int, tensor: int, kind: int, user: int, height: int, source: int) -> int:
    row = buffers[number]
    row[:] = 0
    row[B_TENSOR], row[B_KIND], row[B_USER], row[B_HEIGHT], row[B_SOURCE] = tensor, kind, user, height, source
    row[B_MAKER] = -1
    return number + 1


@compiled
def _measure(layers: Any, edges: Any, tensors: Any, c: Any, buffers: Any, edge_buffer: Any, main: Any) -> None:
    """Padding, rows and units per row. Padding is what the readers want; a tensor in DRAM and its copies are alike."""
    pads = np.zeros((len(buffers), 4), np.int64)
    for e in range(len(edges)):
        if buffers[edge_buffer[e], B_KIND] != PATCHES:
            for side in range(4):
                pads[edge_buffer[e], side] = max(pads[edge_buffer[e], side], edges[e, a.E_TOP + side])
    for b in range(len(buffers)):
        if buffers[b, B_KIND] == COPY:
            for side in range(4):
                pads[main[buffers[b, B_TENSOR]], side] = max(pads[main[buffers[b, B_TENSOR]], side], pads[b, side])
    first = 0
    for b in range(len(buffers)):
        row, t = buffers[b], buffers[b, B_TENSOR]
        if row[B_KIND] == COPY:
            for side in range(4):
                pads[b, side] = pads[main[t], side]
        width, units = tensors[t, a.T_WIDTH], units_per_pixel(tensors[t, a.T_CHANNELS], c)
        if row[B_KIND] == PATCHES:
            layer = layers[row[B_USER]]
            width = layer[a.L_WIDTH]
            units = units_per_pixel(layer[a.L_KH] * layer[a.L_KW] * layer[a.L_IN_CHANNELS], c)
        row[B_TOP], row[B_BOTTOM] = pads[b, 0], pads[b, 2]
        row[B_ROWS] = row[B_TOP] + row[B_HEIGHT] + row[B_BOTTOM]
        row[B_UNITS] = (pads[b, 1] + width + pads[b, 3]) * units
        row[B_FIRST] = first
        first += row[B_ROWS]


@compiled
def _sort_readers(buffers: Any, edge_buffer: Any, readers: Any) -> None:
    for e in range(len(edge_buffer)):
        buffers[edge_buffer[e], B_READS] += 1
    position = 0
    for b in range(len(buffers)):
        buffers[b, B_READ] = position
        position += buffers[b, B_READS]
        buffers[b, B_READS] = 0
    for e in range(len(edge_buffer)):
        row = buffers[edge_buffer[e]]
        readers[row[B_READ] + row[B_READS]] = e
        row[B_READS] += 1
