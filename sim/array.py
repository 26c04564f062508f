"""GEMM: micro-ops on the multiplier array, dense and in window mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.sim.blocks import dense_block, window_pair
from tilewright.sim.compiled import compiled
from tilewright.sim.move import act_address
from tilewright.sim.state import (
    C_DST,
    C_DST_INNER,
    C_DST_OUTER,
    C_INNER,
    C_OUTER,
    C_SRC,
    C_SRC_INNER,
    C_SRC_OUTER,
    C_UOP_BEGIN,
    C_UOP_COUNT,
    C_WGT,
    C_WGT_INNER,
    C_WGT_OUTER,
    C_WINDOW,
    Memories,
    Shape,
)

WINDOW_CHUNK = 256  #: pushes between two moves of the window to the start of its buffer


@compiled
def _dense(d: int, src: int, w: int, accumulate: int, m: Memories, s: Shape) -> None:
    """acc vector d (+)= act vector src . wgt entry w; addresses are aligned and in range."""
    v = s.lanes
    acc = m.acc.ctypes.data + 4 * d * s.unit
    act = m.act.ctypes.data + src * s.unit
    wgt = m.wgt.ctypes.data + w * s.block_in * s.block_out
    if accumulate == 0:
        m.acc[d * s.unit : (d + s.out_units) * s.unit] = 0
    for j in range(s.out_units):
        for i in range(s.in_units):
            block = wgt + i * v * s.block_out + 2 * j * v
            for b in range(s.batch):
                dense_block(v, acc + 4 * (j * s.unit + b * v), act + i * s.unit + b * v, block, 2 * s.block_out)


@compiled
def _emit(d: int, newest: int, w: int, accumulate: int, m: Memories, s: Shape) -> None:
    """acc unit d (+)= window . wgt entry w; ``newest`` is the address of window[0]."""
    v = s.lanes
    acc = m.acc.ctypes.data + 4 * d * s.unit
    wgt = m.wgt.ctypes.data + w * s.block_in * s.block_out
    if accumulate == 0:
        m.acc[d * s.unit : (d + 1) * s.unit] = 0
    for t in range(0, s.block_in, 2):
        for b in range(s.batch):
            at = newest - t * s.unit + b * v
            window_pair(v, acc + 4 * b * v, at, s.unit, wgt + t * s.block_out)


@compiled
def gemm(row: Any, m: Memories, s: Shape) -> int:
    """Run a GEMM instruction; returns how many window emits it made."""
    push_only = (1 << s.acc_bits) - 1
    taps = s.block_in
    window = row[C_WINDOW] != 0
    # window[t] is the unit t before the newest in a buffer that grows upward
    buffer = np.zeros((taps + WINDOW_CHUNK if window else 0) * s.unit, np.int8)
    newest, emits = taps - 1, 0
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            wgt = row[C_WGT] + o * row[C_WGT_OUTER] + i * row[C_WGT_INNER]
            for u in range(row[C_UOP_COUNT]):
                uop = (row[C_UOP_BEGIN] + u) & (s.uop_gemm_depth - 1)
                d = (m.uop_gemm[uop, 0] + dst) & (s.acc_depth - 1)
                a = act_address(row, m.uop_gemm[uop, 1] + src, s)
                w = (m.uop_gemm[uop, 2] + wgt) & (s.wgt_depth - 1)
                accumulate = m.uop_gemm[uop, 3]
                if not window:
                    _dense(d & ~(s.out_units - 1), a & ~(s.in_units - 1), w, accumulate, m, s)
                    continue
                newest += 1
                if newest == taps + WINDOW_CHUNK:
                    for k in range((taps - 1) * s.unit):
                        buffer[k] = buffer[(newest - taps + 1) * s.unit + k]
                    newest = taps - 1
                for k in range(s.unit):
                    buffer[newest * s.unit + k] = m.act[a * s.unit + k]
                if m.uop_gemm[uop, 0] != push_only:
                    _emit(d, buffer.ctypes.data + newest * s.unit, w, accumulate, m, s)
                    emits += 1
    return emits
