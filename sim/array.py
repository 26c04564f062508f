"""GEMM: micro-ops on the multiplier array, dense and in window mode."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.sim.blocks import dense_block, window_pair
from tilewright.sim.native import compiled
from tilewright.sim.operands import loop_offsets, matrix, matrix_masks, put
from tilewright.sim.raw import copy_bytes
from tilewright.sim.state import WINDOW_CHUNK, Memories, Shape


class _Sizes(NamedTuple):
    """What the innermost loops need of a :class:`Shape`: all of it, handed down per micro-op, costs time."""

    batch: int
    block_in: int
    block_out: int
    lanes: int
    in_units: int
    out_units: int
    unit: int


@compiled
def _dense(acc: int, act: int, wgt: int, keep: int, s: _Sizes) -> None:
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
def _emit(acc: int, first: int, second: int, wgt: int, keep: int, s: _Sizes) -> None:
    """One result of a window emit; ``first`` and ``second`` are the addresses of window[0] and of window[BLOCK_IN / 2],
    older units of each half lie below."""
    v, half = s.lanes, s.block_in // 2
    for b in range(s.batch):
        to = acc + 4 * b * v
        for t in range(0, half, 2):
            window_pair(v, to, first + b * v - t * s.unit, s.unit, wgt + t * s.block_out, keep | t)
        for t in range(0, half, 2):
            window_pair(v, to, second + b * v - t * s.unit, s.unit, wgt + (half + t) * s.block_out, 1)


@compiled
def _gather(wgt: Any, first: int, to: Any, s: _Sizes) -> None:
    """The entries of the two results of a pair, one after the other, from entries ``first`` of even and odd lanes.

    ``to`` int8 (2 x entry), ``wgt`` all entries; both in pair order.
    """
    row, entry = 2 * s.block_out, s.block_in * s.block_out
    for result in range(2):
        for c in range(s.lanes):
            source = first + (c & 1) * entry + 2 * (c - (c & 1) + result)
            place = result * entry + 2 * c
            for t in range(s.block_in // 2):
                to[place + t * row] = wgt[source + t * row]
                to[place + t * row + 1] = wgt[source + t * row + 1]


@compiled
def gemm(row: Any, m: Memories, s: Shape) -> int:
    """Run a GEMM instruction; returns how many window emits it made."""
    # Addresses once per instruction: an array handed down per micro-op costs more than the arithmetic.
    acc_at, act_at, wgt_at, uops = m.acc.ctypes.data, m.act.ctypes.data, m.wgt.ctypes.data, m.uop_gemm
    sizes = _Sizes(s.batch, s.block_in, s.block_out, s.lanes, s.in_units, s.out_units, s.unit)
    acc_size, entry, masks = 4 * s.unit, s.block_in * s.block_out, matrix_masks(row, s)
    window, twin, taps, push_only = row.window != 0, row.twin != 0, s.block_in, (1 << s.acc_bits) - 1
    room = (taps + WINDOW_CHUNK) * s.unit  # of each half of the window
    if window:
        for half in range(2):
            put(m.window, half * room, (taps - 1) * s.unit, 0)
    # window[t] is the unit t before the newest in a buffer that grows upward; with twin its second half has its own
    buffer_at, newest, emits = m.window.ctypes.data, taps - 2, 0
    other_at = buffer_at + room if twin else buffer_at - taps // 2 * s.unit
    pair, gathered = m.pair, -1  # the weights of a pair, and which they are
    begin, count, uop_mask = row.uop_begin, row.uop_count, s.uop_gemm_depth - 1
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(begin, begin + count):
                uop = uops[u & uop_mask]
                dst, src, wgt = matrix(uop, turn, masks)
                acc, act, weights = acc_at + dst * acc_size, act_at + src * s.unit, wgt_at + wgt * entry
                if not window:
                    _dense(acc, act, weights, uop[3], sizes)
                    continue
                newest += 1
                if newest == taps + WINDOW_CHUNK:
                    for half in range(1 + row.twin):
                        at = buffer_at + half * room
                        copy_bytes(at, at + (newest - taps + 1) * s.unit, (taps - 1) * s.unit)
                    newest = taps - 1
                at = newest * s.unit
                copy_bytes(buffer_at + at, act, s.unit)
                if twin:
                    copy_bytes(other_at + at, act + s.unit, s.unit)
                if uop[0] == push_only:
                    continue
                emits += 1
                if row.pair:
                    if gathered != wgt:
                        _gather(m.wgt, wgt * entry, pair, sizes)
                        gathered = wgt
                    weights = pair.ctypes.data
                    _emit(acc + acc_size, buffer_at + at, other_at + at, weights + entry, uop[3], sizes)
                _emit(acc, buffer_at + at, other_at + at, weights, uop[3], sizes)
    return emits
