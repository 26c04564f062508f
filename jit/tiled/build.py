"""Nodes to tiled layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.config import Config
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.elementwise import ElementwiseNode
from tilewright.jit.kernels.global_pool import GlobalPoolNode
from tilewright.jit.kernels.matmul import MatMulNode
from tilewright.jit.kernels.partial_sums import PartialSumsNode
from tilewright.jit.kernels.resample import ResampleNode
from tilewright.jit.kernels.total import TotalNode
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.tiled.blocks import DenseBlocks, DiagonalBlocks
from tilewright.jit.tiled.geometry import Window
from tilewright.jit.tiled.layers import AluLayer, GemmLayer, TiledLayer
from tilewright.jit.tiled.products import product_layer
from tilewright.jit.tiled.resample import ResampleLayer, reach
from tilewright.jit.tiled.windows import window_layer


def tiled_layers(node: Node, config: Config, blocked: Mapping[str, Blocked]) -> list[TiledLayer]:
    """The node as tiled layers that compute the same, to choose from; the last one fits always. ``blocked``: by name,
    the tensors that are read as weights."""
    vectors = node.out_units // config.out_units
    if isinstance(node, MatMulNode):
        return [product_layer(node, vectors, blocked[node.weights])]
    in_window = window_layer(node, vectors) if isinstance(node, WindowNode) else None
    return [*([in_window] if in_window is not None else []), _summed(node, vectors, config)]


def _summed(node: Node, vectors: int, config: Config) -> TiledLayer:
    """By sums of whole blocks, or by ALU passes."""
    if isinstance(node, PartialSumsNode | TotalNode):
        raise PlaceError(f"{node.name}: planes of sums have no tiled form")
    if isinstance(node, ConvNode):
        window = Window(
            (node.weight.shape[1], node.weight.shape[2]), node.strides, node.dilation, node.pad[0], node.pad[1],
            node.pad_constant,
        )  # fmt: skip
        dense = DenseBlocks(node.weight, node.in_units, vectors, config)
        return GemmLayer(
            node=node, config=config, window=window, requants={0: node.requant}, vectors=vectors,
            first_unit=node.first_unit, blocks=dense,
        )  # fmt: skip
    if isinstance(node, WindowNode):
        window = Window(
            (node.taps.shape[0], node.taps.shape[1]), node.strides, (node.dilation_y, 1), node.pad[0], node.pad[1],
            node.pad_constant,
        )  # fmt: skip
        return GemmLayer(
            node=node, config=config, window=window, requants=node.requants, counts=node.counts, vectors=vectors,
            first_unit=node.first_unit, blocks=DiagonalBlocks(node.taps, config),
        )  # fmt: skip
    if isinstance(node, GlobalPoolNode):
        taps = np.ones((node.in_height, node.in_width, 1), np.int8)
        return GemmLayer(
            node=node, config=config, window=Window((node.in_height, node.in_width)), requants={0: node.requant},
            vectors=vectors, first_unit=node.first_unit, blocks=DiagonalBlocks(taps, config),
        )  # fmt: skip
    if isinstance(node, ResampleNode):
        return ResampleLayer(
            node=node, config=config, window=reach(node), requants={0: node.requant}, terms=[],
            vectors=vectors, first_unit=node.first_unit,
        )  # fmt: skip
    if isinstance(node, ElementwiseNode):
        rows, columns = [term.dy for term in node.terms], [term.dx for term in node.terms]
        kernel = max(rows) - min(rows) + 1, max(columns) - min(columns) + 1
        window = Window(kernel, node.strides, (1, 1), -min(rows), -min(columns), node.pad_constant)
        return AluLayer(
            node=node, config=config, window=window, requants={0: node.requant}, terms=node.terms,
            product=node.product, vectors=vectors, first_unit=node.first_unit,
        )  # fmt: skip
    raise PlaceError(f"{node.name}: {type(node).__name__} has no tiled form")
