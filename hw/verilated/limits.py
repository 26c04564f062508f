"""How long a program can take at most: what a watchdog is set to."""

from __future__ import annotations

import numpy as np

from tilewright.isa import timing
from tilewright.isa.effects import row_beats, slots
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Opcode

LONGEST = (1 << 32) - 1  #: what the WATCHDOG register holds
SLACK = 64  #: cycles per instruction for dispatch, tokens and pipeline depth, generously


def cycle_bound(program: Program) -> int:
    """Cycles within which a legal program ends on undisturbed DRAM: as if nothing overlapped. At most LONGEST."""
    config, fields = program.config, program.columns()
    beats = fields.rows * row_beats(fields, config)
    bursts = beats // config.burst_beats + 2 * fields.rows
    moves = np.isin(fields.opcode, (Opcode.LOAD, Opcode.STORE))
    service = np.where(moves, beats + bursts * (config.dram_latency + 2), slots(fields, config))
    fetch_beats = -(-len(program.instructions) // config.beat_bytes)
    fetch = fetch_beats + (fetch_beats // config.burst_beats + 1) * (config.dram_latency + 2)
    depth = max(getattr(timing, f"{engine.name}_DEPTH") for engine in Engine)
    total = int(service.sum()) + fetch + program.instruction_count * (SLACK + depth) + 4096
    return min(total, LONGEST)
