"""Recurrent operators: what an LSTM and an SVDF compute.

:mod:`~tilewright.jit.recurrent.reference` says it in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import Recurrent


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
