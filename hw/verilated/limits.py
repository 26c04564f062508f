"""How long a program can take at most: what a watchdog is set to."""

from __future__ import annotations

import numpy as np

from tilewright.isa import timing
from tilewright.isa.codec import COLUMNS
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode, entry_bytes

LONGEST = (1 << 32) - 1  #: what the WATCHDOG register holds
SLACK = 64  #: cycles per instruction for dispatch, tokens and pipeline depth, generously


def cycle_bound(program: Program) -> int:
    """Cycles within which a legal program ends on undisturbed DRAM: as if nothing overlapped. At most LONGEST."""
    config, table = program.config, program.table()

    def column(name: str) -> np.ndarray:
        return table[:, COLUMNS[name]]

    opcode, beat = column("opcode"), config.beat_bytes
    tile = column("rows") * column("cols")
    sizes = np.array([entry_bytes(config, memory) for memory in Memory] + [0], np.int64)
    entry = np.where(opcode == Opcode.STORE, config.act_unit_bytes, sizes[np.minimum(column("memory"), len(Memory))])
    beats = column("rows") * -(-column("cols") * entry // beat)
    bursts = beats // config.burst_beats + 2 * column("rows")
    moves = (opcode == Opcode.LOAD) | (opcode == Opcode.STORE)
    loops = column("outer") * column("inner") * column("uop_count") * (column("pace") + 1)
    service = np.select(
        [opcode == Opcode.WAIT, opcode == Opcode.FILL, moves],
        [column("cycles"), tile, beats + bursts * (config.dram_latency + 2)],
        loops,
    )
    fetch_beats = -(-len(program.instructions) // beat)
    fetch = fetch_beats + (fetch_beats // config.burst_beats + 1) * (config.dram_latency + 2)
    depth = max(getattr(timing, f"{engine.name}_DEPTH") for engine in Engine)
    total = int(service.sum()) + fetch + len(table) * (SLACK + depth) + 4096
    return min(total, LONGEST)
