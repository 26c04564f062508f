"""LiteRT's UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with an int16 cell, in NumPy, with the numbers of a ``.tflite`` file.

Source: LiteRT ``kernels/lstm_eval.cc`` (``LstmStepInteger``) and ``unidirectional_sequence_lstm.cc``. Projection,
peepholes, layer normalisation and a coupled input gate are not done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.lstm.fixed_point import Integers, rounded_shift, sigmoid, tanh
from tilewright.isa.arithmetic import Rounding, scale_round
from tilewright.jit.numbers import quantize_multiplier
from tilewright.jit.source.tflite.file import File

KIND = "UNIDIRECTIONAL_SEQUENCE_LSTM"
GATES = ("input", "forget", "cell", "output")  #: in the order of the operator's inputs; all but cell are sigmoids
GATE = 1 << 12  #: 1 of a gate
_BIASES, _HIDDEN, _CELL = 12, 18, 19  #: places of inputs


@dataclass(frozen=True)
class Part:
    """Products with ``weights`` (units, inputs), int8; ``bias`` (units,) with the zero point folded in; then ``acc *
    multiplier / 2^shift`` is rounded twice and saturates to int16."""

    weights: NDArray[np.int8]
    bias: NDArray[np.int64]
    multiplier: int
    shift: int

    def sums(self, x: NDArray[np.int8]) -> Integers:
        """Of inputs (..., inputs), what is scaled."""
        return x.astype(np.int64) @ self.weights.T.astype(np.int64) + self.bias

    def scaled(self, x: NDArray[np.int8]) -> Integers:
        """The part of a gate with 12 bits of fraction."""
        return scale_round(self.sums(x), self.multiplier, self.shift, 0, Rounding.DOUBLE)


@dataclass(frozen=True)
class Lstm:
    """``entry`` and ``recurrent`` parts of each of GATES; the cell has ``cell_bits`` of fraction and lies within
    ``cell_range``; ``multiplier`` and ``shift`` scale the hidden state."""

    entry: tuple[Part, ...]
    recurrent: tuple[Part, ...]
    cell_bits: int
    multiplier: int
    shift: int
    zero_point: int
    state_zero_point: int
    cell_range: tuple[int, int] = (-32768, 32767)

    @property
    def units(self) -> int:
        return len(self.entry[0].weights)

    def run(self, x: NDArray[np.int8]) -> NDArray[np.int8]:
        """Hidden states (time, units) of (time, inputs), from a reset state."""
        hidden = np.full(self.units, self.state_zero_point, np.int8)
        cell: Integers = np.zeros(self.units, np.int64)
        result = np.empty((len(x), self.units), np.int8)
        for step, now in enumerate(x):
            gates = [saturated(saturated(e.scaled(now)) + r.scaled(hidden)) for e, r in zip(self.entry, self.recurrent)]
            entry, forget, output = (sigmoid(gates[k]) for k in (0, 1, 3))
            fresh = rounded_shift(entry * tanh(gates[2]), 30 - self.cell_bits)
            cell = np.clip(rounded_shift(forget * cell, 15) + fresh, *self.cell_range)
            shown = output * tanh(cell, 15 - self.cell_bits)
            scaled = scale_round(shown, self.multiplier, self.shift, 0, Rounding.DOUBLE)
            result[step] = hidden = np.clip(scaled + self.zero_point, -128, 127).astype(np.int8)
        return result


def saturated(x: Integers) -> Integers:
    """To int16."""
    return np.clip(x, -32768, 32767)


def lstm_of(path: Path) -> Lstm:
    """The first LSTM of a file. Raises ValueError for one that is not as above, and says what it has."""
    file = File(path)
    op = next(op for op in file.operators if op.kind == KIND)
    shown = file.tensors[file.model.subgraphs[0].operators[op.index].intermediates[4]]
    inputs = [file.tensors[t] if t >= 0 else None for t in op.inputs]
    extra = {"peepholes": inputs[9:12], "projection": inputs[16:18], "layer normalisation": inputs[20:24]}
    has = [what for what, tensors in extra.items() if any(t is not None for t in tensors)]
    has += ["a coupled input gate"] * (inputs[1] is None)
    if has:
        raise ValueError(f"{path}: an LSTM with {', '.join(has)}")
    x, hidden, cell = (_there(inputs[k]) for k in (0, _HIDDEN, _CELL))

    def part(place: int, source: Any, bias: Any) -> Part:
        weight = _there(inputs[place])
        multiplier, shift = quantize_multiplier(float(weight.scales[0] * source.scales[0]) * GATE)
        sums = weight.data.astype(np.int64).sum(axis=1) * -int(source.zero_points[0])
        return Part(weight.data, sums + (0 if bias is None else bias.data), multiplier, shift)

    entry = tuple(part(1 + k, x, _there(inputs[_BIASES + k])) for k in range(4))
    recurrent = tuple(part(5 + k, hidden, None) for k in range(4))
    scale = 2.0**-15 / float(shown.scales[0]) * 2.0**-15
    multiplier, shift = quantize_multiplier(float(np.float32(scale)))
    cell_bits = -round(float(np.log2(cell.scales[0])))
    zero_points = int(shown.zero_points[0]), int(hidden.zero_points[0])
    made = Lstm(entry, recurrent, cell_bits, multiplier, shift, *zero_points)
    clip = int(np.clip(np.float32(op.options.cellClip) / cell.scales[0], -32768, 32767))
    return replace(made, cell_range=(-clip, clip)) if clip > 0 else made


def _there(tensor: Any) -> Any:
    if tensor is None:
        raise ValueError("an LSTM without one of its tensors")
    return tensor
