"""Where BLOCK_IN is wider than BLOCK_OUT, vectors of a pixel without a channel are not computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.codec import columns_of
from tilewright.isa.effects import micro_ops
from tilewright.isa.spec import Opcode
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.lower_bound import layer_bounds
from tilewright.jit.plan.policy import PLANNED

pytestmark = pytest.mark.usefixtures("rows_only")
#: four vectors to a block of a pixel
CONFIG = PRESETS["pynq-z2"].replace(block_in=32, block_out=8, axi_ports=1)
ROWS = 24

Build = Callable[[GraphBuilder, str, int], str]
ONES = np.eye(ROWS, dtype=np.int32).repeat(2, axis=0)
FAMILIES: dict[str, Build] = {
    "convolution": lambda b, x, c: b.conv("x", c),
    "grouped": lambda b, x, c: b.conv(x, c, (1, 1), padding=(0, 0, 0, 0), groups=c // 4),
    "transposed": lambda b, x, c: b.transposed("x", c, (3, 3), (2, 2)),
    "depthwise": lambda b, x, c: b.depthwise(x),
    "average": lambda b, x, c: b.average_pool(x, (2, 2), (2, 2)),
    "global": lambda b, x, c: b.average_pool(x, (ROWS, ROWS)),
    "maximum": lambda b, x, c: b.max_pool(x, (2, 2)),
    "sum": lambda b, x, c: b.add(x, x),
    "product": lambda b, x, c: b.pairwise(g.Multiply, x, x),
    "rescaled": lambda b, x, c: b.requantize(x),
    "resized": lambda b, x, c: b.resample(x, ONES, ONES),
}  # fmt: skip


def graph_of(family: str, channels: int) -> g.Graph:
    """A layer with so many channels, of an input with as many, or with 8 if its own do not depend on them."""
    alone = family in ("convolution", "transposed")
    b = GraphBuilder(3, (ROWS, ROWS, 8 if alone else channels))
    return b.graph(FAMILIES[family](b, "x", channels))


def work(graph: g.Graph) -> tuple[int, int, int]:
    """Micro-ops of the array, of ALU, and of ALU for constants."""
    (program,) = compile_graph(graph, CONFIG, policies=(PLANNED,)).programs
    table = columns_of(program.table())
    counts = micro_ops(table)
    array = table.opcode == Opcode.GEMM
    constant = (table.opcode == Opcode.REQUANTIZE) & (table.rounding == Rounding.CONSTANT)
    alu = np.isin(table.opcode, (Opcode.ALU, Opcode.REQUANTIZE, Opcode.RESCALE))
    return int(counts[array].sum()), int(counts[alu & ~constant].sum()), int(counts[constant].sum())


@pytest.mark.parametrize("family", FAMILIES)
def test_work_is_of_vectors_with_channels(family: str) -> None:
    one, five = work(graph_of(family, 8)), work(graph_of(family, 40))
    assert five[:2] == (5 * one[0], 5 * one[1]), "40 channels are stored in 8 vectors, 8 in 4"
    assert one[2] == five[2] > 0, "three vectors of each"
    assert_exact(graph_of(family, 8), CONFIG)
    assert_exact(graph_of(family, 40), CONFIG)


def test_the_bound_counts_the_same() -> None:
    for channels in (8, 40):
        graph = graph_of("convolution", channels)
        (bound,) = layer_bounds(graph, CONFIG)
        assert (bound.array_cycles, bound.alu_cycles) == work(graph)[:2]


def test_a_ring_has_its_empty_vectors_once() -> None:
    """Two tensors between three layers, in rings of few rows, and the output, whose rows leave one by one."""
    b = GraphBuilder(4, (96, 40, 8))
    small = CONFIG.replace(act_bytes=1 << 16)
    graph = b.graph(b.conv(b.depthwise(b.conv("x", 16)), 16, (1, 1), padding=(0, 0, 0, 0)))
    (program,) = compile_graph(graph, small, policies=(PLANNED,)).programs
    table = columns_of(program.table())
    counts = micro_ops(table)
    constant = (table.opcode == Opcode.REQUANTIZE) & (table.rounding == Rounding.CONSTANT)
    assert counts[constant].sum() < 3 * 96 * 40 * 2 // 2
    assert_exact(graph, small)


def test_parts_of_a_tensor_have_their_own() -> None:
    """Joined tensors of which the last fills no block, read as whole blocks."""
    b = GraphBuilder(5, (12, 12, 8))
    joined = b.concat(b.conv("x", 32), b.conv("x", 11), b.conv("x", 3), same=True)
    graph = b.graph(b.conv(joined, 9))
    assert_exact(graph, CONFIG)
