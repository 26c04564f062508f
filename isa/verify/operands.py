"""From micro-ops and loops to the units that an instruction reads and writes, checked and cached."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import COLUMNS
from tilewright.isa.verify.affine import AddressSet, Loop, Region, affine_set, top, visits
from tilewright.isa.verify.errors import Describer, Rule
from tilewright.isa.verify.uops import Operand

_CACHE_LIMIT = 1 << 23  #: addresses kept before the cache starts over
_OUTER, _INNER = COLUMNS["outer"], COLUMNS["inner"]
_WRAP_BASE, _WRAP_SIZE = COLUMNS["wrap_base"], COLUMNS["wrap_size"]
_AFFINE = {
    name: (COLUMNS[name], COLUMNS[f"{name}_outer"], COLUMNS[f"{name}_inner"]) for name in ("dst", "src", "wgt", "prm")
}
_TILE = tuple(COLUMNS[name] for name in ("sram", "rows", "sram_row", "cols", "sram_col"))


class Access:
    """One operand of one instruction: base, steps and loops, before any set is built.

    ``wraps``: an act operand, whose offsets wrap in the instruction's region.
    """

    __slots__ = ("base", "inner", "operand", "outer", "wrap_base", "wrap_size")

    def __init__(self, row: list[int], name: str, operand: Operand, wraps: bool) -> None:
        base, outer, inner = _AFFINE[name]
        self.operand = operand
        self.base = row[base]
        self.outer: Loop = (row[_OUTER], row[outer])
        self.inner: Loop = (row[_INNER], row[inner])
        self.wrap_base = row[_WRAP_BASE] if wraps else 0
        self.wrap_size = row[_WRAP_SIZE] if wraps else 0

    def high(self) -> int:
        """The greatest offset."""
        return top(self.operand.high + self.base, (self.outer, self.inner))

    def shape(self) -> tuple[int, Loop, Loop]:
        """What decides the addresses apart from the base; for operands that do not wrap."""
        return self.operand.serial, self.outer, self.inner

    def wrapped(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Addresses of act offsets; other memories' are the addresses already."""
        if not self.wrap_size:
            return offsets
        return np.where(offsets < self.wrap_size, offsets, offsets - self.wrap_size) + self.wrap_base

    def visits(self, iterations: NDArray[np.int64]) -> NDArray[np.int64]:
        """The address of each micro-op iteration number, in order."""
        return self.wrapped(visits(self.operand.column, self.outer[1], self.inner, iterations) + self.base)


class Operands:
    """Builds regions; keeps the sets that several instructions share."""

    def __init__(self, config: Config, describe: Describer) -> None:
        self._config, self._describe = config, describe
        self._sets: dict[tuple[int, Loop, Loop, int], AddressSet] = {}
        self._tiles: dict[tuple[Loop, Loop], AddressSet] = {}
        self._held = 0

    def region(self, index: int, access: Access, span: int, depth: int, name: str) -> Region:
        """The units of an operand whose vectors span ``span`` units, in range and aligned."""
        high = access.high()
        size = access.wrap_size
        if size:
            if high >= 2 * size:
                raise self._describe.error(
                    Rule.WRAP, index, f"{name} offset {high} must be below twice the wrap size {size}"
                )
        elif high >= depth:
            raise self._describe.error(Rule.RANGE, index, f"{name} address {high} must be below {depth}")
        if span > 1:
            return self._vectors(index, access, span, name)
        starts = self._set(access, 1)
        return self._wrap(starts, access) if size else starts.at(access.base)

    def tile(self, row: list[int], wraps: bool) -> Region:
        """The units or entries of a LOAD, FILL or STORE."""
        sram, rows, row_step, cols, col_step = (row[c] for c in _TILE)
        starts = self.plane((cols, col_step), (rows, row_step))
        if not wraps:
            return starts.at(sram)
        size, base = row[_WRAP_SIZE], row[_WRAP_BASE]
        return _wrap(starts, sram, size, base)

    def plane(self, cols: Loop, rows: Loop) -> AddressSet:
        """Two nested loops from 0."""
        key = (cols, rows)
        found = self._tiles.get(key)
        if found is None:
            found = affine_set(np.zeros(1, np.int64), key)
            self._keep(found)
            self._tiles[key] = found
        return found

    def _wrap(self, starts: AddressSet, access: Access) -> Region:
        return _wrap(starts, access.base, access.wrap_size, access.wrap_base)

    def _vectors(self, index: int, access: Access, span: int, name: str) -> Region:
        starts = self._wrap(self._set(access, 1), access) if access.wrap_size else self._set(access, 1).at(access.base)
        addresses = starts.addresses()
        crooked = addresses % span != 0
        if crooked.any():
            raise self._describe.error(
                Rule.ALIGNMENT, index,
                f"{name} vector at unit {addresses[int(np.argmax(crooked))]} must start at a multiple of {span}",
            )  # fmt: skip
        if access.wrap_size and access.base + self._set(access, 1).low < access.wrap_size <= access.high():
            units = (addresses[:, None] + np.arange(span)).ravel()
            return Region(units, int(units.min()), int(units.max()))
        moved = starts.low - self._set(access, 1).low
        return self._set(access, span).at(moved)

    def _set(self, access: Access, span: int) -> AddressSet:
        outer = access.outer if access.outer[1] else (1, 0)
        inner = access.inner if access.inner[1] else (1, 0)
        key = (access.operand.serial, outer, inner, span)
        found = self._sets.get(key)
        if found is None:
            found = affine_set(access.operand.offsets, (inner, outer, (span, 1)))
            self._keep(found)
            self._sets[key] = found
        return found

    def _keep(self, new: AddressSet) -> None:
        self._held += 1 if new.values is None else len(new.values)
        if self._held > _CACHE_LIMIT:
            self._sets.clear()
            self._tiles.clear()
            self._held = 0


def _wrap(starts: AddressSet, offset: int, size: int, base: int) -> Region:
    low, high = starts.low + offset, starts.high + offset
    if high < size:
        return starts.at(offset + base)
    if low >= size:
        return starts.at(offset + base - size)
    offsets = starts.at(offset).addresses()
    units = np.where(offsets < size, offsets, offsets - size) + base
    return Region(units, int(units.min()), int(units.max()))
