"""Banks of act for layers that ALU runs beside others, and for those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS
from tilewright.jit.lower.lowering import lower
from tilewright.jit.tiled.program import TiledProgram

Banks = tuple[int, int] | None


def rounds(monkeypatch: pytest.MonkeyPatch, pooled: bool) -> list[dict[int, Banks]]:
    """The banks of each chain, round by round, of two convolutions and perhaps a pool that runs beside them."""
    config = PRESETS["pynq-z2"]
    b = GraphBuilder(1, (32, 32, 16))
    x = b.conv("x", 64)
    y = b.conv(b.conv(x, 64), 64)
    graph = b.graph(b.add(b.max_pool(x, (3, 3), (1, 1), (1, 1, 1, 1)), y) if pooled else y)
    program = TiledProgram(graph, lower(graph, config, tiled=True, joined=True), config)
    found: list[dict[int, Banks]] = []
    order = program._order

    def noted(plan: Any, parts: Mapping[int, Banks]) -> Any:
        found.append(dict(parts))
        return order(plan, parts)

    monkeypatch.setattr(program, "_order", noted)
    program.choose(config)
    return found


def test_side_and_host_share_all_banks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first it is not known beside what the pool runs; then that gets all banks but the pool's."""
    first, last = rounds(monkeypatch, pooled=True)
    (side,) = [number for number, banks in first.items() if banks is not None]
    assert first[side] == (3, 4)
    assert last[side] == first[side]
    assert {banks for number, banks in last.items() if number != side} == {(0, 3), None}


def test_a_chain_that_nothing_runs_beside_has_all_banks(monkeypatch: pytest.MonkeyPatch) -> None:
    (only,) = rounds(monkeypatch, pooled=False)
    assert set(only.values()) == {None}
