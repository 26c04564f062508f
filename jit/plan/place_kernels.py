"""The search for places, compiled: networks of thousands of operators ask for some 25,000 places."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.plan.native import compiled

Ints = NDArray[np.int64]

#: reasons against a place: engines that share a bank; the last tenant dead in the group just before, or two or three
#: groups before
_BANK, _RECENT = 20, np.array([8, 2, 1])


class Packing(IntEnum):
    """How the buffers that are born in a group get their places; the next one is tried where one fails."""

    BANKS = 0  #: where engines share fewest banks and the last tenant is long dead
    SIDES = 1  #: what only GEMM reads from the bottom, the others from the top
    BOTTOM = 2  #: all from the bottom


_BANKS, _SIDES = int(Packing.BANKS), int(Packing.SIDES)


@compiled
def _is_free(start: int, end: int, now: int, homes: Ints, base: Ints, size: Ints, last: Ints) -> bool:
    """Whether no home that lives in group ``now`` has a unit from ``start`` to ``end``."""
    for home in homes:  # noqa: SIM110 - Numba compiles no generators of this kind
        if last[home] >= now and base[home] < end and start < base[home] + size[home]:
            return False
    return True


@compiled
def _reasons(
    start: int, end: int, now: int, mine: int, homes: Ints, base: Ints, size: Ints, last: Ints, users: Ints, bank: int
) -> int:  # fmt: skip
    """The weight of what speaks against a free place from ``start`` to ``end`` for a buffer with the users ``mine``."""
    cost = 0
    for home in homes:
        stop = base[home] + size[home]
        if last[home] < now:
            if base[home] < end and start < stop:
                cost += _RECENT[now - last[home] - 1]
        elif base[home] // bank <= (end - 1) // bank and start // bank <= (stop - 1) // bank:
            cost += _BANK * (users[home] != mine)
    return cost


@compiled
def find_places(
    order: Ints, first: Ints, last: Ints, size: Ints, users: Ints, low: Ints, packing: Ints,
    row: int, banks: int, room: int,
) -> Ints:  # fmt: skip
    """The first unit of each buffer, -1 for those that find no place.

    ``order``: buffers by their birth; ``first``, ``last``: the groups that each lives in; ``users``: who uses it, as a
    number; ``low``: whether SIDES puts it at the bottom; ``packing``: of each group; ``row``: units that places are
    aligned to; ``banks``, ``room``: of ``act``, in all.
    """
    base = np.full(len(order), -1, np.int64)
    recent = np.empty(len(order), np.int64)  # buffers whose groups are not long past
    starts = np.empty(2 * len(order) + banks + 1, np.int64)
    bank, count = room // banks, 0
    for k in order:
        now, kept = first[k], 0
        for home in recent[:count]:
            if last[home] >= now - len(_RECENT):
                recent[kept] = home
                kept += 1
        count = kept
        for n in range(banks):
            starts[n] = -(-n * bank // row) * row
        starts[banks] = (room - size[k]) // row * row
        found = banks + 1
        for home in recent[:count]:
            starts[found] = -(-(base[home] + size[home]) // row) * row
            found += 1
            if last[home] >= now:
                starts[found] = (base[home] - size[k]) // row * row
                found += 1
        best, least = -1, 0
        for start in starts[:found]:
            end = start + size[k]
            if start < 0 or end > room or not _is_free(start, end, now, recent[:count], base, size, last):
                continue
            if packing[now] == _BANKS:
                cost = _reasons(start, end, now, users[k], recent[:count], base, size, last, users, bank)
            else:
                cost = -start if packing[now] == _SIDES and not low[k] else start
            if best < 0 or cost < least or (cost == least and start < best):
                best, least = start, cost
        base[k] = best
        if best >= 0:
            recent[count] = k
            count += 1
    return base
