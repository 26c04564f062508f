"""What a network costs in tiles (:mod:`tilewright.jit.tiled`), and the least over rows and tiles.

Tiles are looked at where rows leave a tenth or more, and rows no more where tiles are within a twentieth of what they
are bound by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.timing import (
    ALU_DEPTH,
    DONE_LATENCY,
    FETCH_DEPTH,
    GEMM_DEPTH,
    LOAD_DEPTH,
    LOAD_SETUP,
    STORE_DEPTH,
    STORE_SETUP,
)
from tilewright.jit.cost.estimate import SCHEDULES, Demand, Estimate, grouped, streaming
from tilewright.jit.errors import PlaceError
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.planner import Planner
from tilewright.jit.plan.policy import Policy
from tilewright.jit.plan.refusal import Refusal
from tilewright.jit.tiled import estimate as e
from tilewright.jit.tiled.judge import Layer
from tilewright.jit.tiled.shapes import TileTables

_FILLING = FETCH_DEPTH + LOAD_SETUP + LOAD_DEPTH  #: before an engine works, beside the DRAM's latency
_DRAINING = GEMM_DEPTH + ALU_DEPTH + STORE_SETUP + STORE_DEPTH  #: after it, for the last of each
_ROWS_NEAR, _TILES_NEAR = 1.1, 1.05


@dataclass(frozen=True)
class TilesEstimate:
    """Estimated cycles of a network in tiles; ``costs`` of its chains as :func:`tile_costs` gives them."""

    tables: TileTables
    config: Config
    costs: NDArray[np.float64]

    @cached_property
    def cycles(self) -> int:
        """Of all chains, and of the ends that nothing covers: the first instruction and the first tile are on their way
        while no engine works, the last tile is on its way back when all have ended."""
        ends = 3 * self.config.dram_latency + _FILLING + _DRAINING
        return round(float(self.costs[:, e.CYCLES].sum())) + ends + DONE_LATENCY

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The chains in the forms that were chosen: columns of :class:`~tilewright.jit.tiled.judge.Layer`."""
        return self.tables.rows[self.costs[:, e.FORM].astype(np.int64)]

    @cached_property
    def stored_units(self) -> NDArray[np.int64]:
        """Units that each chain writes to DRAM."""
        r = self.rows
        return r[:, Layer.HEIGHT] * r[:, Layer.WIDTH] * r[:, Layer.VECTORS] * self.config.out_units

    @cached_property
    def busy(self) -> dict[str, int]:
        """Cycles that keep each engine busy."""
        beats = self.config.act_unit_bytes // self.config.beat_bytes
        bus, array, alu = (round(float(self.costs[:, k].sum())) for k in (e.BUS, e.ARRAY, e.ALU_PASSES))
        return {"LOAD": bus, "GEMM": array, "ALU": alu, "STORE": int(self.stored_units.sum()) * beats}

    @cached_property
    def layers(self) -> tuple[Demand, ...]:
        """What each chain asks for, in the network's order."""
        demands = self.costs[:, (e.ARRAY, e.ALU_PASSES, e.BUS)].round().astype(np.int64).tolist()
        return tuple(Demand(name, *row) for name, row in zip(self.tables.names, demands, strict=True))

    @property
    def spilled(self) -> tuple[str, ...]:
        """Tensors that go through DRAM: what every chain but the last writes."""
        return tuple(sorted(self.tables.stored[:-1]))


AnyEstimate = Estimate | TilesEstimate


def in_tiles(tables: TileTables, config: Config) -> TilesEstimate | None:
    """What tiles cost; None if a chain has none that fit."""
    found = TilesEstimate(tables, config, e.tile_costs(tables, config))
    return found if (found.costs[:, e.CYCLES] >= 0).all() else None


def fastest(
    network: NetworkTables, config: Config, sliced: Callable[[], NetworkTables | None],
    tiles: Callable[[], TileTables], policies: Sequence[Policy] = SCHEDULES, rows_first: bool = False,
) -> AnyEstimate:  # fmt: skip
    """The least over rows, rows of slices of channels where others do not fit, and tiles; ``rows_first``: tiles where
    nothing else fits.

    Raises :class:`PlaceError` naming memory, layer and amounts if the network cannot run.
    """
    planner = Planner(network, config)
    streamed = streaming(planner, policies)
    if streamed is not None and streamed.cycles <= _ROWS_NEAR * max(streamed.busy.values()):
        return streamed
    tiled = None if rows_first else _in_tiles(tiles, config)
    found: list[AnyEstimate] = [each for each in (streamed, tiled) if each is not None]
    near = tiled is not None and tiled.cycles <= _TILES_NEAR * max(tiled.busy.values())
    if streamed is None and not near:
        rows: list[Estimate | Refusal] = [grouped(planner)]
        if (cut := sliced()) is not None:
            planner = Planner(cut, config)
            rows.append(streaming(planner, policies) or grouped(planner))
        found += [each for each in rows if isinstance(each, Estimate)]
        if not found and rows_first and (tiled := _in_tiles(tiles, config)) is not None:
            found = [tiled]
        if not found:
            raise PlaceError(str(rows[-1]))
    return min(found, key=lambda each: each.cycles)


def _in_tiles(tiles: Callable[[], TileTables], config: Config) -> TilesEstimate | None:
    try:
        return in_tiles(tiles(), config)
    except PlaceError:  # an operator has no form in tiles
        return None
