"""Rows and columns of an image, streamed and in tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.random_graphs import random_config
from tilewright.config import PRESETS
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Graph


def net(seed: int) -> Graph:
    """A layer, two parts of its result that overlap or leave rows out, a layer behind one of them."""
    rng = np.random.default_rng(seed)
    h, w = int(rng.integers(2, 17)), int(rng.integers(2, 20))
    b = GraphBuilder(seed, (h, w, int(rng.integers(1, 20))))
    x = b.conv("x", int(rng.integers(1, 50)))
    found = []
    for _ in range(2):
        steps = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        begin = (int(rng.integers(0, h)), int(rng.integers(0, w)))
        most = [-(-(size - first) // step) for size, first, step in zip((h, w), begin, steps, strict=True)]
        found.append(b.slice(x, begin, (int(rng.integers(1, most[0] + 1)), int(rng.integers(1, most[1] + 1))), steps))
    return b.graph(b.conv(found[0], 12), found[1])


@pytest.mark.parametrize("seed", range(6))
def test_slices_are_exact(seed: int) -> None:
    assert_exact(net(seed), random_config(seed) if seed % 2 else PRESETS["pynq-z2"], seed)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("seed", range(6, 12))
def test_slices_in_tiles(seed: int) -> None:
    assert_exact(net(seed), random_config(seed) if seed % 2 else PRESETS["tiny"], seed)


@pytest.mark.usefixtures("tiles_only")
def test_the_first_rows_do_not_go_on_where_their_layer_lies() -> None:
    """A tile of the layer holds more pixels than there are of its result, or fewer (a pad below)."""
    for fewer in (True, False):
        b = GraphBuilder(1, (9, 8, 6))
        x = b.conv("x", 8)
        graph = b.graph(b.slice(x, (0, 0), (5, 6)) if fewer else b.pad(x, (0, 0, 2, 3)))
        assert len(compile_graph(graph, PRESETS["tiny"]).programs) == 1
        assert_exact(graph, PRESETS["tiny"])
