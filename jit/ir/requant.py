"""From int8 to int32 and back: the two scalings that operators are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import requantize, rescale
from tilewright.isa.functions import Rounding

Array = NDArray[Any]
Channels = slice | NDArray[np.integer]

INT8: NDArray[np.int8] = np.arange(-128, 128).astype(np.int8)  #: every value of an activation


@dataclass(frozen=True)
class Requant:
    """Per-channel int32 -> int8: ``clamp(round((acc + bias) * multiplier / 2^shift) + zero_point, lo, hi)``.

    ``bias``, ``multiplier`` (in [0, 2^31)), ``offset`` (added before the shift, beside the half) are
    int32 arrays of shape (C,); ``shift`` is in 0..63, shape (C,). The arithmetic is
    :func:`tilewright.isa.arithmetic.requantize`.
    """

    bias: NDArray[np.int32]
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    offset: NDArray[np.int32]
    rounding: Rounding
    zero_point: int
    lo: int = -128
    hi: int = 127

    @classmethod
    def alike(
        cls, channels: int, bias: int, multiplier: int, shift: int, offset: int, rounding: Rounding, zero_point: int,
        lo: int = -128, hi: int = 127,
    ) -> Requant:  # fmt: skip
        """One set of constants for all channels."""
        b, m, t, r = (np.full(channels, v, np.int32) for v in (bias, multiplier, shift, offset))
        return cls(b, m, t, r, rounding, zero_point, lo, hi)

    @cached_property
    def uniform(self) -> bool:
        """Whether all channels share one set of constants."""
        numbers = (self.bias, self.multiplier, self.shift, self.offset)
        return all(len(each) > 0 and bool((each == each[0]).all()) for each in numbers)

    def of(self, channels: Channels) -> Requant:
        """The constants of some of the channels."""
        arrays = {name: getattr(self, name)[channels] for name in ("bias", "multiplier", "shift", "offset")}
        return replace(self, **arrays)

    def apply(self, acc: Array) -> NDArray[np.int8]:
        """int32 accumulators of shape (..., C) requantised."""
        return requantize(
            acc, self.bias, self.multiplier, self.shift, self.offset, self.rounding, self.zero_point, self.lo, self.hi
        )


@dataclass(frozen=True)
class Scale:
    """Per-tensor int8 -> int32: ``round(((x << 20) + bias) * multiplier / 2^shift)``, unclamped.

    The arithmetic is :func:`tilewright.isa.arithmetic.rescale` (TFLite ADD's input stage). ``table``: 256 int8, at the
    values of x modulo 256, that x is looked up in first.
    """

    bias: int
    multiplier: int
    shift: int
    rounding: Rounding = Rounding.DOUBLE
    offset: int = 0
    table: bytes | None = None

    def apply(self, x: Array) -> NDArray[np.int32]:
        """An int8 tensor rescaled."""
        if self.table is not None:
            x = np.frombuffer(self.table, np.int8)[np.asarray(x).view(np.uint8)]
        return rescale(x, self.bias, self.multiplier, self.shift, self.offset, self.rounding)

    @cached_property
    def identity(self) -> bool:
        """Whether every value stays as it is."""
        return bool((self.apply(INT8) == INT8).all())
