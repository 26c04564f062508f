"""Cycles of a network in tiles, on its tables alone: the explorer's first look at what the compiler would choose.

Each chain gets the best of few cuts (whole rows of pixels and whole patches, if memories hold any such), where the
compiler tries thousands; chains follow one another, but what the bus is idle brings the next one's weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.tiled.cost import (
    WINDOW,
    Layer,
    _chunk_sizes,
    _judge,
    _Machine,
    _most_blocks,
    _sizes,
    best_cut,
    machine,
)
from tilewright.jit.tiled.native import compiled
from tilewright.jit.tiled.shapes import TileTables

#: columns of what :func:`tile_costs` returns: cycles of the chain, of GEMM, ALU and bus within, and the form chosen
CYCLES, ARRAY, ALU_PASSES, BUS, FORM = range(5)
_L, _M = Layer, _Machine


def tile_costs(tables: TileTables, config: Config) -> NDArray[np.float64]:
    """What each chain takes, (chains, 5); CYCLES is negative where nothing fits."""
    found = np.full((len(tables.names), 5), -1.0)
    _costs(
        tables.rows, tables.chain, tables.blocks, tables.block_at, tables.units, tables.unit_at, machine(config), found
    )  # fmt: skip
    return found


@compiled
def _costs(rows: Any, chain: Any, blocks: Any, block_at: Any, units: Any, unit_at: Any, m: Any, found: Any) -> None:
    cut = np.zeros(7, np.int64)
    for form in range(len(rows)):
        row, read = rows[form], units[unit_at[form] : unit_at[form + 1]]
        table = blocks[block_at[form] : block_at[form + 1]].reshape((len(read), row[_L.VECTORS], 3))
        judged = _coarse(row, table, read, m, cut)
        if judged[0] < 0:
            judged = best_cut(row, table, read, m, cut)
        best = found[chain[form]]
        if judged[0] >= 0 and (best[CYCLES] < 0 or judged[0] < best[CYCLES]):
            best[CYCLES], best[ARRAY], best[ALU_PASSES], best[BUS] = judged[0], judged[4], judged[5], judged[6]
            best[FORM] = form
    # beside a chain that the bus does not limit come the weights of the next one, as far as wgt has room for them
    room, idle = m[_M.WGT] * m[_M.WGT_ENTRY] / m[_M.BEAT], 0.0
    for number in range(len(found)):
        best = found[number]
        if best[CYCLES] < 0:
            continue
        work = max(best[ARRAY], best[ALU_PASSES])
        early = min(idle, max(0.0, best[BUS] - work))
        idle = min(room, max(0.0, work - best[BUS] + early))
        best[CYCLES] -= early


@compiled
def _coarse(row: Any, blocks: Any, units: Any, m: Any, cut: Any) -> Any:
    """What :func:`best_cut` returns, of cuts into rows and vectors alone."""
    rows, vectors = _sizes(row[_L.HEIGHT]), _sizes(row[_L.VECTORS])
    parts = _sizes(_most_blocks(row, blocks))
    chunks, trial = np.zeros(5, np.int64), np.zeros(7, np.int64)
    trial[1], trial[4], trial[5] = row[_L.WIDTH], row[_L.KERNEL_Y], row[_L.KERNEL_X]
    best = (-1.0, 0, 0, 0, 0, 0, 0.0)
    for v in range(len(vectors)):
        for b in range(1 if row[_L.KIND] == WINDOW else min(3, len(parts))):
            _chunk_sizes(row, blocks, units, m, vectors[v], parts[b], chunks)
            for r in range(len(rows)):
                for first in range(1 if v == 0 or r == 0 else 2):
                    trial[0], trial[2], trial[3], trial[6] = rows[r], vectors[v], parts[b], first
                    judged = _judge(row, m, trial, chunks)
                    if judged[0] >= 0 and (best[0] < 0 or judged[0] < best[0]):
                        best = judged
                        cut[:] = trial
    return best
