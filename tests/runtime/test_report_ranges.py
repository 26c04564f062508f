"""What the report's picture of the memories says an access touches, against every address."""

from __future__ import annotations

from itertools import product

from tilewright.isa.effects import ORIGIN, Access
from tilewright.isa.spec import Memory
from tilewright.runtime.report.memory import _ranges


def test_runs_of_addresses_are_where_they_lie_behind_the_end_of_a_ring_too() -> None:
    split = 0
    for size, first, count, span in product((0, 8, 12), range(12), (1, 5, 8), (1, 2)):
        if size and (first >= size or count > size):
            continue
        base = 3 if size else 0
        access = Access(Memory.ACT, ORIGIN, first, (1, 0), (count, 1), True, False, span, base, size)
        found = [set(range(low, high + 1)) for low, high in _ranges(access)]
        touched = {base + (a % size if size else a) for a in range(first, first + count + span - 1)}
        inside = {a for a in touched if not size or a < base + size}
        assert set().union(*found) == inside, (size, first, count, span)
        split += len(found) == 2
    assert split > 20
