"""Small networks for the tests of the explorer."""

from __future__ import annotations

from tests.jit.builder import GraphBuilder
from tilewright.dse.networks import Network
from tilewright.jit.graph import Graph


def residual_network() -> Graph:
    b = GraphBuilder(3, (16, 16, 3))
    x = b.conv("x", 16)
    x = b.add(x, b.conv(b.conv(x, 16), 16))
    x = b.depthwise(x, strides=(2, 2), padding=(0, 0, 1, 1))
    x = b.conv(x, 32, (1, 1), padding=(0, 0, 0, 0))
    return b.graph(b.dense(b.average_pool(x, (8, 8)), 10))


def small_network(name: str = "small", weight: float = 1.0) -> Network:
    b = GraphBuilder(1, (8, 8, 4))
    graph = b.graph(b.dense(b.average_pool(b.conv(b.conv("x", 8), 16), (8, 8)), 4))
    return Network.of(graph, name, weight)
