"""The explorer counts what the compiler leaves of a network."""

from __future__ import annotations

import numpy as np

from tests.jit.builder import GraphBuilder
from tilewright.config import Config
from tilewright.dse.networks import Network
from tilewright.jit import graph as g
from tilewright.jit.cost.estimate import estimate
from tilewright.jit.plan import tables as t


def test_tables_are_those_of_the_channels_that_stay() -> None:
    b = GraphBuilder(3, (8, 8, 16))
    graph = b.graph(b.conv(b.conv("x", 64), 16))
    config = Config()
    before = Network.of(graph)
    assert before.tables(config).layers[0, t.L_UNITS] == 4
    fingerprint = before.fingerprint
    second = b.ops[1]
    assert isinstance(second, g.Conv2D)
    second.weight = second.weight.copy()
    second.weight[..., np.arange(64) % 5 > 0] = 0
    after = Network.of(graph)
    assert after.tables(config).layers[0, t.L_UNITS] == 1, "13 of 64 channels"
    assert after.tables(config, keep=True).layers[0, t.L_UNITS] == 4, "all where every layer's output is stored"
    assert after.fingerprint != fingerprint
    fast, slow = (estimate(network.tables(config), config).cycles for network in (after, before))
    assert fast < 0.5 * slow


def test_tables_count_the_blocks_that_are_computed() -> None:
    """Groups, and per vector the most, which must find room in wgt."""
    b = GraphBuilder(4, (8, 8, 64))
    graph = b.graph(b.conv("x", 64, groups=4))
    (layer,) = Network.of(graph).tables(Config()).layers
    assert (layer[t.L_MOST], layer[t.L_BLOCKS]) == (9, 36)
    op = b.ops[0]
    assert isinstance(op, g.Conv2D)
    op.weight = op.weight.copy()
    op.weight[:16, 0] = 0
    op.weight[48:, :2] = 0
    (layer,) = Network.of(graph).tables(Config()).layers
    assert (layer[t.L_MOST], layer[t.L_BLOCKS]) == (9, 6 + 9 + 9 + 3)
