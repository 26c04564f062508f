"""What a plan costs: near the simulator, and as near its kept cycles as is stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.bench_latency_model import KEPT, Kept, estimated, summary
from tests.jit.builder import GraphBuilder
from tilewright.config import Config
from tilewright.dse.evaluate import simulated_cycles
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import SCHEDULES, estimate
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.lower.lowering import lower
from tilewright.jit.plan.policy import Policy
from tilewright.sim import simulate_timing


def mixed_network(seed: int = 5) -> Graph:
    """Patches, strides, a residual add over GEMM and ALU readers, depthwise, both pools, more than one chunk."""
    g = GraphBuilder(seed, (24, 20, 3))
    x = g.max_pool(g.conv("x", 24, (3, 3), (2, 2), (0, 0, 1, 1)), (2, 2), (1, 1))
    x = g.add(x, g.conv(g.conv(x, 40), 24))
    x = g.depthwise(x, strides=(2, 2), padding=(0, 0, 1, 1))
    x = g.conv(x, 96)
    return g.graph(g.dense(g.average_pool(x, g.shape(x)[1:3]), 30))


@pytest.mark.parametrize("policy", [SCHEDULES[1], Policy(False, 0.25, None)], ids=["wide-8", "wide-all"])
def test_a_policy_of_the_compiler_can_be_asked_for(policy: Policy) -> None:
    graph = mixed_network()
    programs = compile_graph(graph, Config(), policies=(policy,)).programs
    simulated = sum(simulate_timing(program).cycles for program in programs)
    assert estimate(lower(graph, Config()).tables, Config(), (policy,)).cycles == pytest.approx(simulated, rel=0.12)


def test_what_the_plan_cannot_hold_is_named_and_runs_in_tiles() -> None:
    """Of rows alone; compiler and explorer then have tiles."""
    g = GraphBuilder(4, (40, 40, 16))
    graph = g.graph(g.conv(g.conv("x", 80), 80))
    config = Config().replace(act_bytes=8192, wgt_bytes=65536)
    with pytest.raises(PlaceError) as error:
        estimate(lower(graph, config).tables, config)
    for said in ("op001 conv", "units of act", "there are 512 (8192 bytes)", "raise act_bytes"):
        assert said in str(error.value)
    assert simulated_cycles(graph, config) > 0


def test_spilled_tensors_are_named() -> None:
    g = GraphBuilder(7, (32, 32, 16))
    graph = g.graph(g.conv(g.conv(g.conv("x", 64), 64), 64))
    found = estimate(lower(graph, Config()).tables, Config().replace(act_bytes=16384, wgt_bytes=32768))
    assert found.spilled
    assert set(found.spilled) <= {op.output for op in graph.ops}
    assert found.busy["STORE"] > 32 * 32 * 64 // 8


def test_as_near_the_simulator_as_stated(tmp_path: Path) -> None:
    """The pairs with random networks; their simulated cycles are kept, the estimates are made here."""
    kept = Kept(KEPT, json.loads(KEPT.read_text())["seed"], fresh=False)
    pairs = [pair for pair in kept.pairs().values() if pair.network.startswith("random-")]
    found = summary(estimated(pairs, tmp_path))
    assert found["both feasible"] >= 250
    assert found["rank correlation"] >= 0.98
    assert found["median error"] <= 0.05
    assert found["only the model feasible"] + found["only the compiler feasible"] <= 0.05 * found["pairs"]
