"""The two innermost operations, written as vector IR for each number of lanes.

``dense_block``: acc[0:V] += act[0:V] . wgt, and ``window_block``: acc[c] += sum_t window[t][c] * wgt[c][t].
Weights lie in *pair order*: entry [BI/2][BO][2], so two neighbouring inputs of one output are adjacent and
the pair sum is one multiply-add instruction (x86 ``pmaddwd``). Autovectorised loops over the same data were
5 to 10 times slower; ``docs/timing.md`` does not depend on any of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tilewright.sim.compiled import compiled

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def _load(builder: Any, address: Any, element: Any, count: int) -> Any:
    pointer = builder.inttoptr(address, ir.VectorType(element, count).as_pointer())
    return builder.load(pointer, align=element.width // 8)


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


def _step(builder: Any, base: Any, stride: Any, index: int) -> Any:
    return builder.add(base, builder.mul(stride, ir.Constant(_I64, index)))


def _make_dense(lanes: int) -> Callable[..., Any]:
    @intrinsic
    def dense(typingctx: Any, acc: Any, act: Any, wgt: Any, stride: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, act, wgt, stride = args
            total = _load(builder, acc, _I32, lanes)
            x = builder.sext(_load(builder, act, _I8, lanes), ir.VectorType(_I16, lanes))
            for k in range(0, lanes, 2):
                pair = _shuffle(builder, x, None, [k, k + 1] * lanes)
                w = _load(builder, _step(builder, wgt, stride, k // 2), _I8, 2 * lanes)
                total = _add_pairs(builder, total, pair, w, lanes)
            builder.store(total, builder.inttoptr(acc, total.type.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp, types.intp), generate

    return dense


def _make_window(lanes: int) -> Callable[..., Any]:
    @intrinsic
    def window(typingctx: Any, acc: Any, newest: Any, back: Any, wgt: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, newest, back, wgt = args
            half = ir.VectorType(_I16, lanes)
            first = builder.sext(_load(builder, newest, _I8, lanes), half)
            second = builder.sext(_load(builder, builder.sub(newest, back), _I8, lanes), half)
            order = [i for lane in range(lanes) for i in (lane, lane + lanes)]
            x = _shuffle(builder, first, second, order)
            w = _load(builder, wgt, _I8, 2 * lanes)
            total = _add_pairs(builder, _load(builder, acc, _I32, lanes), x, w, lanes)
            builder.store(total, builder.inttoptr(acc, total.type.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp, types.intp), generate

    return window


_dense4, _dense8, _dense16, _dense32, _dense64 = (_make_dense(v) for v in (4, 8, 16, 32, 64))
_window4, _window8, _window16, _window32, _window64 = (_make_window(v) for v in (4, 8, 16, 32, 64))


@compiled
def dense_block(lanes: int, acc: int, act: int, wgt: int, stride: int) -> None:
    """acc[0:V] += act[0:V] . W for one V x V block; all but ``lanes`` are byte addresses.

    ``stride``: bytes from one pair row of weights to the next (2 x BO).
    """
    if lanes == 16:
        _dense16(acc, act, wgt, stride)
    elif lanes == 8:
        _dense8(acc, act, wgt, stride)
    elif lanes == 32:
        _dense32(acc, act, wgt, stride)
    elif lanes == 4:
        _dense4(acc, act, wgt, stride)
    else:
        _dense64(acc, act, wgt, stride)


@compiled
def window_pair(lanes: int, acc: int, newest: int, back: int, wgt: int) -> None:
    """acc[c] += window[t][c] * wgt[c][t] + window[t+1][c] * wgt[c][t+1] for the V lanes of one image.

    ``newest`` is the address of window[t], ``back`` the bytes from window[t+1] up to it.
    """
    if lanes == 16:
        _window16(acc, newest, back, wgt)
    elif lanes == 8:
        _window8(acc, newest, back, wgt)
    elif lanes == 32:
        _window32(acc, newest, back, wgt)
    elif lanes == 4:
        _window4(acc, newest, back, wgt)
    else:
        _window64(acc, newest, back, wgt)
