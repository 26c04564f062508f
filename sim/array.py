"""GEMM: micro-ops on the multiplier array, dense and in window mode."""

from __future__ import annotations

from typing import Any

from tilewright.sim.blocks import dense_block, window_pair
from tilewright.sim.compiled import compiled
from tilewright.sim.raw import copy_bytes
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
    C_WRAP_BASE,
    C_WRAP_SIZE,
    WINDOW_CHUNK,
    Memories,
    Shape,
)


@compiled
def _dense(acc: int, act: int, wgt: int, keep: int, s: Shape) -> None:
    """One dense micro-op; acc, act and wgt are the addresses of its vectors and weight entry."""
    v, stride = s.lanes, 2 * s.block_out
    for j in range(s.out_units):
        for b in range(s.batch):
            to, weights = acc + 4 * (j * s.unit + b * v), wgt + 2 * j * v
            dense_block(v, to, act + b * v, weights, stride, keep)
            for i in range(1, s.in_units):
                weights += v * s.block_out
                dense_block(v, to, act + i * s.unit + b * v, weights, stride, 1)


@compiled
def _emit(acc: int, newest: int, wgt: int, keep: int, s: Shape) -> None:
    """One window emit; ``newest`` is the address of window[0], older units lie below it."""
    v = s.lanes
    for b in range(s.batch):
        to, at = acc + 4 * b * v, newest + b * v
        window_pair(v, to, at, s.unit, wgt, keep)
        for t in range(2, s.block_in, 2):
            window_pair(v, to, at - t * s.unit, s.unit, wgt + t * s.block_out, 1)


@compiled
def gemm(row: Any, m: Memories, s: Shape) -> int:
    """Run a GEMM instruction; returns how many window emits it made."""
    # Addresses once per instruction: an array handed down per micro-op costs more than the arithmetic.
    acc_at, act_at, wgt_at, uops = m.acc.ctypes.data, m.act.ctypes.data, m.wgt.ctypes.data, m.uop_gemm
    acc_size, entry = 4 * s.unit, s.block_in * s.block_out
    wrap_base, wrap_size, act_mask = row[C_WRAP_BASE], row[C_WRAP_SIZE], s.act_depth - 1
    acc_mask, taps, push_only = s.acc_depth - 1, s.block_in, (1 << s.acc_bits) - 1
    window = row[C_WINDOW] != 0
    if not window:
        act_mask &= ~(s.in_units - 1)
        acc_mask &= ~(s.out_units - 1)
    else:
        m.window[: (taps - 1) * s.unit] = 0
    # window[t] is the unit t before the newest in a buffer that grows upward
    buffer_at, newest, emits = m.window.ctypes.data, taps - 2, 0
    begin, count, uop_mask = row[C_UOP_BEGIN], row[C_UOP_COUNT], s.uop_gemm_depth - 1
    for o in range(row[C_OUTER]):
        for i in range(row[C_INNER]):
            dst = row[C_DST] + o * row[C_DST_OUTER] + i * row[C_DST_INNER]
            src = row[C_SRC] + o * row[C_SRC_OUTER] + i * row[C_SRC_INNER]
            wgt = row[C_WGT] + o * row[C_WGT_OUTER] + i * row[C_WGT_INNER]
            for u in range(begin, begin + count):
                uop = uops[u & uop_mask]
                a = uop[1] + src
                if a >= wrap_size:
                    a -= wrap_size
                act = act_at + ((wrap_base + a) & act_mask) * s.unit
                acc = acc_at + ((uop[0] + dst) & acc_mask) * acc_size
                weights = wgt_at + ((uop[2] + wgt) & (s.wgt_depth - 1)) * entry
                if not window:
                    _dense(acc, act, weights, uop[3], s)
                    continue
                newest += 1
                if newest == taps + WINDOW_CHUNK:
                    copy_bytes(buffer_at, buffer_at + (newest - taps + 1) * s.unit, (taps - 1) * s.unit)
                    newest = taps - 1
                copy_bytes(buffer_at + newest * s.unit, act, s.unit)
                if uop[0] != push_only:
                    _emit(acc, buffer_at + newest * s.unit, weights, uop[3], s)
                    emits += 1
    return emits
