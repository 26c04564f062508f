"""The start and the end of programs whose accesses of acc are as close as is allowed."""

from __future__ import annotations

import numpy as np

from tests.isa.build import ALU, CONSTANT, GEMM, STORE, TINY, Builder
from tilewright.isa.functions import Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.verifier import verify


def begin(b: Builder) -> None:
    """Micro-ops 0..31 with dst = src = index (GEMM's accumulate), a weight entry, 32 act units, unit parameters."""
    rows = [{"dst": k, "src": k, "accumulate": 1} for k in range(32)]
    b.uops(GEMM, rows)
    b.uops(ALU, [{"dst": k, "src": k} for k in range(32)])
    weights = np.random.default_rng(1).integers(-2, 3, TINY.wgt_entry_bytes, dtype=np.int8)
    b.load(Memory.WGT, segment=CONSTANT, offset=b.constant(weights.tobytes()))
    unit = np.array([[0, 1, 0, 0]] * TINY.block_out, np.int32)
    b.load(Memory.PRM, segment=CONSTANT, offset=b.constant(unit.tobytes()))
    x = np.random.default_rng(2).integers(-2, 3, 32 * TINY.act_unit_bytes, dtype=np.int8)
    offset = b.constant(x.tobytes())
    b.load(Memory.ACC8, segment=CONSTANT, offset=offset, count=32)
    b.load(Memory.ACC8, segment=CONSTANT, offset=offset, count=32, sram=TINY.acc_bank_units)
    b.load(Memory.ACT, segment=CONSTANT, offset=offset, count=32, push=[GEMM, ALU])


def finish(b: Builder) -> Program:
    """Show the first 32 units of acc in the output."""
    b.wait(ALU, ALU_DISTANCE)
    b.requantize(count=32, dst=64, lo=-128, hi=127, rounding=int(Rounding.SINGLE), push=[STORE])
    b.store(count=32, sram=64, pop=[ALU])
    program = b.program()
    verify(program)
    return program
