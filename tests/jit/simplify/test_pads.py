"""Pads become the padding of what reads them, and every integer stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tests.jit.tflite_models import TfliteBuilder
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.reference import evaluate
from tilewright.jit.simplify.pads import without_pads

TINY = PRESETS["tiny"]


def equal(graph: g.Graph) -> g.Graph:
    """The graph without pads, which gives the same for random inputs."""
    found = without_pads(graph)[0]
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.integers(-128, 128, graph.tensors["x"].shape, np.int8)
        before, after = evaluate(graph, {"x": x}), evaluate(found, {"x": x})
        for name in graph.outputs:
            np.testing.assert_array_equal(after[name], before[name])
    return found


def pads(graph: g.Graph) -> int:
    return sum(isinstance(op, g.Pad) for op in graph.ops)


def valued(graph: g.Graph, values: list[int]) -> g.Graph:
    """The graph with other values to pad with, of pads, convolutions and depthwise layers in turn."""
    ops = list(graph.ops)
    for number, op in enumerate(ops):
        if isinstance(op, (g.Pad, g.Conv2D, g.DepthwiseConv2D)):
            ops[number] = replace(op, pad_value=values[number % len(values)])
    return replace(graph, ops=ops)


def random_graph(seed: int) -> g.Graph:
    """Chains and branches of pads, convolutions, depthwise layers and pools, with equal or with different values."""
    b = GraphBuilder(seed, (15, 14, 4))
    rng = b.rng
    made = ["x"]
    for _ in range(int(rng.integers(2, 6))):
        x = made[int(rng.integers(max(0, len(made) - 2), len(made)))]
        if rng.random() < 0.7:
            x = b.pad(x, tuple(int(k) for k in rng.integers(0, 3, 4)))
        kind = int(rng.integers(0, 5))
        own = tuple(int(k) for k in rng.integers(0, 2, 4))
        if kind == 0:
            made.append(b.conv(x, 4, (5, 4), padding=own))
        elif kind == 1:
            made.append(b.depthwise(x, (4, 4), padding=own))
        elif kind == 2:
            made.append(b.max_pool(x, (3, 3), (1, 1), padding=own))
        else:
            made += [b.conv(x, 4, (4, 4), padding=own), b.conv(x, 4, (2, 2), padding=(0, 0, 0, 0))][: kind - 2]
    used = {name for op in b.graph(made[-1]).ops for name in op.inputs}
    values = [-128] if seed % 2 else [int(k) for k in rng.integers(-128, 128, 2)]
    return valued(b.graph(*(name for name in made[1:] if name not in used)), values)


def test_random_graphs() -> None:
    before = after = 0
    for seed in range(120):
        graph = random_graph(seed)
        before, after = before + pads(graph), after + pads(equal(graph))
    assert before > 150
    assert 0.2 * before < after < 0.7 * before


@pytest.mark.parametrize("seed", range(8))
def test_programs_of_what_is_left(seed: int) -> None:
    assert_exact(random_graph(seed), TINY, seed)


def test_what_must_stay_stays() -> None:
    b = GraphBuilder(0, (8, 8, 4))
    wide = b.pad("x", (1, 1, 1, 1))
    graph = b.graph(b.conv(wide, 4, (1, 1)))
    assert pads(equal(graph)) == 1, "a window of 1x1 would see nothing but padding"
    graph = b.graph(b.conv(wide, 4, (3, 3), padding=(0, 0, 0, 0)), b.average_pool(wide, (2, 2)))
    assert pads(equal(graph)) == 1, "an average counts what is padded"
    b = GraphBuilder(0, (8, 8, 4))
    wide = b.pad("x", (1, 1, 1, 1))
    graph = b.graph(wide, b.conv(wide, 4, (3, 3), padding=(0, 0, 0, 0)))
    assert pads(equal(graph)) == 1, "it is an output"
    b = GraphBuilder(0, (8, 8, 4))
    pooled = b.graph(b.max_pool(b.pad("x", (1, 1, 1, 1)), (3, 3), (2, 2)))
    assert pads(equal(valued(pooled, [-127]))) == 1, "-127 may win"
    assert pads(equal(valued(pooled, [-128]))) == 0


def test_operators_say_where_a_pad_went_and_cycles_fall(tmp_path: Path) -> None:
    b = TfliteBuilder(1)
    x, wide, y = b.tensor([1, 16, 16, 16], 0.1, 0), b.tensor([1, 18, 18, 16], 0.1, 0), b.tensor([1, 8, 8, 16], 0.9, 3)
    weights, scales = b.weights([1, 3, 3, 16], 3)
    b.op("PAD", [x, b.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))], wide, "PadOptions")
    b.op(
        "DEPTHWISE_CONV_2D", [wide, weights, b.bias(wide, scales, 16)], y, "DepthwiseConv2DOptions",
        StrideH=2, StrideW=2, Padding=1, DilationHFactor=1, DilationWFactor=1, DepthMultiplier=1,
    )  # fmt: skip
    path = b.save(tmp_path / "m.tflite", [x], [y])
    executable, kept = tw.compile(path, cache=False), tw.compile(path, cache=False, keep_intermediates=True)
    pad = executable.artifact.options["operators"][0]
    assert (pad["op"], pad["place"], pad["reason"]) == ("PAD", "accelerator", "the padding of op001_DEPTHWISE_CONV_2D")
    values = np.random.default_rng(0).integers(-128, 128, (3, 16, 16, 16), np.int8)
    (found, report), (expected, longer) = executable.run(values), kept.run(values)
    np.testing.assert_array_equal(found, expected)
    assert report.cycles < 0.8 * longer.cycles
