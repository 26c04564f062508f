"""Cycles of a network in tiles, on its tables alone: the explorer's first look at what the compiler would choose.

Each chain gets the best of few cuts (whole rows of pixels and whole patches, if memories hold any such), where the
compiler tries thousands; chains follow one another, but what the bus is idle brings the next one's weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.jit.tiled.cost import best_cut
from tilewright.jit.tiled.judge import Layer as _L
from tilewright.jit.tiled.judge import Machine as _M
from tilewright.jit.tiled.judge import edges, machine
from tilewright.jit.tiled.native import compiled
from tilewright.jit.tiled.shapes import TileTables

#: columns of what :func:`tile_costs` returns: cycles of the chain, of GEMM, ALU and bus within, and the form chosen
CYCLES, ARRAY, ALU_PASSES, BUS, FORM = range(5)


def tile_costs(tables: TileTables, config: Config) -> NDArray[np.float64]:
    """What each chain takes, (chains, 5); CYCLES is negative where nothing fits."""
    found = np.full((len(tables.names), 5), -1.0)
    _costs(
        tables.rows, tables.chain, tables.blocks, tables.block_at, tables.units, tables.unit_at, machine(config), found
    )  # fmt: skip
    return found


@compiled
def _costs(rows: Any, chain: Any, blocks: Any, block_at: Any, units: Any, unit_at: Any, m: Any, found: Any) -> None:
    cut, first, last = np.zeros(7, np.int64), np.zeros(len(found)), np.zeros(len(found))
    for form in range(len(rows)):
        row, read = rows[form], units[unit_at[form] : unit_at[form + 1]]
        table = blocks[block_at[form] : block_at[form + 1]].reshape((len(read), row[_L.VECTORS], 3))
        judged = best_cut(row, table, read, m, True, cut)
        if judged[0] < 0:
            judged = best_cut(row, table, read, m, False, cut)
        best = found[chain[form]]
        if judged[0] >= 0 and (best[CYCLES] < 0 or judged[0] < best[CYCLES]):
            best[CYCLES], best[ARRAY], best[ALU_PASSES], best[BUS] = judged[0], judged[4], judged[5], judged[6]
            best[FORM] = form
            first[chain[form]], last[chain[form]] = edges(row, table, read, m, cut, judged[4])
    # beside a chain that the bus does not limit come the weights of the next one, as far as wgt has room for them; what
    # its first tile wants of them and is not there yet, as at the beginning of a program, it waits for; at the end of a
    # program the array still has its work with the last weights
    room, idle = m[_M.WGT] * m[_M.WGT_ENTRY] / m[_M.BEAT], 0.0
    for number in range(len(found)):
        best = found[number]
        if best[CYCLES] < 0:
            continue
        work, bus = max(best[ARRAY], best[ALU_PASSES]), best[BUS]
        waits, behind = max(0.0, first[number] - idle), last[number] if number == len(found) - 1 else 0.0
        late = max(bus + behind, work + waits) - max(bus, work)
        early = min(idle, max(0.0, bus - work))
        idle = min(room, max(0.0, work - bus + early))
        best[CYCLES] += late - early
