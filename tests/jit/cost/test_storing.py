"""Which rows of a buffer keep their readers from each other, counted unit by unit."""

from __future__ import annotations

import itertools

import numpy as np

from tilewright.jit.cost.storing import share_bank
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t


def test_rows_that_share_a_bank() -> None:
    """A row's place in its ring decides, and rows ahead of the first are none."""
    buffer, c = np.zeros(64, np.int64), np.zeros(64, np.int64)
    found = set()
    for capacity, units, bank in itertools.product((1, 2, 3, 5), (1, 3, 4, 8), (1, 4, 6)):
        buffer[b.B_CAPACITY], buffer[b.B_UNITS], c[t.C_ACT_BANK] = capacity, units, bank
        banks = [{unit // bank for unit in range(slot * units, (slot + 1) * units)} for slot in range(capacity)]
        for row, first, last in itertools.product(range(6), range(-2, 6), range(-1, 6)):
            others = range(max(0, first), last + 1)
            shared = any(banks[row % capacity] & banks[other % capacity] for other in others)
            assert share_bank(buffer, row, first, last, c) == shared, (capacity, units, bank, row, first, last)
            found.add(shared)
    assert found == {False, True}
