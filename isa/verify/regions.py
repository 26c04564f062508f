"""From accesses to the regions of a memory that they cover, checked and cached."""

from __future__ import annotations

import numpy as np

from tilewright.isa.effects import Access, Loop
from tilewright.isa.verify.affine import AddressSet, Region, affine_set
from tilewright.isa.verify.errors import Describer, Rule

_CACHE_LIMIT = 1 << 23  #: addresses kept before the cache starts over


class Regions:
    """Builds regions; keeps the sets that several instructions share."""

    def __init__(self, describe: Describer) -> None:
        self._describe = describe
        self._sets: dict[tuple[int, Loop, Loop, int], AddressSet] = {}
        self._held = 0

    def of(self, index: int, access: Access, depth: int, name: str) -> Region:
        """The units, entries or beats of an access, in range and aligned."""
        high, size = access.high(), access.wrap_size
        if size and high >= 2 * size:
            raise self._describe.error(
                Rule.WRAP, index, f"{name} offset {high} must be below twice the wrap size {size}"
            )
        if not size and high >= depth:
            raise self._describe.error(Rule.RANGE, index, f"{name} address {high} must be below {depth}")
        firsts = self._set(access, 1)
        starts = _wrap(firsts, access) if size else firsts.at(access.base)
        if access.span == 1:
            return starts
        addresses = starts.addresses()
        crooked = addresses % access.span != 0
        if crooked.any():
            raise self._describe.error(
                Rule.ALIGNMENT, index,
                f"{name} vector at unit {addresses[int(np.argmax(crooked))]} must start at a multiple of {access.span}",
            )  # fmt: skip
        if size and access.base + firsts.low < size <= high:
            units = access.units(addresses).ravel()
            return Region(units, int(units.min()), int(units.max()))
        return self._set(access, access.span).at(starts.low - firsts.low)

    def _set(self, access: Access, span: int) -> AddressSet:
        outer = access.outer if access.outer[1] else (1, 0)
        inner = access.inner if access.inner[1] else (1, 0)
        key = (access.column.serial, outer, inner, span)
        found = self._sets.get(key)
        if found is None:
            found = affine_set(access.column.offsets, (inner, outer, (span, 1)))
            self._held += 1 if found.values is None else len(found.values)
            if self._held > _CACHE_LIMIT:
                self._sets.clear()
                self._held = 0
            self._sets[key] = found
        return found


def _wrap(starts: AddressSet, access: Access) -> Region:
    offset, size, base = access.base, access.wrap_size, access.wrap_base
    low, high = starts.low + offset, starts.high + offset
    if high < size:
        return starts.at(offset + base)
    if low >= size:
        return starts.at(offset + base - size)
    units = access.wrapped(starts.at(offset).addresses())
    return Region(units, int(units.min()), int(units.max()))
