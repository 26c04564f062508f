"""The innermost operation of GEMM over the algebra, written as vector IR for a number of outputs.

``add_products``: total[t][0:n] += act[t][0:k] . W for W of shape [k][n] and a number of turns t; W is int8, all else
float64, so that weights stay in the cache. Turns share the conversion of W, which takes longer than their products.
Numba's own loops keep the totals in memory and were four times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from tilewright.jit.proof.native import emitted
from tilewright.sim.blocks import splat
from tilewright.sim.raw import operation

_F64, _I64, _I8 = ir.DoubleType(), ir.IntType(64), ir.IntType(8)
_FUSED = ("contract",)


def _load(builder: Any, address: Any, kind: Any, count: int) -> Any:
    """IR that loads ``count`` neighbouring numbers."""
    return builder.load(
        builder.inttoptr(address, ir.VectorType(kind, count).as_pointer()), align=1 if kind is _I8 else 8
    )


def _make(outputs: int, turns: int) -> Callable[..., Any]:
    """The operation on ``outputs`` neighbouring outputs of so many turns.

    ``step``: bytes from turn to turn in ``total``; ``acts``: where the addresses of the turns' ``count`` inputs are, an
    even number; ``stride``: bytes from row to row of weights.
    """
    chains = 2 if turns == 1 else 1  # of a turn, so that one addition need not wait for the other

    @operation()
    def products(builder: Any, total: Any, step: Any, acts: Any, wgt: Any, stride: Any, count: Any) -> None:
        def place(turn: int) -> Any:
            return builder.add(total, builder.mul(step, ir.Constant(_I64, turn)))

        sums: dict[tuple[int, int], Any] = {}
        for turn in range(turns):
            start = _load(builder, place(turn), _F64, outputs)
            none = ir.Constant(start.type, [0.0] * outputs)
            for chain in range(chains):
                sums[turn, chain] = cgutils.alloca_once_value(builder, none if chain else start)
        address = builder.inttoptr(acts, _I64.as_pointer())
        inputs = [builder.load(builder.gep(address, [ir.Constant(_I64, turn)])) for turn in range(turns)]
        with cgutils.for_range(builder, builder.udiv(count, ir.Constant(_I64, chains))) as loop:
            for chain in range(chains):
                k = builder.add(builder.mul(loop.index, ir.Constant(_I64, chains)), ir.Constant(_I64, chain))
                row = _load(builder, builder.add(wgt, builder.mul(k, stride)), _I8, outputs)
                w = builder.sitofp(row, ir.VectorType(_F64, outputs))
                for turn, act in enumerate(inputs):
                    at = builder.add(act, builder.mul(k, ir.Constant(_I64, 8)))
                    x = builder.load(builder.inttoptr(at, _F64.as_pointer()))
                    product = builder.fmul(splat(builder, x, outputs), w, flags=_FUSED)
                    held = sums[turn, chain]
                    builder.store(builder.fadd(builder.load(held), product, flags=_FUSED), held)
        for turn in range(turns):
            result = builder.load(sums[turn, 0])
            if chains > 1:
                result = builder.fadd(result, builder.load(sums[turn, 1]))
            builder.store(result, builder.inttoptr(place(turn), result.type.as_pointer()), align=8)

    return products


TURNS = 4  #: that are worked out side by side, as many as registers hold the sums of
_one4, _one8, _one16 = (_make(n, 1) for n in (4, 8, 16))
_all4, _all8, _all16 = (_make(n, TURNS) for n in (4, 8, 16))


@emitted
def add_products(turns: int, total: int, acts: int, wgt: int, inputs: int, outputs: int) -> None:
    """total[turns][outputs] += act[turns][inputs] . wgt[inputs][outputs], of one turn or ``TURNS``.

    ``acts``: the address of the addresses of the turns' inputs; sizes are powers of two from 4 on.
    """
    step = 8 * outputs
    for o in range(0, outputs, 16):
        at, w = total + 8 * o, wgt + o
        if turns == 1:
            if outputs == 4:
                _one4(at, step, acts, w, outputs, inputs)
            elif outputs == 8:
                _one8(at, step, acts, w, outputs, inputs)
            else:
                _one16(at, step, acts, w, outputs, inputs)
        elif outputs == 4:
            _all4(at, step, acts, w, outputs, inputs)
        elif outputs == 8:
            _all8(at, step, acts, w, outputs, inputs)
        else:
            _all16(at, step, acts, w, outputs, inputs)
