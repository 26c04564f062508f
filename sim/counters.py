"""Where an engine's cycles went, computed from the times of its instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.spec import Engine, others
from tilewright.isa.timing import DISPATCH_LATENCY, TOKEN_LATENCY
from tilewright.sim.native import interpretable
from tilewright.sim.result import EngineCounters

# Columns of the count: the four token causes by engine come first.
BUSY, EMPTY, DRAIN, ISSUED, COUNTS = 4, 5, 6, 7, 8


@interpretable
def _count(
    pops: Any, dispatch: Any, issue: Any, free_at: Any, queue: Any, queue_start: Any, push_start: Any, pushed_at: Any,
    cycles: int, counts: Any,
) -> None:  # fmt: skip
    """Fill counts, int64 (4 engines, COUNTS), for the cycles 0 .. cycles - 1."""
    pop_count = np.zeros(16, np.int64)
    for e in range(4):
        at = 0
        last = queue_start[e + 1] if e < 3 else len(queue)
        for k in range(queue_start[e], last):
            i = queue[k]
            if dispatch[i] < 0:
                break
            end = issue[i] if 0 <= issue[i] < cycles else cycles
            visible = min(max(dispatch[i] + DISPATCH_LATENCY, at), end)
            counts[e, EMPTY] += visible - at
            at = visible
            for s in range(4):
                if pops[i] >> s & 1:
                    q = 4 * s + e
                    token = end
                    if push_start[q] + pop_count[q] < push_start[q + 1]:  # else nobody ever sends it
                        token = min(token, pushed_at[push_start[q] + pop_count[q]] + TOKEN_LATENCY)
                    pop_count[q] += 1
                    counts[e, s] += max(token - at, 0)
                    at = max(token, at)
            counts[e, DRAIN] += end - at
            if not 0 <= issue[i] < cycles:
                at = cycles
                break
            free = min(free_at[i], cycles) if free_at[i] >= 0 else cycles
            counts[e, BUSY] += free - end
            counts[e, ISSUED] += 1
            at = free
        counts[e, EMPTY] += cycles - at


def count_cycles(
    pops: NDArray[np.int64], dispatch: NDArray[np.int64], issue: NDArray[np.int64], free_at: NDArray[np.int64],
    queue: NDArray[np.int64], queue_start: NDArray[np.int64], push_start: NDArray[np.int64],
    pushed_at: NDArray[np.int64], cycles: int, load_bus: int, load_limit: int, store_limit: int,
) -> dict[Engine, EngineCounters]:  # fmt: skip
    """Counters of all engines; the arrays are those of ``timing._simulate``, push_start with its end appended."""
    counts = np.zeros((4, COUNTS), np.int64)
    _count(pops, dispatch, issue, free_at, queue, queue_start, push_start, pushed_at, cycles, counts)
    result = {}
    for e in Engine:
        row = counts[e].tolist()
        result[e] = EngineCounters(
            instructions=row[ISSUED],
            busy=row[BUSY],
            empty=row[EMPTY],
            tokens={s: row[s] for s in others(e)},
            drain=row[DRAIN],
            bus=load_bus if e == Engine.LOAD else 0,
            outstanding={Engine.LOAD: load_limit, Engine.STORE: store_limit}.get(e, 0),
        )
    return result
