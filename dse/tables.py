"""A network on one Config as plain objects: layers as tasks, and the buffers between them.

For those who count what a network does; the time model walks over the tables themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.config import Config
from tilewright.dse import arrays as a
from tilewright.dse import buffers as b
from tilewright.dse import lowering as n
from tilewright.dse.arrays import NetworkArrays, Table, config_array, network_arrays
from tilewright.dse.buffers import Bound, bind
from tilewright.dse.lowering import lowered
from tilewright.dse.shapes import Layer, NetworkShape
from tilewright.jit.kernels.base import split_evenly


@dataclass
class BufferRow:
    """A tensor in act: rows (padding counted), and whether LOAD or STORE touches it."""

    name: str
    height: int
    top: int
    bottom: int
    row_units: int
    loaded: bool = False
    stored: bool = False
    source: int = -1  #: for a copy of a spilled tensor: the buffer stored in DRAM

    @property
    def rows(self) -> int:
        """Rows of the tensor, padding included."""
        return self.top + self.height + self.bottom


@dataclass
class NodeRow:
    """A layer as tasks: ``parts`` of a row, row by row or (``groups`` > 0) chunk by chunk over groups of rows."""

    layer: Layer
    gemm: bool
    chunks: list[tuple[int, int, int]]  #: wgt entries, prm entries, micro-op bytes
    parts: list[tuple[int, int, int, int]]  #: chunk, GEMM cycles, RESCALE cycles, REQUANTIZE cycles
    gemm_instructions: int
    groups: int = 0
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)  #: buffer, stride, offset, span
    output: int = -1
    twin: int = -1


def build(
    shape: NetworkShape, config: Config, spilled: frozenset[str] = frozenset()
) -> tuple[list[NodeRow], list[BufferRow]]:
    """All layers and the buffers between them; tensors in ``spilled`` go through DRAM.

    ``t.alu`` in ``spilled``: only what ALU reads of tensor t.
    """
    network, c = network_arrays(shape), config_array(config)
    nodes = lowered(shape, network, c)
    spills = np.array([1 if t in spilled else 2 if f"{t}.alu" in spilled else 0 for t in network.names], np.int64)
    bound = bind(network, nodes, c, spills)
    rows = [_node_row(layer, nodes[k], bound, network, k) for k, layer in enumerate(shape.layers)]
    return rows, [_buffer_row(k, bound, network, shape) for k in range(len(bound.buffers))]


def _node_row(layer: Layer, node: Table, bound: Bound, network: NetworkArrays, number: int) -> NodeRow:
    v = [int(value) for value in node]
    ranges = split_evenly(v[n.N_VECTORS], -(-v[n.N_VECTORS] // v[n.N_PIECES]))
    chunks = [
        (
            v[n.N_WGT_FIXED] + (hi - lo) * v[n.N_WGT_EACH],
            v[n.N_PRM_FIXED] + (hi - lo) * v[n.N_PRM_EACH],
            0 if k else v[n.N_UOPS],
        )
        for k, (lo, hi) in enumerate(ranges)
    ]
    sizes = [(k, y - x) for k, (lo, hi) in enumerate(ranges) for x, y in split_evenly(hi - lo, v[n.N_ROOM])]
    parts = [
        (k, m * v[n.N_GEMM_EACH] + v[n.N_GEMM_FIXED], m * v[n.N_TERMS_EACH], m * v[n.N_OUT_EACH]) for k, m in sizes
    ]
    first = network.layers[number, a.L_EDGE]
    span = range(first, first + network.layers[number, a.L_EDGES])
    edges = [tuple(int(value) for value in (bound.edge_buffer[e], *bound.windows[e])) for e in span]
    instructions = v[n.N_INSTRUCTIONS] if v[n.N_GEMM] else 0
    return NodeRow(
        layer, bool(v[n.N_GEMM]), chunks, parts, instructions, v[n.N_GROUPS], edges,  # type: ignore[arg-type]
        int(bound.outputs[number, 0]), int(bound.outputs[number, 1]),
    )  # fmt: skip


def _buffer_row(index: int, bound: Bound, network: NetworkArrays, shape: NetworkShape) -> BufferRow:
    row = [int(v) for v in bound.buffers[index]]
    name = network.names[row[b.B_TENSOR]]
    reader = shape.layers[row[b.B_USER]].name
    label = {b.TWIN: f"{name}.alu", b.COPY: f"{name}@{reader}", b.PATCHES: f"{name}.{reader}"}
    return BufferRow(
        label.get(row[b.B_KIND], name), row[b.B_HEIGHT], row[b.B_TOP], row[b.B_BOTTOM], row[b.B_UNITS],
        bool(row[b.B_LOADED]), bool(row[b.B_STORED]), row[b.B_SOURCE],
    )  # fmt: skip
