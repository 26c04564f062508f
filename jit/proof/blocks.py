"""The innermost operation of GEMM over the algebra, written as vector IR for a number of outputs.

``add_products``: total[0:n] += act[0:k] . W for W of shape [k][n]; W is int8, all else float64, so that weights stay in
the cache. Numba's own loops keep the totals in memory and were four times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from tilewright.jit.proof.native import compiled
from tilewright.sim.blocks import splat
from tilewright.sim.raw import operation

_F64, _I64, _I8 = ir.DoubleType(), ir.IntType(64), ir.IntType(8)
_FUSED = ("contract",)


def _load(builder: Any, address: Any, kind: Any, count: int) -> Any:
    """IR that loads ``count`` neighbouring numbers."""
    return builder.load(
        builder.inttoptr(address, ir.VectorType(kind, count).as_pointer()), align=1 if kind is _I8 else 8
    )


def _make(outputs: int) -> Callable[..., Any]:
    """The operation on ``outputs`` neighbouring outputs; ``count`` inputs, even; ``stride``: bytes from row to row."""

    @operation()
    def products(builder: Any, total: Any, act: Any, wgt: Any, stride: Any, count: Any) -> None:
        start = _load(builder, total, _F64, outputs)
        sums = [
            cgutils.alloca_once_value(builder, v) for v in (start, ir.Constant(start.type, [0.0] * outputs))
        ]  # two, so that one addition need not wait for the other
        with cgutils.for_range(builder, builder.udiv(count, ir.Constant(_I64, 2))) as loop:
            for half, place in enumerate(sums):
                k = builder.add(builder.mul(loop.index, ir.Constant(_I64, 2)), ir.Constant(_I64, half))
                at = builder.add(act, builder.mul(k, ir.Constant(_I64, 8)))
                x = builder.load(builder.inttoptr(at, _F64.as_pointer()))
                w = builder.sitofp(_load(builder, builder.add(wgt, builder.mul(k, stride)), _I8, outputs), start.type)
                product = builder.fmul(splat(builder, x, outputs), w, flags=_FUSED)
                builder.store(builder.fadd(builder.load(place), product, flags=_FUSED), place)
        result = builder.fadd(builder.load(sums[0]), builder.load(sums[1]))
        builder.store(result, builder.inttoptr(total, result.type.as_pointer()), align=8)

    return products


_products4, _products8, _products16 = (_make(n) for n in (4, 8, 16))


@compiled
def add_products(total: int, act: int, wgt: int, inputs: int, outputs: int) -> None:
    """total[0:outputs] += act[0:inputs] . wgt[inputs][outputs]; addresses, sizes powers of two from 4 on."""
    if outputs == 4:
        _products4(total, act, wgt, 4, inputs)
    elif outputs == 8:
        _products8(total, act, wgt, 8, inputs)
    else:
        for o in range(0, outputs, 16):
            _products16(total + 8 * o, act, wgt + o, outputs, inputs)
