"""Layers that go on with the results of another where they lie: residual adds and the like, tile by tile.

A *chain* is a layer, and the ALU layers behind it that read its result pixel by pixel and are alone in doing so. They
run while the tile is in act: what passes between them takes no way through DRAM, what else they read is loaded beside
it, and the array computes the next tile meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.jit.tiled.geometry import Patch, Piece, Tile
from tilewright.jit.tiled.judge import Layer, LayerShape
from tilewright.jit.tiled.layers import AluLayer, TiledLayer


@dataclass(frozen=True)
class Chain:
    """``leader`` computes a tile, each of ``followers`` goes on with it."""

    leader: TiledLayer
    followers: tuple[AluLayer, ...] = ()

    @property
    def layers(self) -> tuple[TiledLayer, ...]:
        return (self.leader, *self.followers)

    @property
    def last(self) -> TiledLayer:
        """The layer whose result is stored."""
        return self.layers[-1]

    @property
    def uses_gemm(self) -> bool:
        return not isinstance(self.leader, AluLayer)

    @cached_property
    def inner(self) -> set[str]:
        """Tensors that never leave act."""
        return {layer.node.output for layer in self.layers[:-1]}

    def operands(self, tile: Tile, lo: int, hi: int) -> dict[str, Patch]:
        """What followers read of a tile beside the results that they go on with, by tensor."""
        if not self.followers:
            return {}
        inner, step = self.inner, self.leader.config.out_units
        piece = Piece(0, 0, 1, 0, 1, lo * step, hi * step)
        return {
            t: layer.window.patch(t, tile, piece) for layer in self.followers for t in layer.sources if t not in inner
        }

    def shape(self, units: Sequence[int], out_units: int) -> LayerShape:
        """What the choice of a cut looks at.

        ``units``: units of a pixel of each of the leader's inputs as stored, ``out_units``: of the tensor that is
        stored.
        """
        shape = self.leader.shape(units)
        inner = self.inner
        row = shape.row
        row[Layer.OUT_UNITS] = out_units
        row[Layer.OPERANDS] = len({t for layer in self.followers for t in layer.sources if t not in inner})
        for layer in self.followers:
            row[Layer.PASSES] += layer.passes
            row[Layer.PRM_FIXED] += layer.scale_entries + layer.uniform
            row[Layer.PRM_EACH] += not layer.uniform
        return LayerShape(np.asarray(row), shape.blocks, shape.units)


def chains_of(forms: Sequence[Sequence[TiledLayer]], outputs: Collection[str]) -> list[list[Chain]]:
    """The layers as chains, in order, each in its leader's forms. ``outputs`` leave the program."""
    found: list[tuple[Sequence[TiledLayer], list[AluLayer]]] = []
    writers: dict[str, list[int]] = {}
    for layers in forms:
        layer = layers[-1]
        host = _host(layer, found, writers, forms, outputs)
        if host is None:
            found.append((layers, []))
        else:
            found[host][1].append(layer)  # type: ignore[arg-type]
        writers.setdefault(layer.node.output, []).append(len(found) - 1 if host is None else host)
    return [[Chain(leader, tuple(followers)) for leader in leaders] for leaders, followers in found]


def _host(
    layer: TiledLayer, found: list[tuple[Sequence[TiledLayer], list[AluLayer]]], writers: dict[str, list[int]],
    forms: Sequence[Sequence[TiledLayer]], outputs: Collection[str],
) -> int | None:  # fmt: skip
    """The chain that a layer can go on with: the one that makes the last of its inputs."""
    window = layer.window
    alone = window.pointwise and window.strides == (1, 1) and (window.top, window.left) == (0, 0)
    if not isinstance(layer, AluLayer) or not layer.joins or not alone:
        return None
    host = max((k for tensor in layer.sources for k in writers.get(tensor, [])), default=None)
    if host is None:
        return None
    leaders, followers = found[host]
    last = (followers or leaders)[-1]
    made = last.node.output
    readers = sum(made in other[-1].sources for other in forms)
    alike = (last.node.height, last.node.width) == (layer.node.height, layer.node.width)
    whole = alike and writers[made] == [host] and last.first_unit == 0 and last.vectors == layer.vectors
    return host if made in layer.sources and readers == 1 and whole and made not in outputs else None
