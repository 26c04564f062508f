"""ALU, REQUANTIZE and RESCALE: whole vectors of BLOCK_OUT channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.isa.spec import TABLE_VALUES, TABLES
from tilewright.sim.functions import operate, precision, to_even
from tilewright.sim.native import compiled
from tilewright.sim.operands import loop_offsets, put, vector
from tilewright.sim.raw import read_int8
from tilewright.sim.scaling import ADDED, FLOAT, ROWS, requantize_lanes, rescale_lanes
from tilewright.sim.state import Memories, Shape

CONSTANT = int(Rounding.CONSTANT)


@compiled
def alu(row: Any, m: Memories, s: Shape) -> None:
    """acc[d] = acc[d] OP (imm or acc[src]), int32 wrapping."""
    function, use_imm, imm = row.function, row.use_imm != 0, row.imm
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_count):
                dst, src, _ = vector(row, turn, u, m.uop_alu, s)
                d, a = dst * s.unit, src * s.unit
                for k in range(s.out_units * s.unit):
                    y = imm if use_imm else np.int64(m.acc[a + k])
                    m.acc[d + k] = np.int32(operate(function, np.int64(m.acc[d + k]), y))


@compiled
def requantize(row: Any, m: Memories, s: Shape) -> None:
    """act[d] = clamp(scale_round(acc[src] + bias) + zero_point, lo, hi)."""
    act_at, acc_at, prm_at = m.act.ctypes.data, m.acc.ctypes.data, m.prm.ctypes.data
    rounding, zero_point, lo, hi = row.rounding, row.zero_point, row.lo, row.hi
    added = FLOAT if precision(rounding) else ADDED + 2 * rounding
    even = -1 if to_even(rounding) else 0
    v, stride = s.lanes, 8 * s.block_out
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_count):
                dst, src, prm = vector(row, turn, u, m.uop_alu, s)
                d, a, p = dst * s.unit, acc_at + 4 * src * s.unit, prm_at + prm * ROWS * stride
                if rounding == CONSTANT:
                    put(m.act, d, s.out_units * s.unit, min(max(zero_point, lo), hi))
                    continue
                for j in range(s.out_units):
                    for b in range(s.batch):
                        k, entry = j * s.unit + b * v, p + 8 * j * v
                        requantize_lanes(v, act_at + d + k, a + 4 * k, entry, stride, added, even, zero_point, lo, hi)


@compiled
def rescale(row: Any, m: Memories, s: Shape) -> None:
    """acc[d] (op)= scale_round((act[src] << 20) + bias), int32 wrapping; act[src] itself or looked up."""
    act_at, acc_at, prm_at = m.act.ctypes.data, m.acc.ctypes.data, m.prm.ctypes.data
    rounding, combine = row.rounding, row.combine
    lookup, first, found = row.lookup != 0, row.table * TABLE_VALUES, TABLES * TABLE_VALUES
    found_at = m.table.ctypes.data + found
    added, even = ADDED + 2 * rounding, -1 if to_even(rounding) else 0
    v, stride = s.lanes, 8 * s.block_out
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_count):
                dst, src, prm = vector(row, turn, u, m.uop_alu, s)
                d, a, p = acc_at + 4 * dst * s.unit, act_at + src * s.unit, prm_at + prm * ROWS * stride
                for j in range(s.out_units):
                    for b in range(s.batch):
                        k, entry = j * s.unit + b * v, p + 8 * j * v
                        x = a + k
                        if lookup:
                            for lane in range(v):
                                m.table[found + lane] = m.table[first + (read_int8(x + lane) & 255)]
                            x = found_at
                        rescale_lanes(v, d + 4 * k, x, entry, stride, added, even, combine)
