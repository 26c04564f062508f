"""What is chosen for odd graphs is what was kept."""

from __future__ import annotations

import json

import pytest

from tests.jit.cost import kept_programs

KEPT = json.loads(kept_programs.KEPT.read_text())


@pytest.mark.parametrize("seed", kept_programs.SEEDS)
def test_as_they_were_kept(seed: int) -> None:
    """``python -m tests.jit.cost.kept_programs`` keeps others, where a change of them is meant."""
    assert kept_programs.found(seed) == KEPT[str(seed)]


def test_most_have_programs_and_some_have_many_steps() -> None:
    cycles = [sum(kept["cycles"]) for kept in KEPT.values() if "cycles" in kept]
    assert len(KEPT) == len(kept_programs.SEEDS)
    assert len(cycles) > 40
    assert sorted(cycles)[len(cycles) // 2] > 1000
