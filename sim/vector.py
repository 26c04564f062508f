"""ALU, REQUANTIZE and RESCALE: whole vectors of BLOCK_OUT channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, Rounding
from tilewright.isa.spec import AluOp, Combine
from tilewright.sim.compiled import compiled
from tilewright.sim.move import act_address
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

ADD, MAX, MIN, MUL, SHR = (int(op) for op in (AluOp.ADD, AluOp.MAX, AluOp.MIN, AluOp.MUL, AluOp.SHR))
JOIN_WRITE, JOIN_ADD, JOIN_MAX = (int(c) for c in (Combine.WRITE, Combine.ADD, Combine.MAX))
DOUBLE, EVEN, CONSTANT = (int(r) for r in (Rounding.DOUBLE, Rounding.EVEN, Rounding.CONSTANT))
LEFT_SHIFT = RESCALE_LEFT_SHIFT


@compiled
def _shift(x: int, operand: int) -> int:
    n = ((operand & 63) ^ 32) - 32
    return x >> n if n >= 0 else x << -n


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
                    x = np.int64(m.acc[d + k])
                    y = imm if use_imm else np.int64(m.acc[a + k])
                    if function == ADD:
                        x = x + y
                    elif function == MAX:
                        x = max(x, y)
                    elif function == MIN:
                        x = min(x, y)
                    elif function == MUL:
                        x = x * y
                    elif function == SHR:
                        x = _shift(x, y)
                    else:
                        x = y
                    m.acc[d + k] = np.int32(x)


@compiled
def _scale_round(x: int, multiplier: int, offset: int, shift: int, rounding: int) -> int:
    """``isa.arithmetic.scale_round`` of one int32."""
    total = x * multiplier + offset + (np.int64(1) << shift >> 1 if shift < 63 else np.int64(1) << 62)
    if rounding == DOUBLE and shift > 31:
        total += -(1 << 30) if x < 0 else 1 << 30
    result = total >> shift
    if rounding == EVEN and shift > 0 and total & ((np.int64(1) << shift) - 1) == 0:
        result -= result & 1
    return result


@compiled
def requantize(row: Any, m: Memories, s: Shape) -> None:
    """act[d] = clamp(scale_round(acc[src] + bias) + zero_point, lo, hi)."""
    rounding, zero_point, lo, hi = row[C_ROUNDING], row[C_ZERO_POINT], row[C_LO], row[C_HI]
    constant = min(max(zero_point, lo), hi)
    align = ~(s.out_units - 1)
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            prm = row[C_PRM] + o * row[C_PRM_OUTER] + i * row[C_PRM_INNER]
            for u in range(row[C_UOP_COUNT]):
                uop = (row[C_UOP_BEGIN] + u) & (s.uop_alu_depth - 1)
                d = (act_address(row, m.uop_alu[uop, 0] + dst, s) & align) * s.unit
                if rounding == CONSTANT:
                    m.act[d : d + s.out_units * s.unit] = constant
                    continue
                a = ((m.uop_alu[uop, 1] + src) & align & (s.acc_depth - 1)) * s.unit
                p = ((m.uop_alu[uop, 2] + prm) & (s.prm_depth - 1)) * s.block_out
                for j in range(s.out_units):
                    for b in range(s.batch):
                        k, c = j * s.unit + b * s.lanes, p + j * s.lanes
                        for l in range(s.lanes):
                            x = np.int64(np.int32(m.acc[a + k + l] + m.bias[c + l]))
                            y = _scale_round(x, m.multiplier[c + l], m.offset[c + l], m.shift[c + l], rounding)
                            m.act[d + k + l] = min(max(y + zero_point, lo), hi)


@compiled
def rescale(row: Any, m: Memories, s: Shape) -> None:
    """acc[d] (op)= scale_round((act[src] << 20) + bias), int32 wrapping."""
    rounding, combine = row[C_ROUNDING], row[C_COMBINE]
    align = ~(s.out_units - 1)
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            prm = row[C_PRM] + o * row[C_PRM_OUTER] + i * row[C_PRM_INNER]
            for u in range(row[C_UOP_COUNT]):
                uop = (row[C_UOP_BEGIN] + u) & (s.uop_alu_depth - 1)
                d = ((m.uop_alu[uop, 0] + dst) & align & (s.acc_depth - 1)) * s.unit
                a = (act_address(row, m.uop_alu[uop, 1] + src, s) & align) * s.unit
                p = ((m.uop_alu[uop, 2] + prm) & (s.prm_depth - 1)) * s.block_out
                for j in range(s.out_units):
                    for b in range(s.batch):
                        k, c = j * s.unit + b * s.lanes, p + j * s.lanes
                        for l in range(s.lanes):
                            x = np.int64(np.int32((np.int64(m.act[a + k + l]) << LEFT_SHIFT) + m.bias[c + l]))
                            y = _scale_round(x, m.multiplier[c + l], m.offset[c + l], m.shift[c + l], rounding)
                            y = np.int64(np.int32(y))
                            old = np.int64(m.acc[d + k + l])
                            if combine == JOIN_ADD:
                                y = old + y
                            elif combine == JOIN_MAX:
                                y = max(old, y)
                            elif combine != JOIN_WRITE:
                                y = min(old, y)
                            m.acc[d + k + l] = np.int32(y)
