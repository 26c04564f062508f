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
from tilewright.jit.proof.blocks import add_products
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
def _write(acc: int, keep: int, total: Any, weights: Any, x: Machine, s: Shape) -> None:
    """Add ``total`` to accumulators (``keep``) or write it, and clear it."""
    for o in range(s.block_out):
        _add(acc + o, total[o], weights[o], keep, x)
        total[o] = 0.0
        weights[o] = 0


@compiled
def _emit(
    acc: int, recent: Any, newest: int, first: int, result: int, pair: int, keep: int, x: Machine, s: Shape
) -> None:  # fmt: skip
    """One result of a window emit with the weights from entry ``first`` on.

    ``recent[(newest - t) % len]`` is where window[t] lies in act, -1 where it is still zero.
    """
    for c in range(s.lanes):
        odd = c & pair
        entry, row = first + odd, c - odd + result
        wgt = entry * s.block_in * s.block_out
        total = 0.0
        for t in range(s.block_in if x.taps[entry] < 0 else 0):
            act = recent[(newest - t) & (len(recent) - 1)]
            if act >= 0:
                total = reduce(total + times(x.act[act + c], x.data[wgt + t * s.block_out + row]))
        for t in range(x.taps[entry]):
            act = recent[(newest - t) & (len(recent) - 1)]
            if act >= 0:
                total += x.act[act + c] * x.weights[wgt + t * s.block_out + row]
        _add(acc + c, total, x.selects[entry * s.block_out + row], keep, x)


@compiled
def _add_data(total: Any, act: int, entry: int, x: Machine, s: Shape) -> None:
    """``total`` and the products with an entry of data, reduced."""
    first = entry * s.block_in * s.block_out
    for o in range(s.block_out):
        for k in range(s.block_in):
            total[o] = reduce(total[o] + times(x.act[act + k], x.data[first + k * s.block_out + o]))


@compiled
def gemm(row: Any, x: Machine, s: Shape) -> None:
    """Run a GEMM instruction."""
    window, push_only = row.window != 0, (1 << s.acc_bits) - 1
    masks = matrix_masks(row, s)
    act_at, wgt_at = x.act.ctypes.data, x.weights.ctypes.data
    total, weights = np.zeros(s.block_out), np.zeros(s.block_out, np.int64)
    total_at, terms, place, joins = total.ctypes.data, 0, -1, 0  # products gathered for acc ``place``
    recent = np.full(s.block_in, -1, np.int64)
    newest = -1
    for o in range(row.outer):
        for i in range(row.inner):
            turn = loop_offsets(row, o, i)
            for u in range(row.uop_begin, row.uop_begin + row.uop_count):
                uop = x.memories.uop_gemm[u & (s.uop_gemm_depth - 1)]
                dst, src, entry = matrix(uop, turn, masks)
                acc, act = dst * s.lanes, src * s.lanes
                if not window:
                    if terms and (acc != place or uop[3] == 0 or terms + s.block_in > SUM_TERMS):
                        _write(place, joins, total, weights, x, s)
                        terms = 0
                    if terms == 0:
                        place, joins = acc, uop[3]
                    if x.taps[entry] < 0:
                        _add_data(total, act, entry, x, s)
                    else:
                        wgt = wgt_at + entry * s.block_in * s.block_out
                        add_products(total_at, act_at + 8 * act, wgt, s.block_in, s.block_out)
                    for lane in range(s.block_out):
                        weights[lane] += x.selects[entry * s.block_out + lane]
                    terms += s.block_in
                    continue
                newest += 1
                recent[newest & (s.block_in - 1)] = act
                if uop[0] != push_only:
                    for result in range(1 + row.pair):
                        at = acc + result * s.lanes
                        _emit(at, recent, newest, entry, result, row.pair, uop[3], x, s)
    if terms:
        _write(place, joins, total, weights, x, s)
