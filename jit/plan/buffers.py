"""Which tensors act holds, in which form, and which go through DRAM: a network's edges bound to buffers.

A tensor that goes through DRAM is read from a copy per consumer, loaded from there; one made on the chip that both
GEMM and ALU read has a duplicate for ALU. Binding again with other spills is cheap, so a planner may try many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.jit.plan import tables as t
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.tables import Table

(B_TENSOR, B_KIND, B_USER, B_HEIGHT, B_TOP, B_LEFT, B_BOTTOM, B_RIGHT, B_ROWS, B_UNITS, B_LOADED, B_STORED, B_SOURCE,
 B_CAPACITY, B_FIRST, B_READ, B_READS, B_MAKE, B_MAKES, B_GROUP, B_LAST_GROUP, B_STEP) = range(22)  # fmt: skip
PLAIN, DUPLICATE, COPY = range(3)
KEPT, SPILLED, ALU_SPILLED = range(3)  #: a tensor stays; goes through DRAM; does so for ALU alone


@dataclass(frozen=True)
class Bound:
    """Tables of one binding. ``outputs``: buffer and duplicate (-1: none) of each layer; ``readers``: edges by
    buffer."""

    buffers: Table
    edge_buffer: Table
    outputs: Table
    readers: Table

    def first(self, count: int) -> Bound:
        """A copy with only so many buffers."""
        return Bound(self.buffers[:count].copy(), self.edge_buffer.copy(), self.outputs.copy(), self.readers.copy())


def room_for(network: NetworkTables) -> Bound:
    """Tables large enough for any binding of a network."""
    edges, layers = len(network.edges), len(network.layers)
    most = 2 * len(network.tensors) + 2 * edges
    return Bound(
        np.empty((most, 22), np.int64), np.empty(edges, np.int64), np.empty((layers, 2), np.int64),
        np.empty(edges, np.int64),
    )  # fmt: skip


@compiled
def bind_buffers(
    layers: Any, edges: Any, tensors: Any, spills: Any, buffers: Any, edge_buffer: Any, outputs: Any, readers: Any
) -> int:
    """Fills the tables of :class:`Bound`; returns how many buffers there are."""
    count = 0
    main = np.full(len(tensors), -1, np.int64)
    duplicate = np.full(len(tensors), -1, np.int64)
    by_gemm, by_alu = np.zeros(len(tensors), np.bool_), np.zeros(len(tensors), np.bool_)
    for e in range(len(edges)):
        x, gemm = edges[e, t.E_TENSOR], layers[edges[e, t.E_LAYER], t.L_KIND] != t.ELEMENTWISE
        if tensors[x, t.T_MAKES] and (spills[x] == KEPT or (spills[x] == ALU_SPILLED and gemm)):
            by_gemm[x] |= gemm
            by_alu[x] |= not gemm
    for layer in range(len(layers)):
        gemm = layers[layer, t.L_KIND] != t.ELEMENTWISE
        for e in range(layers[layer, t.L_EDGE], layers[layer, t.L_EDGE] + layers[layer, t.L_EDGES]):
            x = edges[e, t.E_TENSOR]
            if not tensors[x, t.T_MAKES]:
                if main[x] < 0:
                    main[x] = count
                    count = _add(buffers, count, x, PLAIN, layer, tensors, -1)
                    buffers[main[x], B_LOADED] = 1
                edge_buffer[e] = main[x]
            elif spills[x] == SPILLED or (spills[x] == ALU_SPILLED and not gemm):
                edge_buffer[e] = count
                for known in range(layers[layer, t.L_EDGE], e):  # one copy serves all its readings
                    if edges[known, t.E_TENSOR] == x:
                        edge_buffer[e] = edge_buffer[known]
                if edge_buffer[e] == count:
                    count = _add(buffers, count, x, COPY, layer, tensors, main[x])
                    buffers[edge_buffer[e], B_LOADED] = 1
            else:
                edge_buffer[e] = duplicate[x] if duplicate[x] >= 0 and not gemm else main[x]
        x = layers[layer, t.L_OUTPUT]
        if main[x] < 0:
            main[x] = count
            count = _add(buffers, count, x, PLAIN, layer, tensors, -1)
            buffers[main[x], B_STORED] = tensors[x, t.T_OUTPUT] or spills[x] != KEPT
            if by_gemm[x] and by_alu[x]:
                duplicate[x] = count
                count = _add(buffers, count, x, DUPLICATE, layer, tensors, -1)
        outputs[layer, 0], outputs[layer, 1] = main[x], duplicate[x]
    _measure(edges, tensors, buffers[:count], edge_buffer, main)
    _sort_readers(buffers[:count], edge_buffer, readers)
    return count


@compiled
def _add(buffers: Any, number: int, tensor: int, kind: int, user: int, tensors: Any, source: int) -> int:
    row = buffers[number]
    row[:] = 0
    row[B_TENSOR], row[B_KIND], row[B_USER], row[B_SOURCE] = tensor, kind, user, source
    row[B_HEIGHT], row[B_STEP] = tensors[tensor, t.T_HEIGHT], 1
    if kind != COPY:
        row[B_MAKE], row[B_MAKES] = tensors[tensor, t.T_MAKE], tensors[tensor, t.T_MAKES]
    return number + 1


@compiled
def _measure(edges: Any, tensors: Any, buffers: Any, edge_buffer: Any, main: Any) -> None:
    """Padding, rows and units per row. Padding is what the readers want; a tensor in DRAM and its copies are alike."""
    for e in range(len(edges)):
        for side in range(4):
            row = buffers[edge_buffer[e]]
            row[B_TOP + side] = max(row[B_TOP + side], edges[e, t.E_TOP + side])
    for b in range(len(buffers)):
        if buffers[b, B_KIND] == COPY:
            row = buffers[main[buffers[b, B_TENSOR]]]
            for side in range(4):
                row[B_TOP + side] = max(row[B_TOP + side], buffers[b, B_TOP + side])
    first = 0
    for b in range(len(buffers)):
        row, x = buffers[b], buffers[b, B_TENSOR]
        if row[B_KIND] == COPY:
            for side in range(4):
                row[B_TOP + side] = buffers[main[x], B_TOP + side]
        row[B_ROWS] = row[B_TOP] + row[B_HEIGHT] + row[B_BOTTOM]
        row[B_UNITS] = (row[B_LEFT] + tensors[x, t.T_WIDTH] + row[B_RIGHT]) * tensors[x, t.T_UNITS]
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
