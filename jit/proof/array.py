"""GEMM over the algebra: the instruction's sums of products, on field elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.proof.algebra import (
    LINEAR,
    MAXSET,
    MINSET,
    NOTHING,
    PLAIN,
    SUM_TERMS,
    clamp_key,
    extreme,
    reduce,
    symbol,
    times,
)
from tilewright.jit.proof.blocks import TURNS, add_products
from tilewright.jit.proof.machine import Machine
from tilewright.jit.proof.native import compiled
from tilewright.sim.operands import loop_offsets, matrix, matrix_masks
from tilewright.sim.state import Shape


@compiled
def linear(first: int, count: int, x: Machine) -> None:
    """Make accumulators numbers that can be added to: an extreme becomes the function of its set."""
    for k in range(first, first + count):
        if x.kind[k] in (MAXSET, MINSET):
            x.acc[k] = symbol(x.acc[k], clamp_key(x.seed, extreme(x.kind[k]), -128, 127))
        x.kind[k] = LINEAR


@compiled
def _add(at: int, total: float, weights: int, keep: int, x: Machine) -> None:
    """Put ``total`` into an accumulator or (``keep``) add it; ``weights`` as in :class:`Machine`'s ``selects``.

    A selection by a single weight of 1 among zeros stays one int8 value.
    """
    if keep and weights == 0:
        return
    if keep and not (weights == 1 and x.kind[at] == NOTHING):
        linear(at, 1, x)
        x.acc[at] = reduce(x.acc[at] + total)
        return
    x.acc[at] = reduce(total)
    x.kind[at] = PLAIN if weights == 1 else NOTHING if weights == 0 else LINEAR


@compiled
def _tap(recent: Any, newest: int, t: int, twin: int, s: Shape) -> int:
    """Where window[t] lies in act, -1 where it is still zero; ``recent[newest % len]`` is what was pushed last."""
    half = s.block_in // 2
    if not twin or t < half:
        return int(recent[(newest - t) & (s.block_in - 1)])
    act = int(recent[(newest - t + half) & (s.block_in - 1)])
    return act if act < 0 else act + s.lanes


@compiled
def _emit(
    acc: int, recent: Any, newest: int, first: int, result: int, row: Any, keep: int, x: Machine, s: Shape
) -> None:  # fmt: skip
    """One result of a window emit of an instruction with the weights from entry ``first`` on."""
    for c in range(s.lanes):
        odd = c & row.pair
        entry, weights = first + odd, c - odd + result
        wgt = entry * s.block_in * s.block_out
        total = 0.0
        for t in range(s.block_in if x.taps[entry] < 0 else 0):
            act = _tap(recent, newest, t, row.twin, s)
            if act >= 0:
                total = reduce(total + times(x.act[act + c], x.data[wgt + t * s.block_out + weights]))
        for t in range(x.taps[entry]):
            act = _tap(recent, newest, t, row.twin, s)
            if act >= 0:
                total += x.act[act + c] * x.weights[wgt + t * s.block_out + weights]
        _add(acc + c, total, x.selects[entry * s.block_out + weights], keep, x)


@compiled
def _add_data(total: Any, act: int, entry: int, x: Machine, s: Shape) -> None:
    """``total`` and the products with an entry of data, reduced."""
    first = entry * s.block_in * s.block_out
    for o in range(s.block_out):
        for k in range(s.block_in):
            total[o] = reduce(total[o] + times(x.act[act + k], x.data[first + k * s.block_out + o]))


@compiled
def _windows(row: Any, x: Machine, s: Shape) -> None:
    """A GEMM instruction in window mode."""
    masks, push_only = matrix_masks(row, s), (1 << s.acc_bits) - 1
    recent = np.full(s.block_in, -1, np.int64)
    newest = -1
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_begin, row.uop_begin + row.uop_count):
                uop = x.memories.uop_gemm[u & (s.uop_gemm_depth - 1)]
                dst, src, entry = matrix(uop, turn, masks)
                newest += 1
                recent[newest & (s.block_in - 1)] = src * s.lanes
                if uop[0] != push_only:
                    for result in range(1 + row.pair):
                        at = (dst + result) * s.lanes
                        _emit(at, recent, newest, entry, result, row, uop[3], x, s)


@compiled
def _apart(row: Any, x: Machine, s: Shape) -> bool:
    """Whether the turns of the inner loop share weights, and have accumulators of their own: then they may run in
    any order."""
    low = high = x.memories.uop_gemm[row.uop_begin & (s.uop_gemm_depth - 1), 0]
    for u in range(row.uop_begin, row.uop_begin + row.uop_count):
        dst = x.memories.uop_gemm[u & (s.uop_gemm_depth - 1), 0]
        low, high = min(low, dst), max(high, dst)
    return row.wgt_inner == 0 and row.dst_inner >= high - low + s.out_units


@compiled
def _matrices(row: Any, x: Machine, s: Shape) -> None:
    """A GEMM instruction on matrices: micro-ops that add to the same accumulators at once, some turns side by side."""
    masks, group = matrix_masks(row, s), TURNS if _apart(row, x, s) else 1
    act_at, wgt_at, size = x.act.ctypes.data, x.weights.ctypes.data, s.block_in * s.block_out
    total, weights = np.zeros((TURNS, s.block_out)), np.zeros(s.block_out, np.int64)
    acts, total_at = np.zeros(TURNS, np.int64), total.ctypes.data
    acts_at, end = acts.ctypes.data, row.uop_begin + row.uop_count
    for o in range(row.outer):
        for i in range(0, row.inner, group):
            turns, u = min(group, row.inner - i), row.uop_begin
            (dst, src, wgt, _), dst_step, src_step = loop_offsets(row, o, i), row.dst_inner, row.src_inner
            while u < end:
                first = x.memories.uop_gemm[u & (s.uop_gemm_depth - 1)]
                uop, terms = first, 0
                while True:
                    entry = (uop[2] + wgt) & masks[4]
                    for t in range(TURNS):  # beyond the last turn, that one's again
                        turn = (dst, src + min(t, turns - 1) * src_step, wgt, 0)
                        act = matrix(uop, turn, masks)[1] * s.lanes
                        acts[t] = act_at + 8 * act
                        if x.taps[entry] < 0 and t < turns:
                            _add_data(total[t], act, entry, x, s)
                    if x.taps[entry] >= 0:
                        sharing = 1 if turns == 1 else TURNS
                        add_products(sharing, total_at, acts_at, wgt_at + entry * size, s.block_in, s.block_out)
                    for lane in range(s.block_out):
                        weights[lane] += x.selects[entry * s.block_out + lane]
                    terms += s.block_in
                    u += 1
                    if u == end or terms + s.block_in > SUM_TERMS:
                        break
                    uop = x.memories.uop_gemm[u & (s.uop_gemm_depth - 1)]
                    if uop[0] != first[0] or uop[3] == 0:
                        break
                for t in range(turns):
                    acc = matrix(first, (dst + t * dst_step, src, wgt, 0), masks)[0] * s.lanes
                    for lane in range(s.block_out):
                        _add(acc + lane, total[t, lane], weights[lane], first[3], x)
                total[:] = 0.0
                weights[:] = 0


@compiled
def gemm(row: Any, x: Machine, s: Shape) -> None:
    """Run a GEMM instruction."""
    if row.window != 0:
        _windows(row, x, s)
    else:
        _matrices(row, x, s)
