"""Blocks of weights that are all zero take no time, whoever has them, and the lower bound counts the others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS
from tilewright.isa.codec import columns_of
from tilewright.isa.effects import micro_ops
from tilewright.isa.spec import Opcode
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.lower.lowering import lower
from tilewright.jit.plan.planner import Plan, Planner
from tilewright.jit.plan.policy import PLANNED

CONFIG = PRESETS["pynq-z2"]


#: tiles leave out blocks that are zero at every kernel position
pytestmark = pytest.mark.usefixtures("rows_only")


def gemm_cycles(graph: g.Graph) -> int:
    """GEMM micro-ops of the program, all channels kept, scheduled by rows."""
    (program,) = compile_graph(graph, CONFIG, keep_intermediates=True, policies=(PLANNED,)).programs
    table = program.table()
    return int(micro_ops(columns_of(table[table["opcode"] == Opcode.GEMM])).sum())


def array_cycles(graph: g.Graph) -> int:
    """The lower bound of the one layer."""
    (layer,) = compile_graph(graph, CONFIG, keep_intermediates=True, policies=(PLANNED,)).programs[0].meta["layers"]
    return int(layer["array_cycles"])


def cut_node(graph: g.Graph) -> ConvNode:
    """The one node, cut as planned."""
    lowered = lower(graph, CONFIG)
    plan = Planner(lowered.tables, CONFIG).whole()
    assert isinstance(plan, Plan)
    lowered.bind(plan)
    (node,) = lowered.nodes
    assert isinstance(node, ConvNode)
    return node


def convolution(b: GraphBuilder, channels: int, kernel: int = 3, groups: int = 1) -> g.Conv2D:
    pad = kernel // 2
    b.conv("x", channels, (kernel, kernel), padding=(pad,) * 4, groups=groups)
    op = b.ops[-1]
    assert isinstance(op, g.Conv2D)
    return op


def check(b: GraphBuilder, blocks: int) -> None:
    """The convolution on 8x8 pixels takes so many blocks a pixel, by node, bound and program; and is exact."""
    graph = b.graph(b.ops[-1].output)
    node = cut_node(graph)
    assert node.filled_blocks == blocks
    assert sum(map(node.gemm_cycles, node.tasks)) == blocks * 64
    assert sum(len(chunk.weights) for chunk in node.chunks) == blocks
    assert gemm_cycles(graph) == blocks * 64
    assert array_cycles(graph) == blocks * 64
    assert_exact(graph, CONFIG)


def test_blocks_without_weights_are_left_out() -> None:
    """Other ones for every vector, of 16 channels, and among its kernel positions."""
    b = GraphBuilder(1, (8, 8, 64))
    op = convolution(b, 64)
    keep = np.random.default_rng(3).random((4, 3, 3, 4)) < 0.3
    op.weight *= keep.repeat(16, axis=0).repeat(16, axis=3)
    check(b, int(keep.sum()))


def test_groups_cost_what_they_compute() -> None:
    """Each vector reads further on by as many blocks as the one before: all are one instruction."""
    b = GraphBuilder(2, (8, 8, 64))
    convolution(b, 64, groups=4)
    check(b, 4 * 9)
    assert len(cut_node(b.graph(b.ops[-1].output)).runs) == 1


def test_groups_inside_a_block_and_across_vectors() -> None:
    for channels, groups, blocks in ((64, 16, 4), (128, 4, 8), (64, 2, 8)):
        b = GraphBuilder(2, (8, 8, 64))
        convolution(b, channels, groups=groups)
        check(b, blocks * 9)


def test_the_second_part_of_wide_weights_counts_where_it_is() -> None:
    b = GraphBuilder(4, (8, 8, 64))
    op = convolution(b, 64)
    op.weight = op.weight.astype(np.int16)
    op.weight[20, 1, 2, 37] = 200
    check(b, 4 * 4 * 9 + 1)


def test_a_vector_without_weights_is_written_all_the_same() -> None:
    b = GraphBuilder(5, (8, 8, 64))
    op = convolution(b, 64)
    op.weight[16:48] = 0
    graph = b.graph(op.output)
    node = cut_node(graph)
    assert node.filled_blocks == 2 * 4 * 9
    assert gemm_cycles(graph) == (2 * 4 * 9 + 2) * 64, "one block for each, which writes zeros"
    assert_exact(graph, CONFIG)


def test_a_few_blocks_are_not_worth_an_instruction() -> None:
    """At two pixels a row a block saves two cycles, an instruction costs more."""
    b = GraphBuilder(6, (2, 2, 64))
    op = convolution(b, 64)
    op.weight[16:32, 1, 1, :16] = 0
    graph = b.graph(op.output)
    assert gemm_cycles(graph) == 4 * 4 * 9 * 4
    assert_exact(graph, CONFIG)


@pytest.mark.parametrize("kernel,pushes,of", [(3, 1, 1), (5, 2, 8)])
def test_depthwise_channels_without_wide_weights_take_one_pass(kernel: int, pushes: int, of: int) -> None:
    """The first pass over rows of the kernel, which alone has the wide weights, takes ``pushes`` of all pushes."""

    def cycles(*wide: int) -> int:
        b = GraphBuilder(7, (8, 8, 64))
        b.depthwise("x", (kernel, kernel), padding=(kernel // 2,) * 4)
        op = b.ops[-1]
        assert isinstance(op, g.DepthwiseConv2D)
        op.weight = op.weight.astype(np.int16)
        op.weight[0, 0, list(wide)] = 200
        graph = b.graph(op.output)
        assert_exact(graph, CONFIG)
        return gemm_cycles(graph)

    once = cycles()
    each = once // 4 // of * pushes
    assert cycles(17) == cycles(16, 31) == once + each
    assert cycles(0, 17, 63) == once + 3 * each


def test_row_splits_without_taps_are_left_out() -> None:
    def depthwise() -> tuple[g.DepthwiseConv2D, g.Graph]:
        b = GraphBuilder(8, (8, 8, 64))
        b.depthwise("x", (5, 5), padding=(2, 2, 2, 2))
        op = b.ops[-1]
        assert isinstance(op, g.DepthwiseConv2D)
        return op, b.graph(op.output)

    _, whole = depthwise()
    before, bound = gemm_cycles(whole), array_cycles(whole)
    op, graph = depthwise()
    op.weight[3:, :, :16] = 0  # the last of three passes over the kernel's rows, 1, 2 and 2: 3 of 8 pushes
    op.weight[:, :, 32:48] = 0
    assert before - gemm_cycles(graph) == before // 4 // 8 * 3 * (1 + 2)
    columns, emits = 8 * (8 + 4), 8 * 8  # two rows push 8 pixels of a column, or 5 for three rows of the kernel
    assert bound == 4 * 8 * columns // 2
    assert array_cycles(graph) == 2 * 8 * columns // 2 + 5 * columns // 2 + emits
    assert_exact(graph, CONFIG)
