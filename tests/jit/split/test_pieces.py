"""Pieces of graphs make together what the whole makes, whatever the graph."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.random_graphs import odd_graph
from tilewright.jit import graph as g
from tilewright.jit.graph import Graph
from tilewright.jit.ir.regions import Uncut
from tilewright.jit.reference import evaluate
from tilewright.jit.split.boxes import Box, box_of
from tilewright.jit.split.pieces import AXES, Axis, Piece, cut

Values = dict[str, np.ndarray]


def box(values: np.ndarray, found: Box) -> np.ndarray:
    """The values of a box, of (1, H, W, C)."""
    return values[:, found.top : found.bottom, :, found.first : found.last]


def check(graph: Graph, pieces: list[Piece], seed: int) -> None:
    """Every value that a piece gives is that of the whole, and every value of the whole is given."""
    rng = np.random.default_rng(seed)
    inputs = {n: rng.integers(-128, 128, graph.tensors[n].shape).astype(np.int8) for n in graph.inputs}
    expected = evaluate(graph, inputs)
    given = {name: np.zeros(graph.tensors[name].shape, bool) for name in graph.outputs}
    for piece in pieces:
        taken = {name: box(inputs[tensor], of) for name, (tensor, of) in piece.taken.items()}
        assert {n: t.shape for n, t in taken.items()} == {n: piece.graph.tensors[n].shape for n in piece.graph.inputs}
        found = evaluate(piece.graph, taken)
        for name, (tensor, of) in piece.given.items():
            np.testing.assert_array_equal(found[name], box(expected[tensor], of))
            box(given[tensor], of)[...] = True
        assert len({op.name for op in piece.graph.ops}) == len(piece.graph.ops)
        for op in piece.graph.ops:
            assert op.output in piece.graph.tensors
    assert all(np.all(marks) for marks in given.values())


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("seed", range(60))
def test_pieces_of_random_graphs_make_what_the_whole_makes(seed: int, axis: Axis) -> None:
    builder, outputs = odd_graph(seed)
    graph = builder.graph(*outputs)
    count = 2 + seed % 3
    with contextlib.suppress(Uncut):  # the next test counts how many are cut
        pieces = cut(graph, count, axis, 8)
        assert 2 <= len(pieces) <= count
        check(graph, pieces, seed)


@pytest.mark.parametrize("axis", AXES)
def test_more_than_half_of_these_random_graphs_are_cut(axis: Axis) -> None:
    done = 0
    for seed in range(60):
        builder, outputs = odd_graph(seed)
        with contextlib.suppress(Uncut):
            done += len(cut(builder.graph(*outputs), 2 + seed % 3, axis, 8)) > 1
    assert done > 30


def residual(rows: int) -> Graph:
    b = GraphBuilder(1, (rows, 6, 16))
    x = b.conv(b.conv("x", 24, strides=(2, 2)), 24)
    return b.graph(b.add(b.conv(b.conv(x, 24), 24), b.conv(x, 24, (1, 1), padding=(0, 0, 0, 0))))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_residual_block_in_stripes_reads_its_halo_and_pads_at_true_edges_alone(count: int) -> None:
    graph = residual(24)
    pieces = cut(graph, count, "rows", 8)
    assert len(pieces) == count
    check(graph, pieces, 0)
    for k, piece in enumerate(pieces):
        for op in piece.graph.ops:
            if isinstance(op, g.Conv2D) and op.weight.shape[1] == 3 and op.strides == (1, 1):
                assert op.padding == (int(k == 0), 1, int(k == count - 1), 1)
    (first,) = (of for _, of in pieces[0].taken.values())
    assert first.top == 0
    assert first.bottom > 24 // count


def test_channels_are_cut_at_whole_vectors_and_weights_with_them() -> None:
    b = GraphBuilder(2, (1, 1, 64))
    graph = b.graph(b.dense("x", 100))
    pieces = cut(graph, 4, "channels", 16)
    assert [of[2:] for piece in pieces for _, of in piece.given.values()] == [(0, 16), (16, 48), (48, 80), (80, 100)]
    assert [piece.graph.inputs for piece in pieces] == [["x"]] * 4
    assert [op.weight.shape[0] for piece in pieces for op in piece.graph.ops if isinstance(op, g.Conv2D)] == [
        16, 32, 32, 20,
    ]  # fmt: skip
    check(graph, pieces, 0)


def test_what_has_no_two_pieces_is_named() -> None:
    b = GraphBuilder(3, (4, 4, 8))
    one = b.graph(b.average_pool("x", (4, 4)))
    with pytest.raises(Uncut, match="has no rows for two"):
        cut(one, 4, "rows", 8)
    with pytest.raises(Uncut, match="has no channels for two"):
        cut(one, 4, "channels", 8)
    grouped = GraphBuilder(4, (4, 4, 32))
    with pytest.raises(Uncut, match="makes its channels together"):
        cut(grouped.graph(grouped.conv("x", 32, groups=2)), 2, "channels", 8)
    padded = GraphBuilder(5, (4, 4, 8))
    with pytest.raises(Uncut, match="padding alone"):
        cut(padded.graph(padded.pad("x", (8, 0, 0, 0))), 4, "rows", 8)


def test_a_box_has_a_name_and_a_place() -> None:
    image, vector = g.TensorSpec("t", (1, 8, 4, 32)), g.TensorSpec("v", (1, 32))
    assert box_of(image).of(image) == image
    assert Box(2, 5, 0, 32).of(image) == g.TensorSpec("t[2:5]", (1, 3, 4, 32))
    assert Box(2, 5, 8, 32).of(image) == g.TensorSpec("t[2:5, ..., 8:32]", (1, 3, 4, 24))
    assert Box(0, 1, 8, 32).of(vector) == g.TensorSpec("v[..., 8:32]", (1, 24))
    assert Box(2, 5, 8, 32).begin(image) == (0, 2, 0, 8)
    assert Box(0, 1, 8, 32).begin(vector) == (0, 8)
