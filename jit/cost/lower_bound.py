"""The lower bound of a layer and of a network: what no schedule can beat (design, section 6; ``docs/numbers.md``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.cost.footprint import input_bytes
from tilewright.jit.kernels.base import Node, prm_entries
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.global_pool import GlobalPoolNode
from tilewright.jit.kernels.matmul import MatMulNode
from tilewright.jit.kernels.of_weights import of_weights
from tilewright.jit.kernels.partial_sums import PartialSumsNode
from tilewright.jit.kernels.transposed import TransposedNode
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower.lowering import lower
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.plan import strips


@dataclass(frozen=True)
class LowerBound:
    """What one layer cannot do without: cycles of the array and of ALU, bytes read and written over the bus.

    ``macs``: multiply-accumulates of the operator, zero weights included. ``useful``: multiplications of the array that
    its result is made of: its MACs, less those in blocks of zeros; of a pool one for each value that it adds up.
    """

    array_cycles: int
    alu_cycles: int
    read_bytes: int
    write_bytes: int
    macs: int
    useful: int

    def cycles(self, config: Config) -> int:
        """Cycles that the layer takes by itself at least: engines and both directions of the bus overlap."""
        return network_bound([self], config)


def network_bound(bounds: Sequence[LowerBound], config: Config) -> int:
    """Cycles of layers together: the most that one of array, ALU, read channel and write channel has to do."""
    read, written = (sum(getattr(f, key) for f in bounds) for key in ("read_bytes", "write_bytes"))
    array, alu = (sum(getattr(f, key) for f in bounds) for key in ("array_cycles", "alu_cycles"))
    return max(array, alu, -(-max(read, written) // config.beat_bytes))


def layer_bounds(graph: g.Graph, config: Config) -> list[LowerBound]:
    """The lower bound of each operator, whatever form a program has: blocks with weights, whole columns in window mode,
    patches of an input that is packed as such, no copies.

    What is read of an input counts for the first layer that reads it. Raises :class:`PlaceError`.
    """
    lowered = lower(graph, config, joined=True)
    inputs = {name: input_bytes(name, lowered) for name in lowered.packs}
    seen: set[bytes] = set()
    return [_layer_bound(graph, op, number, lowered, config, inputs, seen) for number, op in enumerate(graph.ops)]


def _layer_bound(
    graph: g.Graph, op: g.Op, layer: int, lowered: Lowered, config: Config, inputs: dict[str, int], seen: set[bytes]
) -> LowerBound:  # fmt: skip
    nodes = [n for n in lowered.nodes if n.layer == layer and n.output not in lowered.copies]
    constants = sum(_parameter_bytes(n, seen) for n in nodes)
    if isinstance(op, g.Convolution):  # of other layers they are ones, alike in all of them
        constants += sum(n.constant_entries()[0] for n in nodes) * config.wgt_entry_bytes
    streamed = [n.weights for n in nodes if isinstance(n, MatMulNode)]
    read = sum(inputs.pop(t, 0) for t in (*(t for n in nodes for t in n.inputs), *streamed))
    written = 0
    if op.output in graph.outputs:
        written = sum(math.prod(lowered.tensors[t]) for t in lowered.outputs[op.output]) * config.act_unit_bytes
    array = sum(_array_cycles(n, config) for n in nodes)
    macs = op.macs(graph)
    return LowerBound(
        array, sum(n.alu_work for n in nodes), constants + read, written, macs,
        min(macs or op.additions(graph), array * config.array_macs),
    )  # fmt: skip


def _parameter_bytes(node: Node, seen: set[bytes]) -> int:
    """Bytes of a node's prm entries that no node had before."""
    if isinstance(node, TransposedNode):
        return sum(_parameter_bytes(phase, seen) for phase in node.by_pixel())
    if isinstance(node, ConvNode | WindowNode):
        requants = [node.requant] if isinstance(node, ConvNode) else [*node.requants.values()]
        requants = [*node.planes] if isinstance(node, PartialSumsNode) else requants
        tables = [prm_entries(r, node.config, node.vectors)[: 1 if r.uniform else None] for r in requants]
    else:
        tables = [node.constants(0, 0).prm]
    new = {entry.tobytes() for table in tables for entry in table} - seen
    seen |= new
    return len(new) * node.config.prm_entry_bytes


def _array_cycles(node: Node, config: Config) -> int:
    if isinstance(node, TransposedNode):
        return sum(_array_cycles(phase, config) for phase in node.by_pixel())
    if isinstance(node, ConvNode):
        return node.height * node.width * node.filled_blocks
    if isinstance(node, MatMulNode):
        return node.height * node.width * node.product_blocks
    if isinstance(node, WindowNode):
        return min(_window_cycles(node, config), _diagonal_cycles(node, config))
    if isinstance(node, GlobalPoolNode):
        return node.in_height * node.in_width * -(-node.out.shape[3] // config.lanes)
    return 0


def _window_cycles(node: WindowNode, config: Config) -> int:
    kw, stride = node.taps.shape[1], node.strides[1]
    columns = (node.width - 1) * stride + kw if stride <= kw else node.width * kw
    mode = strips.emit_mode(config)
    emits = node.height * node.width * strips.emit_cycles(mode)
    most = strips.MOST_ROWS if node.dilation_y == 1 else 1
    pushes = [
        strips.least_pushes(
            node.height, rows, kw, min(stride, kw), node.strides[0], most, config.block_in, mode
        ) for rows in range(node.taps.shape[0] + 1)
    ]  # fmt: skip
    each = 1 + node.may_have_twins  # rows that a push takes
    return int(np.maximum(columns * -(-np.array(pushes) // each)[node.kernel_rows()], emits).sum())


def _diagonal_cycles(node: WindowNode, config: Config) -> int:
    """What tiles may take instead: a dense layer of a block for each tap of each unit of channels."""
    channels, lanes = node.out.shape[3], config.lanes
    units = -(-channels // lanes)
    if node.taps.shape[2] == 1:
        return node.height * node.width * units * int(np.count_nonzero(node.taps))
    taps = np.zeros((*node.taps.shape[:2], units * lanes), np.bool_)
    taps[:, :, :channels] = node.taps
    return node.height * node.width * int(taps.reshape(*taps.shape[:2], units, lanes).any(axis=3).sum())


def useful_macs(graph: g.Graph, op: g.Op) -> int:
    """Of its MACs those that the array does in every form of a layer: of weights that are not zero; those of
    recurrent layers not counted."""
    if op.alone:
        return 0
    macs = op.macs(graph)
    if not isinstance(op, g.Convolution):
        return macs
    return macs * nonzero(op.weight) // max(1, op.weight.size)


def nonzero(weight: NDArray[np.integer]) -> int:
    """How many of the weights are not zero."""
    return of_weights(weight, "nonzero count", lambda: int(np.count_nonzero(weight)))
