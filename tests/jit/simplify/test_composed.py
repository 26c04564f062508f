"""Functions of single elements behind each other become one table, and every integer stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.source.onnx_nets import F, NetBuilder, Tensor
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.reference import evaluate
from tilewright.jit.simplify.composed import composed
from tilewright.runtime import interpreters

KINDS = (g.Add, g.Multiply, g.Maximum, g.Minimum)
EVERY = np.arange(-128, 128).astype(np.int8)


def equal(graph: g.Graph) -> g.Graph:
    """The composed graph, which gives the same for every value."""
    found = composed(graph)
    shape = graph.tensors["x"].shape
    x = np.resize(EVERY, shape)
    before, after = evaluate(graph, {"x": x}), evaluate(found, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(after[name], before[name])
    return found


def kinds(graph: g.Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def test_random_chains_and_joins() -> None:
    fewer = 0
    for seed in range(60):
        b = GraphBuilder(seed, (4, 16, 4))
        made = ["x"]
        for _ in range(int(b.rng.integers(2, 8))):
            first, second = (made[int(k)] for k in b.rng.integers(max(0, len(made) - 3), len(made), 2))
            kind = int(b.rng.integers(0, 6))
            made.append(b.pairwise(KINDS[kind], first, second) if kind < 4 else b.requantize(first))
        outputs = {made[-1], made[int(b.rng.integers(1, len(made)))]}
        graph = b.graph(*outputs)
        found = equal(graph)
        fewer += len(found.ops) < len(graph.ops)
    assert fewer > 40


def test_a_product_with_a_function_of_itself() -> None:
    b = GraphBuilder(1, (4, 16, 4))
    x = b.conv("x", 4)
    y = b.pairwise(g.Multiply, x, b.requantize(x))
    found = equal(b.graph(b.conv(y, 4)))
    assert kinds(found) == ["Conv2D", "Requantize", "Conv2D"]
    assert_exact(b.graph(b.conv(y, 4)), PRESETS["tiny"])


def test_what_is_needed_otherwise_stays() -> None:
    b = GraphBuilder(2, (4, 16, 4))
    s = b.requantize("x")
    y = b.pairwise(g.Multiply, "x", s)
    assert kinds(equal(b.graph(y, s))) == ["Requantize", "Multiply"]  # an output
    assert kinds(equal(b.graph(b.pairwise(g.Add, y, s)))) == ["Requantize"]  # in the end nobody reads it


def test_channels_of_their_own_and_other_shapes_are_no_table() -> None:
    b = GraphBuilder(3, (4, 16, 4))
    s = b.requantize("x")
    op = b.ops[-1]
    assert isinstance(op, g.Requantize)
    b.ops[-1] = replace(op, requant=replace(op.requant, bias=np.arange(4, dtype=np.int32)))
    y = b.pairwise(g.Multiply, "x", s)
    assert kinds(equal(b.graph(y))) == ["Requantize", "Multiply"]
    b = GraphBuilder(3, (4, 16, 4))
    row = b.max_pool("x", (4, 16), (4, 16))
    y = b.pairwise(g.Multiply, "x", b.requantize(row))
    assert kinds(equal(b.graph(y))) == ["MaxPool2D", "Requantize", "Multiply"]


def silu(b: NetBuilder, y: Tensor) -> Tensor:
    s = b.pair(b.op("Sigmoid", [y.name]), y.shape, 1 / 255, -128)
    return b.pair(b.op("Mul", [y.name, s.name]), y.shape, y.scale, -20)


def hard_swish(b: NetBuilder, y: Tensor) -> Tensor:
    """As exporters without an operator for it write it, each step quantised."""
    u = b.pair(b.op("Add", [y.name, b.constant(F(3))]), y.shape, 0.03, -100)
    u = b.pair(b.op("Clip", [u.name, b.constant(F(0)), b.constant(F(6))]), y.shape, 6 / 255, -128)
    v = b.pair(b.op("Mul", [y.name, u.name]), y.shape, 0.05, 0)
    return b.pair(b.op("Div", [v.name, b.constant(F(6))]), y.shape, 0.02, -5)


@pytest.mark.parametrize("activation", [silu, hard_swish])
def test_activations_of_two_operators_and_more(
    activation: Callable[[NetBuilder, Tensor], Tensor], tmp_path: Path
) -> None:
    b = NetBuilder(5)
    x = b.real_input((1, 8, 9, 7))
    y = activation(b, b.fitted(b.conv(x, 16, 1), (1, 16, 9, 7), 1.0))
    b.output(b.fitted(b.conv(y, 6, 1), (1, 6, 9, 7), 1.0).name, (1, 6, 9, 7))
    path = b.save(tmp_path / "m.onnx")
    image = np.random.default_rng(1).normal(0, 1.5, (1, 8, 9, 7)).astype(F)
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([image])
    for keep in (False, True):
        exe = tw.compile(path, "tiny", cache=False, keep_intermediates=keep)
        np.testing.assert_array_equal(np.reshape(exe.run(image)[0], wanted.shape), wanted)
        count = len(exe.artifact.programs[0].meta["layers"])
        assert count == 3 if not keep else count > 3  # with every operator's result kept, all of them run
