"""The planner's choices and the cost model's numbers are those that were kept."""

from __future__ import annotations

import json

import pytest

from tests.jit.cost import pinned

KEPT = json.loads(pinned.KEPT.read_text())


@pytest.mark.parametrize("network", [draw.__name__ for draw in pinned.NETWORKS])
def test_as_they_were_kept(network: str) -> None:
    """``python -m tests.jit.cost.pinned`` keeps others, where a change of them is meant."""
    found = pinned.found(network)
    assert found == {pair: kept for pair, kept in KEPT.items() if pair.startswith(f"{network} on ")}
    assert len(found) == len(pinned.CONFIGS)


@pytest.mark.parametrize("pair", [pair for pair, kept in KEPT.items() if "refused" not in kept])
def test_the_estimate_counts_what_instructions_are_declared_to_take(pair: str) -> None:
    """An estimate sees no instruction: that it counts the array's cycles as ``isa.effects`` does is held here."""
    assert KEPT[pair]["busy"]["GEMM"] == KEPT[pair]["array"] > 0
