"""First visits of affine loops, against a plain walk."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.isa.verify.affine import NEVER, first_visits


@pytest.mark.parametrize(
    "offsets", [[3, 3, 5], [0, 4, 0, 4], [2], [5, 1, 5, 1, 1]], ids=["twice", "in turn", "once", "many"]
)
def test_of_several_micro_ops_at_one_address_the_first_counts(offsets: list[int]) -> None:
    (outer, outer_step), (inner, inner_step) = (2, 7), (3, 2)
    high = max(offsets) + outer_step * (outer - 1) + inner_step * (inner - 1)
    first = np.full(high + 1, NEVER)
    time = 0
    for o in range(outer):
        for i in range(inner):
            for offset in offsets:
                address = offset + o * outer_step + i * inner_step
                first[address] = min(first[address], time)
                time += 1
    found = first_visits(
        np.array(offsets), np.arange(len(offsets)), len(offsets), (outer, outer_step), (inner, inner_step), 0, high
    )
    assert found.tolist() == first.tolist()
