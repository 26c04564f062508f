"""Recurrent operators: what an LSTM and an SVDF compute.

Source: LiteRT ``kernels/lstm_eval.cc`` (``LstmStepInteger`` of int8 with an int16 cell) and ``reference/svdf.h``
(``EvalIntegerSVDF``); TensorFlow Lite Micro ``kernels/svdf_common.cc`` for a state of int8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import Rounding, scale_round, wrap_int32
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.requant import Requant
from tilewright.jit.ops.recurrent import Recurrent
from tilewright.jit.recurrent.fixed_point import Integers, joined, parted, rounded_shift, sigmoid, tanh
from tilewright.runtime.steps import TensorSpec


@dataclass(frozen=True)
class Sums:
    """``acc * multiplier / 2^shift``, rounded twice, of ``acc = sum x * w + bias``.

    ``weight`` is (units, inputs), int8; ``bias`` (units,) has the zero point of x folded in.
    """

    weight: NDArray[np.int8]
    bias: NDArray[np.int64]
    multiplier: int
    shift: int


@dataclass(kw_only=True)
class Lstm(Recurrent):
    """LiteRT's integer LSTM: int8 inputs and hidden states, gates and cell of int16.

    The pixels of the input in order are sequences of ``steps`` steps, each of which begins with reset states, or
    (``time_major``) the first steps of all of them, then the second ones; the result has a hidden state for each.
    ``entry`` (of inputs) and ``recurrent`` (of hidden states) have sums for each gate: input, forget, cell, output. A
    gate is ``saturate(saturate(entry) + recurrent)`` to int16, with 12 bits of fraction. The cell has ``cell_bits`` of
    fraction and is kept within ``cell_range``. Hidden states are scaled by ``multiplier / 2^shift``, with
    ``zero_point`` added; a reset one is ``state_zero_point``.
    """

    steps: int
    entry: tuple[Sums, ...]
    recurrent: tuple[Sums, ...]
    cell_bits: int
    multiplier: int
    shift: int
    zero_point: int
    state_zero_point: int
    cell_range: tuple[int, int] = (-32768, 32767)
    time_major: bool = False

    @property
    def units(self) -> int:
        return len(self.entry[0].weight)

    @property
    def pixel_macs(self) -> int:
        return sum(part.weight.size for part in (*self.entry, *self.recurrent))

    def order(self, pixels: int) -> NDArray[np.int64]:
        """The numbers of so many pixels, sequence by sequence, of each step by step."""
        if not self.time_major:
            return np.arange(pixels)
        return np.arange(pixels).reshape(self.steps, -1).T.reshape(-1)

    def states(self, pixels: int, scale: float) -> list[TensorSpec]:
        """Hidden states and cells of each sequence (1, 1, sequences, units)."""
        shape = (1, 1, pixels // self.steps, self.units)
        hidden = TensorSpec("hidden", shape, "int8", scale, self.state_zero_point)
        return [hidden, *_bytes("cell ", shape, 2.0**-self.cell_bits)]

    def meaning(self, d: Domain, x: Any, *states: Any) -> Any:
        return d.on_host(self.run, x, *states)

    def run(self, x: NDArray[Any], *states: NDArray[np.int8]) -> Any:
        """Hidden states (1, H, W, units) of (1, H, W, inputs), from reset states on; or from the given ones on, and
        the states after it."""
        if not states:
            sequences = (math.prod(x.shape[:-1]) // self.steps, self.units)
            return self._run(x, np.full(sequences, self.state_zero_point, np.int8), np.zeros(sequences, np.int64))
        hidden, high, low = states
        last = np.array(hidden.reshape(-1, self.units))
        cell = joined(high, low).reshape(-1, self.units)
        result = self._run(x, last, cell)
        return result, last.reshape(hidden.shape), *parted(cell.reshape(high.shape))

    def _run(self, x: NDArray[Any], hidden: NDArray[np.int8], cell: Integers) -> NDArray[np.int8]:
        """The result; ``hidden`` and ``cell`` (sequences, units) become what each sequence ends in."""
        result = np.empty((*x.shape[:-1], self.units), np.int8)
        pixels = result.reshape(-1, self.units)
        entries = _saturated(scaled(self.entry, x.reshape(-1, x.shape[-1])))
        for step, pixel in enumerate(self.order(len(pixels))):
            k = step // self.steps
            entry, forget, fresh, output = _saturated(entries[pixel] + scaled(self.recurrent, hidden[k]))
            fresh = rounded_shift(sigmoid(entry) * tanh(fresh), 30 - self.cell_bits)
            cell[k] = np.clip(rounded_shift(sigmoid(forget) * cell[k], 15) + fresh, *self.cell_range)
            shown = sigmoid(output) * tanh(cell[k], 15 - self.cell_bits)
            shown = scale_round(shown, self.multiplier, self.shift, 0, Rounding.DOUBLE) + self.zero_point
            pixels[pixel] = hidden[k] = np.clip(shown, -128, 127).astype(np.int8)
        return result


@dataclass(kw_only=True)
class Svdf(Recurrent):
    """LiteRT's integer SVDF: a filter of the last inputs, of low rank, for each unit.

    Each pixel of the input is one of a batch, with a state of its own. Of each, ``feature`` (filters, inputs) is scaled
    to int16, or (``state_bits`` 8) to int8 with ``state_zero_point``, and saturated. The state has what the last
    inferences gave: ``memory`` - 1 numbers for each filter, the oldest first, at reset all zero point. With the new
    ones they are multiplied by ``time`` (filters, memory), int16 or int8 as the state is; ``rank`` neighbouring filters
    are a unit, whose sum and ``bias`` (units,) are scaled by ``multiplier / 2^shift``, rounded twice, and
    ``zero_point`` is added. All sums wrap at 32 bits.
    """

    feature: Sums
    time: NDArray[np.int8 | np.int16]
    rank: int
    bias: NDArray[np.int64]
    state_bits: int
    state_scale: float
    state_zero_point: int
    multiplier: int
    shift: int
    zero_point: int

    @property
    def filters(self) -> int:
        return len(self.time)

    @property
    def memory(self) -> int:
        return self.time.shape[1]

    @property
    def pixel_macs(self) -> int:
        return self.feature.weight.size + self.time.size

    def states(self, pixels: int, scale: float) -> list[TensorSpec]:
        """The numbers of each pixel that are read again, the oldest first, rank by rank: (1, 1, N, units), where N is
        pixels x (memory - 1) x rank."""
        if self.memory == 1:
            return []
        shape = (1, 1, pixels * (self.memory - 1) * self.rank, len(self.bias))
        if self.state_bits == 8:
            return [TensorSpec("state", shape, "int8", self.state_scale, self.state_zero_point)]
        return _bytes("state ", shape, self.state_scale)

    def meaning(self, d: Domain, x: Any, *states: Any) -> Any:
        if self.state_bits == 16:
            return d.on_host(self._of_int16, x, *states, why="no form of a state of int16")
        units, part = len(self.bias), self.feature
        view = x.reshape(1, -1, 1, x.shape[-1], 1, 1)
        sums = d.convolve(view, part.weight[:, None, None]) + wrap_int32(part.bias)
        fresh = d.requantize(sums, _scaling(part.multiplier, part.shift, self.state_zero_point))[0]
        # rank by rank, as states are
        fresh = fresh.reshape(-1, 1, units, self.rank).swapaxes(2, 3)
        past = (len(fresh), self.memory - 1, self.rank, units)
        before = states[0].reshape(past) if states else np.full(past, self.state_zero_point, d.dtype)
        window = np.concatenate([before, fresh], axis=1)
        time = self.time.reshape(units, self.rank, self.memory).T
        total = d.tap_sums(window.transpose(0, 3, 1, 2)[None, :, None], time)
        moved = self.bias - self.state_zero_point * self.time.reshape(units, -1).sum(axis=1, dtype=np.int64)
        result = d.requantize(total + wrap_int32(moved), _scaling(self.multiplier, self.shift, self.zero_point))
        return result.reshape(*x.shape[:-1], units), *(window[:, 1:].reshape(state.shape) for state in states)

    def _of_int16(self, x: NDArray[Any], *states: NDArray[np.int8]) -> tuple[NDArray[np.int8], ...]:
        """The result (1, H, W, units) of (1, H, W, inputs) from these states on, or reset ones; and the states after
        it."""
        fresh = _saturated(scaled([self.feature], x.reshape(-1, x.shape[-1])))  # (pixels, 1, filters)
        if states:  # rank by rank
            known = joined(*states).reshape(len(fresh), -1, self.rank, len(self.bias))
            past = known.swapaxes(2, 3).reshape(len(fresh), -1, self.filters)
        else:
            past = np.zeros((len(fresh), self.memory - 1, self.filters), np.int64)
        window = np.concatenate([past, fresh], axis=1)
        sums = (window * self.time.T.astype(np.int64)).sum(axis=1).reshape(len(window), -1, self.rank).sum(axis=2)
        shown = scale_round(wrap_int32(sums + self.bias), self.multiplier, self.shift, 0, Rounding.DOUBLE)
        result = np.clip(shown + self.zero_point, -128, 127).astype(np.int8).reshape(*x.shape[:-1], -1)
        if not states:
            return (result,)
        kept = window[:, 1:].reshape(len(fresh), -1, len(self.bias), self.rank).swapaxes(2, 3)
        return result, *parted(kept.reshape(states[0].shape))


def scaled(parts: Sequence[Sums], x: NDArray[Any]) -> Integers:
    """Sums over inputs (..., inputs) for each gate: (..., gates, units)."""
    weight, bias = np.stack([p.weight for p in parts]), np.stack([p.bias for p in parts])
    multiplier, shift = (np.array([[getattr(p, name)] for p in parts]) for name in ("multiplier", "shift"))
    flat = x.astype(np.float64) @ weight.reshape(-1, x.shape[-1]).T.astype(np.float64)  # exact: below 2^53
    sums = flat.astype(np.int64).reshape(*x.shape[:-1], *bias.shape) + bias
    return scale_round(wrap_int32(sums), multiplier, shift, 0, Rounding.DOUBLE)


def _saturated(x: Integers) -> Integers:
    """To int16."""
    return np.clip(x, -32768, 32767)


def _scaling(multiplier: int, shift: int, zero_point: int) -> Requant:
    return Requant.alike(1, 0, multiplier, shift, 0, Rounding.DOUBLE, zero_point)


def _bytes(what: str, shape: tuple[int, ...], scale: float) -> list[TensorSpec]:
    """High and low bytes of int16."""
    return [
        TensorSpec(f"{what}high", shape, "int8", 256 * scale, 0),
        TensorSpec(f"{what}low", shape, "int8", scale, -128),
    ]
