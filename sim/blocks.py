"""The two innermost operations, written as vector IR for each number of lanes.

``dense_block``: acc[0:V] += act[0:V] . wgt, and ``window_pair``: acc[c] += sum_t window[t][c] * wgt[c][t].
Weights lie in *pair order*: entry [BI/2][BO][2], so two neighbouring inputs of one output are adjacent and
the pair sum is one multiply-add instruction (x86 ``pmaddwd``).

Plain Numba loops of the same bytes were measured anew (numba 0.68, ``pynq-z2``, least of 25 runs in turn): values of
ResNet-8 take 3.3 to 6.2 ms instead of 1.1, of keyword spotting 1.7 to 2.3 instead of 0.6, of person detection 3.4 to
4.4 instead of 1.1, by loops over outputs or over inputs, compiled for each number of lanes: Numba vectorises no fixed
short loop over pairs. A float32 matrix product of 32 pixels takes twice the time of 32 blocks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilewright.sim.native import emitted
from tilewright.sim.raw import by_lanes

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def load_vector(builder: Any, address: Any, element: Any, count: int) -> Any:
    """IR that loads ``count`` elements from an address aligned to one of them."""
    pointer = builder.inttoptr(address, ir.VectorType(element, count).as_pointer())
    return builder.load(pointer, align=element.width // 8)


def splat(builder: Any, value: Any, count: int) -> Any:
    """IR that copies a scalar to all of ``count`` elements."""
    kind = ir.VectorType(value.type, count)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
    return _shuffle(builder, first, None, [0] * count)


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    other = ir.Constant(a.type, ir.Undefined) if b is None else b
    return builder.shuffle_vector(a, other, ir.Constant(ir.VectorType(_I32, len(order)), order))


def _add_pairs(builder: Any, total: Any, x: Any, w: Any, lanes: int) -> Any:
    """total[l] + x[2l] * w[2l] + x[2l+1] * w[2l+1]; x int16, w int8, both 2 x lanes long."""
    wide = ir.VectorType(_I32, 2 * lanes)
    product = builder.mul(builder.sext(x, wide), builder.sext(builder.sext(w, x.type), wide))
    even = _shuffle(builder, product, None, list(range(0, 2 * lanes, 2)))
    odd = _shuffle(builder, product, None, list(range(1, 2 * lanes, 2)))
    return builder.add(total, builder.add(even, odd))


def _start(builder: Any, acc: Any, keep: Any, lanes: int) -> Any:
    """What a block adds to: acc[0:V] if ``keep`` is not 0, else zeros."""
    old = load_vector(builder, acc, _I32, lanes)
    kept = builder.icmp_signed("!=", keep, ir.Constant(_I64, 0))
    return builder.select(kept, old, ir.Constant(old.type, [0] * lanes))


def _step(builder: Any, base: Any, stride: Any, index: int) -> Any:
    return builder.add(base, builder.mul(stride, ir.Constant(_I64, index)))


@emitted
def dense_block(lanes: int, acc: int, act: int, wgt: int, stride: int, keep: int) -> None:
    """acc[0:V] = (keep ? acc[0:V] : 0) + act[0:V] . W for one V x V block; acc, act and wgt are addresses.

    ``stride``: bytes from one pair row of weights to the next (2 x BO).
    """
    _dense(lanes, acc, act, wgt, stride, keep)


@emitted
def window_pair(lanes: int, acc: int, newest: int, back: int, wgt: int, keep: int) -> None:
    """acc[c] = (keep ? acc[c] : 0) + two taps, window[t][c] * wgt[c][t], for the V lanes of one image.

    ``newest`` is the address of window[t], ``back`` the bytes from window[t+1] up to it.
    """
    _window(lanes, acc, newest, back, wgt, keep)


@by_lanes
def _dense(builder: Any, lanes: Any, acc: Any, act: Any, wgt: Any, stride: Any, keep: Any) -> None:
    total = _start(builder, acc, keep, lanes)
    x = builder.sext(load_vector(builder, act, _I8, lanes), ir.VectorType(_I16, lanes))
    for k in range(0, lanes, 2):
        pair = _shuffle(builder, x, None, [k, k + 1] * lanes)
        w = load_vector(builder, _step(builder, wgt, stride, k // 2), _I8, 2 * lanes)
        total = _add_pairs(builder, total, pair, w, lanes)
    builder.store(total, builder.inttoptr(acc, total.type.as_pointer()), align=4)


@by_lanes
def _window(builder: Any, lanes: Any, acc: Any, newest: Any, back: Any, wgt: Any, keep: Any) -> None:
    half = ir.VectorType(_I16, lanes)
    first = builder.sext(load_vector(builder, newest, _I8, lanes), half)
    second = builder.sext(load_vector(builder, builder.sub(newest, back), _I8, lanes), half)
    x = _shuffle(builder, first, second, [i for lane in range(lanes) for i in (lane, lane + lanes)])
    w = load_vector(builder, wgt, _I8, 2 * lanes)
    total = _add_pairs(builder, _start(builder, acc, keep, lanes), x, w, lanes)
    builder.store(total, builder.inttoptr(acc, total.type.as_pointer()), align=4)
