"""The floor of a layer and of a network: what no schedule can beat (design, section 6; ``docs/numbers.md``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower import image_shape
from tilewright.jit.tensors import Lowered


@dataclass(frozen=True)
class Floor:
    """Array cycles, bytes over the bus, and multiply-accumulates of one layer."""

    array_cycles: int
    bus_bytes: int
    macs: int

    def cycles(self, config: Config) -> int:
        """The larger of array time and bus time."""
        return max(self.array_cycles, -(-self.bus_bytes // config.beat_bytes))


def layer_floor(graph: g.Graph, op: g.Op, layer: int, lowered: Lowered, config: Config) -> Floor:
    """Floor of one operator: whole blocks, whole columns in window mode, packed patches where IC < BLOCK_IN."""
    nodes = [n for n in lowered.nodes if n.layer == layer]
    chunks = {id(c): c for n in nodes for c in n.chunks}.values()  # some are loaded more than once
    constants = sum(_filled(c.weights) * config.wgt_entry_bytes + len(c.prm) * config.prm_entry_bytes for c in chunks)
    read = dict.fromkeys(t for n in nodes for t in n.inputs)
    edges = sum(lowered.packs[t].size for t in read if t in lowered.packs)
    if op.output in graph.outputs:
        for buffer in (lowered.buffers[t] for t in lowered.outputs[op.output]):
            edges += buffer.height * buffer.width * buffer.units * config.act_unit_bytes
    array = sum(_array_cycles(op, n, config) for n in nodes)
    return Floor(array, constants + edges, _macs(graph, op))


def _array_cycles(op: g.Op, node: Node, config: Config) -> int:
    if isinstance(node, ConvNode):
        # groups, selections and depthwise layers wider than the window are mostly zeros
        blocks = _filled(node.weight_blocks())
        if isinstance(op, g.Conv2D):
            blocks = min(blocks, _whole_blocks(op, node.out.shape[3], config))
        return node.height * node.width * blocks
    if isinstance(node, WindowNode):
        kh, kw, _ = node.taps.shape
        stride = node.strides[1]
        columns = (node.width - 1) * stride + kw if stride <= kw else node.width * kw
        pushes = node.height * columns * kh
        emits = node.height * node.width * (2 if config.dsp_packing else 1)
        return max(pushes, emits) * node.out_units
    return sum(node.gemm_cycles(task) for task in node.tasks)


def _filled(blocks: NDArray[np.int8]) -> int:
    """Blocks that are not all zero: tiles neither load nor multiply the others."""
    return int(blocks.any(axis=(1, 2)).sum())


def _whole_blocks(op: g.Conv2D, oc: int, config: Config) -> int:
    """Blocks of a dense convolution to ``oc`` channels, patches packed where that takes fewer."""
    _, kh, kw, ic = op.weight.shape
    ic *= op.groups
    blocks = kh * kw * -(-ic // config.block_in)
    if ic < config.block_in:
        blocks = -(-kh * kw * ic // config.block_in)
    return blocks * -(-oc // config.block_out)


def _macs(graph: g.Graph, op: g.Op) -> int:
    if isinstance(op, (g.Conv2D, g.DepthwiseConv2D)):
        _, height, width, _ = image_shape(graph.tensors[op.output].shape)
        return height * width * int(np.prod(op.weight.shape))
    return 0
