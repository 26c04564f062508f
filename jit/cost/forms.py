"""A graph in the forms that the compiler tries, lowered once for Configs that share them, and what the best costs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from tilewright.config import Config
from tilewright.jit.cost.estimate import SCHEDULES
from tilewright.jit.cost.slices import best_slices
from tilewright.jit.cost.tiles import AnyEstimate, fastest
from tilewright.jit.graph import Graph
from tilewright.jit.ir.base import Sliced
from tilewright.jit.lower.lowering import lower
from tilewright.jit.lower.token_rows import has_products
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.policy import Policy
from tilewright.jit.tiled.shapes import TileTables, tile_tables


class Forms:
    """The forms of a graph of accelerator operators. All methods raise :class:`PlaceError`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._rows: dict[Hashable, NetworkTables] = {}
        self._tiles: dict[Hashable, TileTables] = {}

    def rows(self, config: Config) -> NetworkTables:
        """The tables for planning rows."""
        return self._lowered(self._graph, config, ())

    def sliced(self, config: Config) -> NetworkTables | None:
        """The tables with wide tensors cut into slices, as the compiler cuts a network that does not stream whole.

        None if the Config asks for no cut.
        """
        cut = best_slices(self._graph, config, partial(self._cut, config))
        return self._cut(config, cut) if cut.parts else None

    def _cut(self, config: Config, cut: Sliced) -> NetworkTables:
        return self._lowered(cut, config, tuple(map(tuple, cut.parts.values())))

    def tiles(self, config: Config) -> TileTables:
        """The tables for choosing tiles."""
        key = (config.block_in, config.block_out, config.weight_bits)
        if key not in self._tiles:
            self._tiles[key] = tile_tables(lower(self._graph, config, tiled=True, joined=True), config)
        return self._tiles[key]

    def estimate(self, config: Config, policies: Sequence[Policy] = SCHEDULES) -> AnyEstimate:
        """Cycles as one program, by the planner's model; ``policies``: those tried where it streams as a whole."""
        return fastest(
            self.rows(config), config, partial(self.sliced, config), partial(self.tiles, config), policies,
            rows_first=has_products(self._graph),
        )  # fmt: skip

    def _lowered(self, graph: Graph | Sliced, config: Config, form: tuple[Hashable, ...]) -> NetworkTables:
        key = (config.block_in, config.block_out, config.weight_bits, config.dsp_packing, *form)
        if key not in self._rows:
            self._rows[key] = lower(graph, config).tables
        return self._rows[key]
