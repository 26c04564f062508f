"""The latency model: what it shares with the compiler, and how near it is to the kept cycles of the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.bench_latency_model import KEPT, Kept, estimated, summary
from tests.dse.networks import residual_network
from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, Config
from tilewright.dse import buffers as b
from tilewright.dse.arrays import config_array, network_arrays
from tilewright.dse.buffers import bind
from tilewright.dse.latency import SCHEDULES, estimate, simulated_cycles
from tilewright.dse.lowering import lowered
from tilewright.dse.plan import group_layers, window_rows
from tilewright.dse.shapes import network_shape
from tilewright.dse.tables import build
from tilewright.jit.plan.policy import Policy
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.groups import group_nodes
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower import lower
from tilewright.jit.rings import RingSizes, lag_rows
from tilewright.sim import simulate_timing

CONFIGS = [
    PRESETS["pynq-z2"], PRESETS["tiny"], PRESETS["vta-64"],
    Config().replace(name="wide", block_in=32, block_out=8, wgt_bytes=16384, prm_entries=32),
    Config().replace(name="small", act_bytes=8192, wgt_bytes=16384, acc_bytes=16384, dsp_packing=False),
]  # fmt: skip
by_name = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)


def mixed_network(seed: int = 5) -> Graph:
    """Patches, strides, a residual add over GEMM and ALU readers, depthwise, both pools, more than one chunk."""
    g = GraphBuilder(seed, (24, 20, 3))
    x = g.max_pool(g.conv("x", 24, (3, 3), (2, 2), (0, 0, 1, 1)), (2, 2), (1, 1))
    x = g.add(x, g.conv(g.conv(x, 40), 24))
    x = g.depthwise(x, strides=(2, 2), padding=(0, 0, 1, 1))
    x = g.conv(x, 96)
    return g.graph(g.dense(g.average_pool(x, g.shape(x)[1:3]), 30))


@by_name
def test_layers_are_cut_as_the_compiler_cuts_them(config: Config) -> None:
    graph = mixed_network()
    compiled = lower(graph, config)
    rows, buffers = build(network_shape(graph), config)
    assert len(rows) == len(compiled.nodes)
    for row, node in zip(rows, compiled.nodes, strict=True):
        repeats = max(1, row.groups)
        assert [(w, p) for w, p, _ in row.chunks] * repeats == [(len(c.weights), len(c.prm)) for c in node.chunks]
        # a packed window instruction takes one cycle more (docs/timing.md), which scheduling can do without
        late = config.dsp_packing * row.gemm_instructions if isinstance(node, WindowNode) else 0
        array = sum(part[1] - late for part in row.parts)
        assert node.height * array == sum(node.gemm_cycles(t) for t in node.tasks)
        assert node.height * sum(part[2] + part[3] for part in row.parts) == sum(node.alu_cycles(t) for t in node.tasks)
        assert node.height * len(row.parts) == len(node.tasks)
    sizes = sorted((buffer.rows, buffer.stride) for buffer in compiled.buffers.values())
    assert sorted((buffer.rows, buffer.row_units) for buffer in buffers) == sizes


@by_name
def test_groups_are_the_compilers(config: Config) -> None:
    graph = mixed_network()
    shape = network_shape(graph)
    compiled = lower(graph, config)
    wanted = group_nodes(RingSizes(compiled.nodes, compiled.buffers), config, 0.5)
    network, c = network_arrays(shape), config_array(config)
    nodes = lowered(shape, network, c)
    bound = bind(network, nodes, c, np.zeros(len(network.tensors), np.int64))
    window = window_rows(nodes, network.edges, bound.buffers, bound.edge_buffer, bound.windows)
    group_of = np.zeros(len(nodes), np.int64)
    count = group_layers(
        network.layers, nodes, network.edges, c, bound.buffers, bound.edge_buffer, bound.outputs, bound.readers,
        window, network.lags, 0.5, group_of,
    )  # fmt: skip
    assert count == len(wanted)
    assert group_of.tolist() == [k for k, (first, last) in enumerate(wanted) for _ in range(first, last + 1)]


def test_rows_of_a_join_are_the_compilers() -> None:
    shape = network_shape(mixed_network())
    nodes = lower(mixed_network(), Config()).nodes
    join = next(k for k, layer in enumerate(shape.layers) if len(layer.sources) == 2)
    network = network_arrays(shape)
    edge = int(np.flatnonzero(network.edges[:, 0] == join)[0])
    for first in range(join + 1):
        name = shape.layers[join].sources[0].tensor
        assert network.lags[edge, join - first] == lag_rows(name, nodes[join], 0, nodes[first:])


def test_a_tensor_of_both_engines_has_a_twin_unless_alu_reads_it_from_dram() -> None:
    shape = network_shape(residual_network())
    network, c = network_arrays(shape), config_array(Config())
    nodes = lowered(shape, network, c)
    spills = np.zeros(len(network.tensors), np.int64)
    kinds = bind(network, nodes, c, spills).buffers[:, b.B_KIND].tolist()
    assert [kinds.count(kind) for kind in (b.TWIN, b.COPY, b.PATCHES)] == [1, 0, 1]
    spills[network.names.index(shape.layers[0].output)] = b.ALU_SPILLED
    bound = bind(network, nodes, c, spills)
    copies = bound.buffers[bound.buffers[:, b.B_KIND] == b.COPY]
    assert b.TWIN not in bound.buffers[:, b.B_KIND]
    assert len(copies) == 1
    assert bound.buffers[copies[0, b.B_SOURCE], b.B_STORED] == 1


@pytest.mark.parametrize("policy", [SCHEDULES[1], Policy(False, 0.25, None)], ids=["wide-8", "wide-all"])
def test_a_policy_of_the_compiler_can_be_asked_for(policy: Policy) -> None:
    graph = mixed_network()
    programs = compile_graph(graph, Config(), policies=(policy,)).programs
    simulated = sum(simulate_timing(program).cycles for program in programs)
    assert estimate(network_shape(graph), Config(), (policy,)).cycles == pytest.approx(simulated, rel=0.12)


def test_what_the_plan_cannot_hold_is_named_and_runs_in_tiles() -> None:
    """The explorer looks at plans alone; the compiler then has its tiles."""
    g = GraphBuilder(4, (40, 40, 16))
    graph = g.graph(g.conv(g.conv("x", 80), 80))
    config = Config().replace(act_bytes=8192, wgt_bytes=65536)
    with pytest.raises(PlaceError) as error:
        estimate(network_shape(graph), config)
    for said in ("op001 conv", "units of act", "there are 512 (8192 bytes)", "raise act_bytes"):
        assert said in str(error.value)
    assert simulated_cycles(graph, config) > 0


def test_spilled_tensors_are_named() -> None:
    g = GraphBuilder(7, (32, 32, 16))
    graph = g.graph(g.conv(g.conv(g.conv("x", 64), 64), 64))
    found = estimate(network_shape(graph), Config().replace(act_bytes=16384, wgt_bytes=32768))
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
