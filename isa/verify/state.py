"""Who last read and wrote each unit of a memory, and the checks that follow from it.

Arrays hold index + 1 of the last instruction, 0 for none, one array per engine. Since every access is
checked against the last accesses of the others, order is transitive and the last one is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.verify.affine import Region
from tilewright.isa.verify.errors import Describer, Rule
from tilewright.isa.verify.tokens import ENGINES, Clock


class MemoryState:
    """Access history of one memory or DRAM segment.

    ``unit`` is what an address counts, for messages. ``readers``, ``writers``: engines, numbered through all cores.
    With ``bank_units``, banks have owners too.
    """

    def __init__(
        self,
        name: str,
        unit: str,
        depth: int,
        readers: Sequence[int],
        writers: Sequence[int],
        describe: Describer,
        bank_units: int = 0,
    ) -> None:
        self.name, self.unit, self.depth = name, unit, depth
        self._describe = describe
        self._bank_units = bank_units
        self._readers, self._writers = list(readers), list(writers)
        self._written = np.zeros(depth, np.bool_)
        self._reads = {e: np.zeros(depth, np.int32) for e in self._readers}
        self._writes = {e: np.zeros(depth, np.int32) for e in self._writers}
        self._newest_read = dict.fromkeys(self._readers, 0)
        self._newest_write = dict.fromkeys(self._writers, 0)
        banks = depth // bank_units if bank_units else 0
        self._bank_reads = {e: [0] * banks for e in self._readers}
        self._bank_writes = {e: [0] * banks for e in self._writers}

    def missing(self, region: Region) -> NDArray[np.int64]:
        """Addresses of the region that nothing has written yet."""
        fresh = self._written[region.index]
        if np.logical_and.reduce(fresh):  # the method is slow on few addresses
            return np.zeros(0, np.int64)
        return region.addresses()[~fresh]

    def assume_written(self, region: Region) -> None:
        """Take a write as done that broke a rule, so that what reads it breaks none for that."""
        self._written[region.index] = True

    def uninitialised(self, index: int, engine: int, address: int) -> Exception:
        """The error of reading an address that nothing has written."""
        what = f"reads {self.name} {self.unit} {address}, which nothing wrote before"
        return self._describe.error(Rule.UNINITIALISED, index, what, engine // ENGINES)

    def read(self, index: int, engine: int, clock: Clock, region: Region) -> None:
        """Check and record a read; whether it was written is asked of :meth:`missing`."""
        at = region.index
        for other in self._writers:
            if other != engine and self._newest_write[other] > clock[other]:
                self._ordered(index, engine, region, self._writes, other, clock, Rule.RACE_RAW)
        if self._bank_units:
            self._banks(index, engine, clock, region, self._bank_reads, self._newest_read, Rule.BANK_READERS)
        self._reads[engine][at] = index + 1
        self._newest_read[engine] = index + 1

    def write(self, index: int, engine: int, clock: Clock, region: Region) -> None:
        """Check and record a write."""
        at = region.index
        for other in self._writers:
            if other != engine and self._newest_write[other] > clock[other]:
                self._ordered(index, engine, region, self._writes, other, clock, Rule.RACE_WAW)
        for other in self._readers:
            if other != engine and self._newest_read[other] > clock[other]:
                self._ordered(index, engine, region, self._reads, other, clock, Rule.RACE_WAR)
        if self._bank_units:
            self._banks(index, engine, clock, region, self._bank_writes, self._newest_write, Rule.BANK_WRITERS)
        self._writes[engine][at] = index + 1
        self._newest_write[engine] = index + 1
        self._written[at] = True

    def _ordered(
        self, index: int, engine: int, region: Region, last: dict[int, NDArray[np.int32]], other: int, clock: Clock,
        rule: Rule,
    ) -> None:  # fmt: skip
        values, retired = last[other][region.index], clock[other]
        if np.maximum.reduce(values) <= retired:
            return
        worst = int(np.argmax(values > retired))
        address, culprit = int(region.addresses()[worst]), int(values[worst]) - 1
        mine, theirs = {
            Rule.RACE_RAW: ("reads", "writes"),
            Rule.RACE_WAR: ("writes", "reads"),
            Rule.RACE_WAW: ("writes", "writes"),
        }[rule]
        core, its = engine // ENGINES, other // ENGINES
        raise self._describe.error(
            rule, index,
            f"{mine} {self.name} {self.unit} {address}, which {self._describe.name(culprit, its)} {theirs}, "
            f"and no {'token' if core == its else 'doorbell'} orders it after that",
            core,
        )  # fmt: skip

    def _banks(
        self,
        index: int,
        engine: int,
        clock: Clock,
        region: Region,
        owners: dict[int, list[int]],
        newest: dict[int, int],
        rule: Rule,
    ) -> None:
        banks = region.banks(self._bank_units)
        for other, last in owners.items():
            if other != engine and newest[other] > clock[other]:
                for bank in banks:
                    if last[bank] > clock[other]:
                        verb = "reads" if rule == Rule.BANK_READERS else "writes"
                        units = f"{self.unit}s {bank * self._bank_units} to {(bank + 1) * self._bank_units - 1}"
                        raise self._describe.error(
                            rule, index,
                            f"{verb} {self.name} bank {bank} ({units}), which {self._describe.name(last[bank] - 1)} "
                            f"{verb} too, and no token orders it after that",
                        )  # fmt: skip
        mine = owners[engine]
        for bank in banks:
            mine[bank] = index + 1
