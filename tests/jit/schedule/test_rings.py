"""Rows stay in their rings until STORE and every producer are done with them: random graphs, only outputs stored."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS

NO_PADDING = (0, 0, 0, 0)


@pytest.mark.parametrize("name", PRESETS)
def test_a_concatenation_as_output(name: str) -> None:
    """Its first part may not run ahead over rows that wait for the second one."""
    config = PRESETS[name]
    channels = config.widest_block
    b = GraphBuilder(1, (12, 12, 16))
    parts = [b.conv("x", channels, (1, 1), padding=NO_PADDING) for _ in range(2)]
    assert_exact(b.graph(b.concat(*parts)), config)


def test_a_concatenation_that_is_stored_and_read() -> None:
    b = GraphBuilder(2, (10, 9, 4))
    parts = [b.conv("x", 4), b.conv(b.conv("x", 8, (5, 5), padding=(2, 2, 2, 2)), 8), b.max_pool("x", (1, 1), (1, 1))]
    x = b.concat(*parts)
    assert_exact(b.graph(x, b.conv(x, 4)), PRESETS["tiny"])


def test_first_rows_of_a_wide_middle() -> None:
    """Chunk passes over groups of rows: a late row must not take the place of the padding above the first."""
    b = GraphBuilder(3, (9, 10, 184))
    assert_exact(b.graph(b.conv(b.conv("x", 643), 88)), PRESETS["pynq-z2"])


@pytest.mark.parametrize("seed", range(6))
def test_wide_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = (int(v) for v in rng.integers(4, 14, 2))
    first, middle, last = (int(v) for v in rng.integers(20, 120, 3))
    b = GraphBuilder(seed, (height, width, first))
    small = PRESETS["tiny"].replace(name="small", act_bytes=16384, wgt_bytes=32768)
    assert_exact(b.graph(b.conv(b.conv("x", middle), last)), small, seed)


def test_a_middle_that_reads_padding_alone() -> None:
    """Rows in the middle of the join depend on the padding above a tensor, and on no row of it."""
    b = GraphBuilder(3, (7, 7, 24))
    x = b.conv("x", 26, (3, 3), (4, 2), (0, 0, 0, 0))
    padded = b.pad(x, (6, 0, 1, 0))
    y = b.conv(padded, 6, (1, 1), padding=(0, 0, 0, 0))
    assert_exact(b.graph(b.add(y, y)), PRESETS["ultra96"])
