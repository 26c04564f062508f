"""What is known of each channel of a tensor for all inputs of the network: its range, and which one it equals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit.ir.requant import INT8, Requant, Scale

Ints = NDArray[np.int64]

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Facts:
    """Of a tensor with C channels, arrays of shape (C,).

    All values of channel c lie in ``lo[c] .. hi[c]``; channel c equals channel ``same[c] <= c``, pixel by pixel.
    """

    lo: Ints
    hi: Ints
    same: Ints

    @property
    def constant(self) -> NDArray[np.bool_]:
        """The channels that have one value whatever the input."""
        return self.lo == self.hi

    def padded(self, padding: tuple[int, int, int, int], value: int) -> Facts:
        """Of the tensor with pixels of ``value`` around it."""
        if not any(padding):
            return self
        return Facts(np.minimum(self.lo, value), np.maximum(self.hi, value), self.same)


def unknown(shape: tuple[int, ...]) -> Facts:
    """Of an int8 tensor that may hold anything."""
    channels = shape[-1] if shape else 1
    return Facts(np.full(channels, -128), np.full(channels, 127), np.arange(channels))


def first_equal(*columns: NDArray[Any]) -> Ints:
    """For each row of the columns together, the first row that is equal."""
    rows = np.column_stack(columns)
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row.tobytes(), k) for k, row in enumerate(rows)], np.int64)


def constants(requant: Requant) -> NDArray[np.int32]:
    """What channels are requantised by, (C, 4)."""
    return np.column_stack([requant.bias, requant.multiplier, requant.shift, requant.offset])


def requantized(requant: Requant, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """The range of requantised sums: its ends' images, since requantisation never falls where nothing wraps."""
    bias = requant.bias.astype(np.int64)
    exact = (lo == hi) | ((lo + bias >= _INT32.min) & (hi + bias <= _INT32.max))
    first, last = (requant.apply(wrap_int32(end)).astype(np.int64) for end in (lo, hi))
    return np.where(exact, first, requant.lo), np.where(exact, last, requant.hi)


def scaled(scale: Scale, x: Facts) -> tuple[Ints, Ints]:
    """The range of a rescaled tensor."""
    table = scale.apply(INT8).astype(np.int64)
    ranges = list(zip(x.lo.tolist(), x.hi.tolist(), strict=True))
    ends = {(lo, hi): (table[lo + 128 : hi + 129].min(), table[lo + 128 : hi + 129].max()) for lo, hi in set(ranges)}
    return np.array([ends[r][0] for r in ranges]), np.array([ends[r][1] for r in ranges])


def rescaled(scale: Scale, requant: Requant, x: Facts) -> Facts:
    """Of a tensor rescaled and requantised."""
    return Facts(*requantized(requant, *scaled(scale, x)), first_equal(x.same, constants(requant)))


def joined(parts: Iterable[Facts]) -> Facts:
    """Of tensors as the channels of one."""
    parts = list(parts)
    firsts = np.cumsum([0, *(len(part.same) for part in parts[:-1])])
    same = np.concatenate([part.same + first for part, first in zip(parts, firsts, strict=True)])
    return Facts(np.concatenate([p.lo for p in parts]), np.concatenate([p.hi for p in parts]), same)
