"""STORE and another engine in one bank of act: what the scheduler does about it, and what the estimate says of it."""

from __future__ import annotations

import random

import pytest

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, Config
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import Estimate, grouped
from tilewright.jit.cost.forms import Forms
from tilewright.jit.graph import Graph
from tilewright.jit.lower.lowering import lower
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.plan.planner import Planner
from tilewright.jit.plan.policy import EAGER, PLANNED, Policy
from tilewright.jit.programs import _Forms, _program
from tilewright.jit.schedule.banks import Banks
from tilewright.sim import simulate_timing


def bottlenecks(size: int, wide: int, narrow: int, count: int) -> Graph:
    """Blocks whose sums the next block's convolution reads, and STORE too, since they do not all stay."""
    g, x = GraphBuilder(1, (size, size, wide)), "x"
    for _ in range(count):
        y = g.conv(g.conv(x, narrow, (1, 1), padding=(0, 0, 0, 0)), narrow)
        x = g.add(x, g.conv(y, wide, (1, 1), padding=(0, 0, 0, 0)))
    return g.graph(x)


def cycles_of(graph: Graph, config: Config, policy: Policy) -> int:
    """Of the graph in groups."""
    _, _, write = _program(_Forms(graph, config), policy, config, False)
    return simulate_timing(write()[0]).cycles


def test_the_banks_of_rows_are_those_of_their_units() -> None:
    rng = random.Random(1)
    for _ in range(500):
        config = Config().replace(act_banks=rng.choice((4, 8, 16)))
        buffer = Buffer("t", 40, rng.randint(1, 40), rng.randint(1, 4), capacity=rng.randint(1, 8))
        buffer.base = rng.randrange(config.act_units - buffer.size)
        first = rng.randrange(40)
        last = rng.randrange(first, 40)
        held = range(max(first, last - buffer.capacity + 1), last + 1)
        units = {
            buffer.base + row % buffer.capacity * buffer.stride + unit for row in held for unit in range(buffer.stride)
        }
        assert set(Banks(config).of(buffer, first, last)) == {unit // config.act_bank_units for unit in units}


def test_gemm_works_elsewhere_while_store_reads_its_bank() -> None:
    graph, config = bottlenecks(28, 256, 64, 4), PRESETS["pynq-z2"]
    assert cycles_of(graph, config, PLANNED) < 0.993 * cycles_of(graph, config, EAGER)


@pytest.mark.parametrize(("name", "size"), [("pynq-z2", 28), ("zcu104", 28)])
def test_the_estimate_knows_that_gemm_waits_for_store(name: str, size: int) -> None:
    """Without it, it was 3 % too fast."""
    graph, config = bottlenecks(size, 256, 64, 4), PRESETS[name]
    found = grouped(Planner(lower(graph, config).tables, config))
    assert isinstance(found, Estimate)
    assert found.cycles == pytest.approx(cycles_of(graph, config, PLANNED), rel=0.01)


@pytest.mark.parametrize(
    ("name", "layers"), [("zcu104", ((32, 2), (24, 1), (96, 1))), ("pynq-z2", ((64, 2), (96, 1), (8, 1), (24, 2)))]
)
def test_the_estimate_cuts_constants_as_finely_as_the_compiler(name: str, layers: tuple[tuple[int, int], ...]) -> None:
    """Small networks, which wait for their first constants: without it, it was 8 % too slow."""
    g, x = GraphBuilder(3, (24, 24, 8)), "x"
    for channels, stride in layers:
        x = g.conv(x, channels, (3, 3), (stride, stride))
    graph, config = g.graph(x), PRESETS[name]
    (program,) = compile_graph(graph, config).programs
    assert Forms(graph).estimate(config).cycles == pytest.approx(simulate_timing(program).cycles, rel=0.03)
