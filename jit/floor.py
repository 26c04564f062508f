"""The floor of a layer and of a network: what no schedule can beat (design, section 6; ``docs/numbers.md``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.global_pool import GlobalPoolNode
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower import image_shape
from tilewright.jit.plan import strips
from tilewright.jit.tensors import Lowered


@dataclass(frozen=True)
class Floor:
    """Array cycles, bytes read and written over the bus, and multiply-accumulates of one layer."""

    array_cycles: int
    read_bytes: int
    write_bytes: int
    macs: int

    def cycles(self, config: Config) -> int:
        """The largest of array time and of the times to read and to write, which overlap."""
        return network_floor([self], config)


def network_floor(floors: Sequence[Floor], config: Config) -> int:
    """Cycles of layers together: all array time, or all bytes in one direction."""
    read, written = sum(f.read_bytes for f in floors), sum(f.write_bytes for f in floors)
    return max(sum(f.array_cycles for f in floors), -(-max(read, written) // config.beat_bytes))


def layer_floors(graph: g.Graph, lowered: Lowered, config: Config) -> list[Floor]:
    """Floor of each operator: blocks with weights, whole columns in window mode, packed patches where IC < BLOCK_IN.

    An input counts for the first layer that reads it.
    """
    seen: set[str] = set()
    return [_layer_floor(graph, op, number, lowered, config, seen) for number, op in enumerate(graph.ops)]


def _layer_floor(graph: g.Graph, op: g.Op, layer: int, lowered: Lowered, config: Config, seen: set[str]) -> Floor:
    nodes = [n for n in lowered.nodes if n.layer == layer]
    constants = sum(_constant_bytes(n, config) for n in nodes)
    read = {t for n in nodes for t in n.inputs if t in lowered.packs} - seen
    seen |= read
    written = 0
    if op.output in graph.outputs:
        written = sum(math.prod(lowered.tensors[t]) for t in lowered.outputs[op.output]) * config.act_unit_bytes
    array = sum(_array_cycles(op, n, config) for n in nodes)
    return Floor(array, constants + sum(lowered.packs[t].size for t in read), written, layer_macs(graph, op))


def _constant_bytes(node: Node, config: Config) -> int:
    wgt, prm = node.constant_entries()
    return wgt * config.wgt_entry_bytes + prm * config.prm_entry_bytes


def _array_cycles(op: g.Op, node: Node, config: Config) -> int:
    if isinstance(node, ConvNode):
        blocks = node.filled_blocks
        if isinstance(op, g.Conv2D):
            _, kh, kw, ic = op.weight.shape
            if ic * op.groups < config.block_in:
                packed = -(-kh * kw * ic * op.groups // config.block_in) * (node.out_units // config.out_units)
                blocks = min(blocks, packed)
        return node.height * node.width * blocks
    if isinstance(node, WindowNode):
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
        return int(np.maximum(columns * np.array(pushes)[node.kernel_rows()], emits).sum())
    return node.in_height * node.in_width * node.out_units if isinstance(node, GlobalPoolNode) else 0


def layer_macs(graph: g.Graph, op: g.Op) -> int:
    """Multiply-accumulates of an operator of the graph, zero weights included."""
    if isinstance(op, (g.Conv2D, g.DepthwiseConv2D)):
        _, height, width, _ = image_shape(graph.tensors[op.output].shape)
        return height * width * int(np.prod(op.weight.shape))
    return 0
