"""Operators of two tensors: sums, products, extremes; of one shape, or one operand spread over rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.random_graphs import random_config
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.ir.facts import Facts
from tilewright.jit.reference import evaluate

KINDS = (g.Add, g.Multiply, g.Maximum, g.Minimum)


def net(seed: int, kind: type[g.Pairwise], spread: str) -> g.Graph:
    """A layer, an operator of two tensors behind it, a layer; ``spread``: what the second operand has a single one
    of."""
    rng = np.random.default_rng(seed)
    h, w, c = int(rng.integers(1, 12)), int(rng.integers(1, 24)), int(rng.integers(1, 70))
    b = GraphBuilder(seed, (h, w, int(rng.integers(1, 20))))
    x = b.conv("x", c)
    other = b.conv("x", c, (1, 1), padding=(0, 0, 0, 0)) if seed % 2 else b.requantize(x)
    if spread == "pixel":  # as squeeze-and-excite does
        other = b.dense(b.dense(b.average_pool(other, (h, w)), 9), c)
    elif spread:
        other = b.max_pool(other, (h, 1) if spread == "row" else (1, w), (1, 1))
    y = b.pairwise(kind, x, other)
    return b.graph(b.conv(y, 11, (1, 1), padding=(0, 0, 0, 0)), y) if seed % 3 else b.graph(y)


@pytest.mark.parametrize("spread", ["", "row", "column", "pixel"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_pairs_are_exact(kind: type[g.Pairwise], spread: str) -> None:
    for seed in range(3):
        config = random_config(seed + 7 * len(spread)) if seed else PRESETS["pynq-z2"]
        assert_exact(net(seed, kind, spread), config, seed)


@pytest.mark.usefixtures("tiles_only")
@pytest.mark.parametrize("spread", ["", "row", "column", "pixel"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_pairs_in_tiles(kind: type[g.Pairwise], spread: str) -> None:
    for seed in range(3):
        config = random_config(seed + 5 * len(spread)) if seed else PRESETS["tiny"]
        assert_exact(net(seed + 10, kind, spread), config, seed)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_operand_with_itself(kind: type[g.Pairwise]) -> None:
    b = GraphBuilder(3, (5, 7, 9))
    assert_exact(b.graph(b.pairwise(kind, "x", "x")), PRESETS["pynq-z2"])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ranges_hold_what_comes_out(kind: type[g.Pairwise]) -> None:
    """What is known of channels from the ranges of both operands."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        b = GraphBuilder(seed, (6, 6, 8))
        b.tensors["y"] = b.tensors["x"]
        graph = b.graph(b.pairwise(kind, "x", "y"))
        ends = np.sort(rng.integers(-128, 128, (2, 2, 8)), axis=1)
        facts = [Facts(lo, hi, np.arange(8)) for lo, hi in ends]
        graph.inputs.append("y")
        x, y = (rng.integers(f.lo, f.hi + 1, (1, 6, 6, 8)).astype(np.int8) for f in facts)
        got = evaluate(graph, {"x": x, "y": y})[graph.outputs[0]]
        found = graph.ops[0].facts(*facts)
        assert found is not None
        assert (found.lo <= got.min((0, 1, 2))).all()
        assert (got.max((0, 1, 2)) <= found.hi).all()
