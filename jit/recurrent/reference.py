"""What :mod:`~tilewright.jit.recurrent.ops` means, in NumPy.

Source: LiteRT ``kernels/lstm_eval.cc`` (``LstmStepInteger`` of int8 with an int16 cell) and ``reference/svdf.h``
(``EvalIntegerSVDF``); TensorFlow Lite Micro ``kernels/svdf_common.cc`` for a state of int8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import Rounding, scale_round, wrap_int32
from tilewright.jit.recurrent.fixed_point import Integers, rounded_shift, sigmoid, tanh
from tilewright.jit.recurrent.ops import Lstm, Sums, Svdf
from tilewright.jit.recurrent.state import joined, parted


def scaled(parts: Sequence[Sums], x: NDArray[Any]) -> Integers:
    """Sums over inputs (..., inputs) for each gate: (..., gates, units)."""
    weight, bias = np.stack([p.weight for p in parts]), np.stack([p.bias for p in parts])
    multiplier, shift = (np.array([[getattr(p, name)] for p in parts]) for name in ("multiplier", "shift"))
    flat = x.astype(np.float64) @ weight.reshape(-1, x.shape[-1]).T.astype(np.float64)  # exact: below 2^53
    sums = flat.astype(np.int64).reshape(*x.shape[:-1], *bias.shape) + bias
    return scale_round(wrap_int32(sums), multiplier, shift, 0, Rounding.DOUBLE)


def lstm(op: Lstm, x: NDArray[Any]) -> NDArray[np.int8]:
    """Hidden states (1, H, W, units) of (1, H, W, inputs), from reset states on."""
    sequences = (math.prod(x.shape[:-1]) // op.steps, op.units)
    return _run(op, x, np.full(sequences, op.state_zero_point, np.int8), np.zeros(sequences, np.int64))


def lstm_on(
    op: Lstm, x: NDArray[Any], hidden: NDArray[np.int8], high: NDArray[np.int8], low: NDArray[np.int8]
) -> tuple[NDArray[np.int8], ...]:
    """The same from these states on (:mod:`~tilewright.jit.recurrent.state`); and the states after it."""
    last = np.array(hidden.reshape(-1, op.units))
    cell = joined(high, low).reshape(-1, op.units)
    result = _run(op, x, last, cell)
    return result, last.reshape(hidden.shape), *parted(cell.reshape(high.shape))


def _run(op: Lstm, x: NDArray[Any], hidden: NDArray[np.int8], cell: Integers) -> NDArray[np.int8]:
    """The result; ``hidden`` and ``cell`` (sequences, units) become what each sequence ends in."""
    result = np.empty((*x.shape[:-1], op.units), np.int8)
    pixels = result.reshape(-1, op.units)
    entries = saturated(scaled(op.entry, x.reshape(-1, x.shape[-1])))
    for step, pixel in enumerate(op.order(len(pixels))):
        k = step // op.steps
        entry, forget, fresh, output = saturated(entries[pixel] + scaled(op.recurrent, hidden[k]))
        fresh = rounded_shift(sigmoid(entry) * tanh(fresh), 30 - op.cell_bits)
        cell[k] = np.clip(rounded_shift(sigmoid(forget) * cell[k], 15) + fresh, *op.cell_range)
        shown = sigmoid(output) * tanh(cell[k], 15 - op.cell_bits)
        shown = scale_round(shown, op.multiplier, op.shift, 0, Rounding.DOUBLE) + op.zero_point
        pixels[pixel] = hidden[k] = np.clip(shown, -128, 127).astype(np.int8)
    return result


def saturated(x: Integers) -> Integers:
    """To int16."""
    return np.clip(x, -32768, 32767)


def svdf(op: Svdf, x: NDArray[Any], *states: NDArray[np.int8]) -> tuple[NDArray[np.int8], ...]:
    """The result (1, H, W, units) of (1, H, W, inputs) from these states on, or reset ones; and the states after it."""
    fresh = scaled([op.feature], x.reshape(-1, x.shape[-1]))  # (pixels, 1, filters)
    wide, zero = op.state_bits == 16, op.state_zero_point
    fresh = saturated(fresh) if wide else np.clip(fresh + zero, -128, 127) - zero
    if not states:
        past = np.zeros((len(fresh), op.memory - 1, op.filters), np.int64)
    else:  # rank by rank
        known = joined(*states) if wide else states[0].astype(np.int64) - zero
        past = known.reshape(len(fresh), -1, op.rank, len(op.bias)).swapaxes(2, 3).reshape(len(fresh), -1, op.filters)
    window = np.concatenate([past, fresh], axis=1)
    sums = (window * op.time.T.astype(np.int64)).sum(axis=1).reshape(len(window), -1, op.rank).sum(axis=2) + op.bias
    shown = scale_round(wrap_int32(sums), op.multiplier, op.shift, 0, Rounding.DOUBLE) + op.zero_point
    result = np.clip(shown, -128, 127).astype(np.int8).reshape(*x.shape[:-1], -1)
    if not states:
        return (result,)
    kept = window[:, 1:].reshape(len(fresh), -1, len(op.bias), op.rank).swapaxes(2, 3).reshape(states[0].shape)
    return result, *(parted(kept) if wide else [(kept + zero).astype(np.int8)])
