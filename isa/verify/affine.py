"""Exact sets of the addresses that affine loops visit.

A loop adds ``step`` per iteration. The set that ``count`` iterations visit is built by doubling (the set,
then the set or'ed with itself shifted by one step, two, four ...), so its cost follows the span of addresses, not
the number of iterations. First visit times are found in the same way, with minimum in place of or.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.effects import Loop

NEVER = np.int64(1) << 62  #: first visit time of an address that is not visited

Index = slice | NDArray[np.int64]


@dataclass(slots=True)
class AddressSet:
    """Addresses from ``low`` to ``high``; ``values`` is None if that is all of them. Duplicates are harmless."""

    low: int
    high: int
    values: NDArray[np.int64] | None

    def at(self, base: int) -> Region:
        """The set moved up by ``base``."""
        low, high = self.low + base, self.high + base
        return Region(slice(low, high + 1) if self.values is None else self.values + base, low, high)


@dataclass(slots=True)
class Region:
    """Addresses of a memory as an index into its state arrays, with the least and the greatest."""

    index: Index
    low: int
    high: int

    def addresses(self) -> NDArray[np.int64]:
        """All addresses, in the order of ``index``."""
        return np.arange(self.low, self.high + 1) if isinstance(self.index, slice) else self.index

    def banks(self, bank_units: int) -> list[int]:
        """The banks that hold them."""
        first, last = self.low // bank_units, self.high // bank_units
        if first == last:
            return [first]
        if isinstance(self.index, slice):
            return list(range(first, last + 1))
        banks = (self.index // bank_units).astype(np.intp, copy=False)  # bincount takes no int64 on 32 bits
        found: list[int] = np.flatnonzero(np.bincount(banks)).tolist()
        return found


def top(offsets_high: int, loops: tuple[Loop, ...]) -> int:
    """The greatest address."""
    return offsets_high + sum((count - 1) * step for count, step in loops)


def affine_set(offsets: NDArray[np.int64], loops: tuple[Loop, ...]) -> AddressSet:
    """Every ``offset + sum(i_k * step_k)`` for ``0 <= i_k < count_k``. ``offsets`` is not empty."""
    low, high = int(offsets.min()), top(int(offsets.max()), loops)
    loops = tuple((count, step) for count, step in loops if count > 1 and step)
    span = high - low + 1
    points = len(offsets)
    for count, _ in loops:
        points *= count
    if points * 8 < span:
        values = offsets
        for count, step in loops:
            values = (values[:, None] + np.arange(count, dtype=np.int64) * step).ravel()
        return AddressSet(low, high, values)
    visited = np.zeros(span, np.bool_)
    visited[offsets - low] = True
    for count, step in loops:
        done = 1
        while done < count:
            more = min(done, count - done)
            visited[more * step :] |= visited[: span - more * step].copy()
            done += more
    if visited.all():
        return AddressSet(low, high, None)
    return AddressSet(low, high, np.flatnonzero(visited) + low)


def first_visits(
    offsets: NDArray[np.int64], positions: NDArray[np.int64], count: int, outer: Loop, inner: Loop, low: int, high: int
) -> NDArray[np.int64]:
    """When each address from ``low`` to ``high`` is first visited, in micro-op iterations; NEVER if not.

    ``offsets[k]`` belongs to micro-op ``positions[k]`` (ascending) of ``count``.
    """
    span = high - low + 1
    times = np.full(span, NEVER, np.int64)
    times[offsets[::-1] - low] = positions[::-1]  # the first of several micro-ops is assigned last, and stays
    for (repeats, step), period in ((inner, count), (outer, inner[0] * count)):
        done = 1
        while step and done < repeats:
            more = min(done, repeats - done)
            later = times[: span - more * step] + more * period
            times[more * step :] = np.minimum(times[more * step :], later)
            done += more
    return np.minimum(times, NEVER)
