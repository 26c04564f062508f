"""Concatenations without a copy: what makes a part writes it in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.proof.cases import NO_PADDING
from tests.jit.random_graphs import odd_graph, random_config
from tilewright.config import PRESETS
from tilewright.jit import programs
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.lower.lowering import lower

PYNQ = PRESETS["pynq-z2"]


def fire(b: GraphBuilder, x: str, channels: int = 32) -> str:
    """Two convolutions of one tensor, side by side."""
    squeezed = b.conv(x, 16, (1, 1), padding=NO_PADDING)
    return b.concat(b.conv(squeezed, channels, (1, 1), padding=NO_PADDING), b.conv(squeezed, channels), same=True)


def two_fires() -> Graph:
    b = GraphBuilder(1, (14, 14, 32))
    return b.graph(b.conv(fire(b, fire(b, "x")), 16))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every schedule but that of tiles is without copies where it can be."""

    def joined(graph: Any, config: Any, tiled: bool = False, **_: bool) -> Any:
        return lower(graph, config, tiled=tiled, joined=not tiled)

    monkeypatch.setattr(programs, "lower", joined)


def test_no_node_is_left_for_the_concatenation() -> None:
    graph = two_fires()
    assert sum(node.name.startswith(("op003", "op007")) for node in lower(graph, PYNQ).nodes) == 4
    nodes = lower(graph, PYNQ, joined=True).nodes
    assert [node.first_unit for node in nodes] == [0, 0, 2, 0, 0, 2, 0]
    assert len({node.output for node in nodes}) == 5


@pytest.mark.parametrize("blocks", [(4, 8), (8, 4)])
def test_parts_of_half_a_vector_where_the_blocks_differ(blocks: tuple[int, int], always: None) -> None:
    """Half of what the array takes, or half of what it gives: not every multiple of the lanes begins a vector."""
    config = PRESETS["tiny"].replace(block_in=blocks[0], block_out=blocks[1])
    b = GraphBuilder(4, (5, 6, 4))
    made = b.concat(b.conv("x", 4), b.conv("x", 12), b.conv("x", 4), same=True)
    assert_exact(b.graph(b.conv(made, 8)), config)


def test_the_copies_are_left_out_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "NEAR", 2.0)  # tiles are no schedule without copies

    def cycles() -> int:
        found = programs.best_program(two_fires(), PYNQ, programs.POLICIES, None)
        assert found.rejected == ()
        return int(programs.simulate_timing(found.program).cycles)

    without_copies = cycles()
    monkeypatch.setattr(programs, "_joined", lambda *_: (_ for _ in ()).throw(PlaceError("no room")))
    assert without_copies < 0.97 * cycles()


def test_parts_that_others_need_are_copied() -> None:
    """One is read again, one is an output, one stands twice, one is an input, one begins inside a vector."""
    b = GraphBuilder(2, (6, 6, 16))
    read, out, twice = (b.conv("x", 16) for _ in range(3))
    y = b.concat(read, out, twice, twice, "x", same=True)
    odd = b.concat(b.conv(y, 5), b.conv(y, 16), same=True)
    nodes = lower(b.graph(b.conv(read, 8), out, odd), PYNQ, joined=True).nodes
    assert sum(node.output == y for node in nodes) == 5
    assert not any(node.first_unit for node in nodes if node.uses_gemm)


@pytest.mark.usefixtures("always")
def test_a_concatenation_of_a_concatenation() -> None:
    b = GraphBuilder(3, (8, 8, 16))
    inner = b.concat(b.conv("x", 16), b.conv("x", 32, (1, 1), padding=NO_PADDING), same=True)
    whole = b.concat(b.depthwise(b.conv("x", 16)), inner, b.average_pool(b.conv("x", 16), (1, 1)), same=True)
    graph = b.graph(b.conv(whole, 24))
    assert {node.first_unit for node in lower(graph, PYNQ, joined=True).nodes} == {0, 1, 2, 4}
    assert_exact(graph, PYNQ)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(12))
def test_random_branches(seed: int) -> None:
    """Of unequal depth, whose parts wait for each other; on the chip, in groups, or in tiles."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder(seed, (int(rng.integers(3, 13)), int(rng.integers(3, 13)), int(rng.integers(3, 40))))
    block = 16 if seed % 2 else 4
    parts = []
    for _ in range(int(rng.integers(2, 5))):
        y = "x"
        for _ in range(int(rng.integers(1, 4))):
            form = ((3, 3),) if rng.integers(2) else ((1, 1), (1, 1), NO_PADDING)
            y = b.conv(y, block * int(rng.integers(1, 4)), *form)
        parts.append(y)
    y = b.concat(*parts, same=seed % 4 > 0)
    graph = b.graph(b.conv(y, 9)) if seed % 3 else b.graph(y)
    assert_exact(graph, PYNQ if seed % 2 else PRESETS["tiny"], seed)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(2000, 2010))
def test_random_graphs(seed: int) -> None:
    b, outputs = odd_graph(seed)
    assert_exact(b.graph(*outputs), random_config(seed), seed)
