"""Which networks are the same to a sweep that goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.conftest import REPOSITORY
from tests.jit.builder import GraphBuilder
from tilewright.config import Config
from tilewright.dse.identity import _parts, graph_digest
from tilewright.dse.networks import Network
from tilewright.jit import graph as g
from tilewright.jit.importer import lower_source
from tilewright.jit.source import open_source


def test_weights_are_part_of_a_network() -> None:
    """Zeros that no block of 16 channels is made of, and those of 4 are: they were once the same network."""
    graphs = []
    for zeros in (0, 4):
        b = GraphBuilder(3, (8, 8, 16))
        graph = b.graph(b.conv("x", 16))
        (op,) = graph.ops
        assert isinstance(op, g.Conv2D)
        op.weight = op.weight.copy()
        op.weight[:4, ..., :zeros] = 0
        graphs.append(Network.of(graph))
    dense, sparse = graphs
    narrow = Config(block_in=4, block_out=4, axi_bits=32)
    assert dense.estimate(Config()).cycles == sparse.estimate(Config()).cycles
    assert dense.estimate(narrow).cycles > sparse.estimate(narrow).cycles
    assert dense.fingerprint != sparse.fingerprint


def test_a_model_read_twice_is_the_same_network_by_any_name() -> None:
    model = REPOSITORY / "examples" / "digits" / "digits.onnx"
    first, second = (lower_source(open_source(model), {}).graph for _ in range(2))
    assert first is not second
    assert graph_digest(first) == graph_digest(replace(second, name="another"))
    assert not any(b" at 0x" in part for part in _parts(first)), "an object by its address"
    changed = replace(second, outputs=[*second.outputs, second.ops[0].output])
    assert graph_digest(changed) != graph_digest(second)


def test_what_a_value_is_made_of() -> None:
    values = [
        np.zeros(2, np.int8), np.zeros(2, np.uint8), np.zeros((2, 1), np.int8), np.ones(2, np.int8),
        [], [0], [[0]], [0, 0], {}, {"a": 0}, {"b": 0}, "a", 0, None, 0.0,
    ]  # fmt: skip
    assert len({tuple(_parts(value)) for value in values}) == len(values)
    assert list(_parts(np.arange(6).reshape(2, 3).T)) == list(_parts(np.arange(6).reshape(2, 3).T.copy()))
