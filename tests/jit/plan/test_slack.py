"""Spare rows of rings: as many as there is room for."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import spills
from tilewright.jit.plan import tables as t

MOST, READ = 24, 4


@pytest.mark.parametrize("seed", range(8))
def test_no_ring_has_room_for_another_row_and_none_has_too_many(seed: int) -> None:
    """Of rings in two groups, one buffer that both hold, and what is read of act in whole rows of four units."""
    rng = np.random.default_rng(seed)
    c = np.zeros(t.C_ACT_BANK + 1, np.int64)
    c[t.C_ROW] = READ
    rows = np.zeros((9, b.B_STEP + 1), np.int64)
    rows[:, b.B_UNITS], rows[:, b.B_ROWS] = rng.integers(1, 9, 9), rng.integers(12, 30, 9)
    rows[:, b.B_CAPACITY], rows[:, b.B_STEP] = rng.integers(2, 8, 9), 1
    rows[:, b.B_GROUP] = rows[:, b.B_LAST_GROUP] = np.arange(9) % 2
    rows[8, b.B_LAST_GROUP] = 1  # of group 0
    least = rows[:, b.B_CAPACITY].copy()

    def units(group: int, more: int = -1) -> int:
        """What the buffers of a group take, one of them with a row more."""
        held = (rows[:, b.B_GROUP] <= group) & (rows[:, b.B_LAST_GROUP] >= group)
        capacity = rows[:, b.B_CAPACITY] + (np.arange(len(rows)) == more)
        return int((-(-capacity * rows[:, b.B_UNITS] // READ) * READ)[held].sum())

    need = np.array([units(0), units(1)])
    budget = need + READ * rng.integers(3, 40, 2)
    spills._set_slack(c, rows, need, budget, MOST)
    assert need.tolist() == [units(0), units(1)]
    assert (need <= budget).all()
    assert rows[8, b.B_CAPACITY] == least[8]
    assert (rows[:8, b.B_CAPACITY] > least[:8]).any()
    for k in range(8):
        top = min(int(rows[k, b.B_ROWS]), int(least[k]) + MOST)
        assert rows[k, b.B_CAPACITY] == top or units(k % 2, k) > budget[k % 2]


def test_rings_of_pooled_rows_grow_by_whole_steps() -> None:
    c = np.zeros(t.C_ACT_BANK + 1, np.int64)
    c[t.C_ROW] = 1
    rows = np.zeros((1, b.B_STEP + 1), np.int64)
    rows[0, [b.B_UNITS, b.B_ROWS, b.B_CAPACITY, b.B_STEP]] = 2, 100, 5, 3
    spills._set_slack(c, rows, np.array([10]), np.array([10 + 2 * 8]), MOST)
    assert rows[0, b.B_CAPACITY] == 5 + 6
