"""The chains of a lowered network, and what of them the choice of tiles looks at, as tables for compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.tiled.build import tiled_layers
from tilewright.jit.tiled.chains import Chain, chains_of
from tilewright.jit.tiled.judge import LayerShape


def tiled_forms(lowered: Lowered, config: Config) -> list[list[Chain]]:
    """The chains of an unbound network that was lowered for tiles, in order, each in its forms."""
    return chains_of([tiled_layers(node, config, lowered.blocked) for node in lowered.nodes], set(lowered.stored))


def chain_shape(chain: Chain, lowered: Lowered) -> LayerShape:
    """What the choice of a chain's cut looks at."""
    units = [lowered.tensors[t][2] for t in chain.leader.sources]
    node = chain.last.node
    return chain.shape(units, lowered.tensors[node.output][2] * node.lattice.across)


@dataclass(frozen=True)
class TileTables:
    """All forms of all chains, one behind another; free of constants and of the sizes of memories.

    ``rows`` (forms, columns of :class:`~tilewright.jit.tiled.judge.Layer`), ``chain`` the number of each one's chain.
    Form k has the blocks ``blocks[block_at[k] : block_at[k + 1]]``, (inputs x vectors, 3), and the units of its inputs
    ``units[unit_at[k] : unit_at[k + 1]]``. ``names`` are the chains' layers', ``stored`` the tensors in DRAM.
    """

    rows: NDArray[np.int64]
    chain: NDArray[np.int64]
    blocks: NDArray[np.int64]
    block_at: NDArray[np.int64]
    units: NDArray[np.int64]
    unit_at: NDArray[np.int64]
    names: tuple[str, ...]
    stored: tuple[str, ...]


def tile_tables(lowered: Lowered, config: Config) -> TileTables:
    """The tables of a network that was lowered for tiles. Raises :class:`PlaceError` for a node without tiles."""
    forms = tiled_forms(lowered, config)
    shapes = [chain_shape(chain, lowered) for chains in forms for chain in chains]
    return TileTables(
        np.array([shape.row for shape in shapes]).reshape(len(shapes), -1),
        np.array([number for number, chains in enumerate(forms) for _ in chains], np.int64),
        np.concatenate([np.zeros((0, 3), np.int64), *(shape.blocks.reshape(-1, 3) for shape in shapes)]),
        np.cumsum([0, *(shape.blocks.shape[0] * shape.blocks.shape[1] for shape in shapes)]),
        np.concatenate([np.zeros(0, np.int64), *(shape.units for shape in shapes)]),
        np.cumsum([0, *(len(shape.units) for shape in shapes)]),
        tuple(chains[0].leader.node.name for chains in forms),
        tuple(chains[0].last.node.output for chains in forms),
    )
