"""ALU, REQUANTIZE and RESCALE: whole vectors of BLOCK_OUT channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.sim.compiled import compiled
from tilewright.sim.functions import operate, to_even
from tilewright.sim.move import act_address
from tilewright.sim.scaling import ADDED, ROWS, requantize_lanes, rescale_lanes
from tilewright.sim.state import (
    C_COMBINE,
    C_DST,
    C_DST_INNER,
    C_DST_OUTER,
    C_FUNCTION,
    C_HI,
    C_IMM,
    C_INNER,
    C_LO,
    C_OUTER,
    C_PRM,
    C_PRM_INNER,
    C_PRM_OUTER,
    C_ROUNDING,
    C_SRC,
    C_SRC_INNER,
    C_SRC_OUTER,
    C_UOP_BEGIN,
    C_UOP_COUNT,
    C_USE_IMM,
    C_ZERO_POINT,
    Memories,
    Shape,
)

CONSTANT = int(Rounding.CONSTANT)


@compiled
def alu(row: Any, m: Memories, s: Shape) -> None:
    """acc[d] = acc[d] OP (imm or acc[src]), int32 wrapping."""
    function, use_imm, imm = row[C_FUNCTION], row[C_USE_IMM] != 0, row[C_IMM]
    align = ~(s.out_units - 1) & (s.acc_depth - 1)
    size = s.out_units * s.unit
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            for u in range(row[C_UOP_COUNT]):
                uop = (row[C_UOP_BEGIN] + u) & (s.uop_alu_depth - 1)
                d = ((m.uop_alu[uop, 0] + dst) & align) * s.unit
                a = ((m.uop_alu[uop, 1] + src) & align) * s.unit
                for k in range(size):
                    y = imm if use_imm else np.int64(m.acc[a + k])
                    m.acc[d + k] = np.int32(operate(function, np.int64(m.acc[d + k]), y))


@compiled
def requantize(row: Any, m: Memories, s: Shape) -> None:
    """act[d] = clamp(scale_round(acc[src] + bias) + zero_point, lo, hi)."""
    act_at, acc_at, prm_at, uops = m.act.ctypes.data, m.acc.ctypes.data, m.prm.ctypes.data, m.uop_alu
    rounding, zero_point, lo, hi = row[C_ROUNDING], row[C_ZERO_POINT], row[C_LO], row[C_HI]
    added, even = ADDED + 2 * rounding, -1 if to_even(rounding) else 0
    align, v, stride = ~(s.out_units - 1), s.lanes, 8 * s.block_out
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            prm = row[C_PRM] + o * row[C_PRM_OUTER] + i * row[C_PRM_INNER]
            for u in range(row[C_UOP_COUNT]):
                uop = uops[(row[C_UOP_BEGIN] + u) & (s.uop_alu_depth - 1)]
                d = (act_address(row, uop[0] + dst, s) & align) * s.unit
                if rounding == CONSTANT:
                    m.act[d : d + s.out_units * s.unit] = min(max(zero_point, lo), hi)
                    continue
                a = acc_at + 4 * ((uop[1] + src) & align & (s.acc_depth - 1)) * s.unit
                p = prm_at + ((uop[2] + prm) & (s.prm_depth - 1)) * ROWS * stride
                for j in range(s.out_units):
                    for b in range(s.batch):
                        k, entry = j * s.unit + b * v, p + 8 * j * v
                        requantize_lanes(v, act_at + d + k, a + 4 * k, entry, stride, added, even, zero_point, lo, hi)


@compiled
def rescale(row: Any, m: Memories, s: Shape) -> None:
    """acc[d] (op)= scale_round((act[src] << 20) + bias), int32 wrapping."""
    act_at, acc_at, prm_at, uops = m.act.ctypes.data, m.acc.ctypes.data, m.prm.ctypes.data, m.uop_alu
    rounding, combine = row[C_ROUNDING], row[C_COMBINE]
    added, even = ADDED + 2 * rounding, -1 if to_even(rounding) else 0
    align, v, stride = ~(s.out_units - 1), s.lanes, 8 * s.block_out
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            prm = row[C_PRM] + o * row[C_PRM_OUTER] + i * row[C_PRM_INNER]
            for u in range(row[C_UOP_COUNT]):
                uop = uops[(row[C_UOP_BEGIN] + u) & (s.uop_alu_depth - 1)]
                d = acc_at + 4 * ((uop[0] + dst) & align & (s.acc_depth - 1)) * s.unit
                a = act_at + (act_address(row, uop[1] + src, s) & align) * s.unit
                p = prm_at + ((uop[2] + prm) & (s.prm_depth - 1)) * ROWS * stride
                for j in range(s.out_units):
                    for b in range(s.batch):
                        k, entry = j * s.unit + b * v, p + 8 * j * v
                        rescale_lanes(v, d + 4 * k, a + k, entry, stride, added, even, combine)
