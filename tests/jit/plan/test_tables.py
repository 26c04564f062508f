"""The planner's tables against the nodes' tasks, one by one; what is bound; and why a network has no plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.dse.networks import residual_network
from tests.dse.test_latency import mixed_network
from tests.jit.builder import GraphBuilder
from tests.jit.plan import naive
from tilewright.config import PRESETS, Config
from tilewright.jit.graph import Graph
from tilewright.jit.lower.lowering import lower
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.buffers import bind_buffers, room_for
from tilewright.jit.plan.planner import Plan, Planner
from tilewright.jit.plan.refusal import Refusal
from tilewright.jit.plan.rings import least_rows, window_rows

CONFIGS = [
    PRESETS["pynq-z2"], PRESETS["tiny"], PRESETS["vta-64"],
    Config().replace(name="wide", block_in=32, block_out=8, wgt_bytes=16384, prm_entries=32),
    Config().replace(name="small", act_bytes=8192, wgt_bytes=16384, acc_bytes=16384, dsp_packing=False),
]  # fmt: skip
by_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)


def wide_middle() -> Graph:
    """Convolutions whose constants take several chunks, and an average pool that counts its padding."""
    g = GraphBuilder(5, (12, 11, 24))
    x = g.conv(g.conv("x", 96), 40, (3, 3), (2, 2), (1, 1, 1, 1))
    return g.graph(g.conv(g.max_pool(x, (3, 3), (2, 2)), 8, (1, 1), padding=(0, 0, 0, 0)))


def upwards() -> Graph:
    """Transposed convolutions of several geometries behind each other, one beside what it is joined with."""
    g = GraphBuilder(6, (5, 4, 24))
    x = g.transposed(g.conv("x", 20), 16, (3, 3), (2, 2), (1, 1, 2, 2))
    x = g.concat(g.requantize(x), x)
    x = g.transposed(x, 12, (4, 2), (3, 1), (-1, 0, 2, 1))
    return g.graph(g.conv(g.transposed(x, 8, (2, 2), (2, 2), (1, 1, 1, 1)), 8))


def bound(graph: Graph, config: Config) -> tuple[Lowered, Plan]:
    """A graph that streams as a whole, its nodes cut and bound."""
    lowered = lower(graph, config)
    plan = Planner(lowered.tables, config).whole()
    assert isinstance(plan, Plan)
    lowered.bind(plan)
    return lowered, plan


@by_config
@pytest.mark.parametrize("make", [mixed_network, wide_middle, residual_network, upwards])
def test_rows_and_work_are_those_of_the_tasks(make: Any, config: Config) -> None:
    lowered, plan = bound(make(), config)
    rows, network = plan.bound.buffers, plan.network
    window = window_rows(plan.nodes, network.edges, rows, plan.bound.edge_buffer)
    assert not rows[:, [b.B_GROUP, b.B_LAST_GROUP]].any()  # nothing goes through DRAM between groups
    edge = 0
    for node, row in zip(lowered.nodes, plan.nodes, strict=True):
        assert naive.open_rows(node) == row[t.N_OPEN]
        assert len(node.tasks) * row[t.N_ROWS] >= node.height
        covered = sum(task.rows * (task.hi - task.lo) for task in node.tasks)
        assert covered == node.height * row[t.N_VECTORS]
        done = [y for task in node.tasks if task.completes_row for y in range(task.row, task.last + 1)]
        assert done == list(range(node.height))
        for k, name in enumerate(node.inputs):
            assert naive.window_rows(node, k, lowered.buffers[name]) == window[edge]
            edge += 1
    assert edge == len(window)


@by_config
def test_rows_of_a_join(config: Config) -> None:
    lowered, plan = bound(mixed_network(), config)
    lowered.unbind()
    join = next(k for k, node in enumerate(lowered.nodes) if len(node.inputs) == 2)
    lags = Planner(plan.network, config).lags
    edge = int(np.flatnonzero(plan.network.edges[:, t.E_LAYER] == join)[0])
    for first in range(join + 1):
        found = naive.lag_rows(lowered.nodes[join].inputs[0], lowered.nodes[join], 0, lowered.nodes[first:])
        assert lags[edge, join - first] == found


def kinds(graph: Graph, spilled: dict[str, int]) -> tuple[list[int], Any]:
    """The kinds of buffers that a binding gives, and the buffers."""
    network = lower(graph, Config()).tables
    room, spills = room_for(network), np.zeros(len(network.tensors), np.int64)
    for name, how in spilled.items():
        spills[network.tensor_names.index(name)] = how
    count = bind_buffers(
        network.layers, network.edges, network.tensors, spills, room.buffers, room.edge_buffer, room.outputs,
        room.readers,
    )  # fmt: skip
    return room.buffers[:count, b.B_KIND].tolist(), room.buffers[:count]


def test_a_tensor_of_both_engines_has_a_duplicate_unless_alu_reads_it_from_dram() -> None:
    graph = residual_network()
    found, _ = kinds(graph, {})
    assert [found.count(kind) for kind in (b.DUPLICATE, b.COPY)] == [1, 0]
    found, rows = kinds(graph, {graph.ops[0].output: b.ALU_SPILLED})
    assert [found.count(kind) for kind in (b.DUPLICATE, b.COPY)] == [0, 1]
    copy = rows[rows[:, b.B_KIND] == b.COPY][0]
    assert rows[copy[b.B_SOURCE], b.B_STORED] == 1


def test_a_layer_that_reads_a_tensor_twice_has_one_copy_of_it() -> None:
    g = GraphBuilder(2, (8, 8, 16))
    y = g.conv("x", 16)
    found, _ = kinds(g.graph(g.conv(g.add(y, y), 8)), {y: b.SPILLED})
    assert found.count(b.COPY) == 1


def test_rings_of_a_producer_in_chunk_passes_keep_what_it_has_begun() -> None:
    g = GraphBuilder(5, (12, 12, 64))
    y = g.conv("x", 96)
    lowered, plan = bound(g.graph(g.conv(y, 8)), PRESETS["tiny"])
    begun = naive.open_rows(lowered.nodes[0])
    assert begun > 1
    assert lowered.buffers[y].capacity >= min(lowered.buffers[y].rows, begun + 2)
    assert plan.nodes[0, t.N_OPEN] == begun
    network, held = plan.network, plan.bound
    window = window_rows(plan.nodes, network.edges, held.buffers, held.edge_buffer)
    buffer = held.edge_buffer[1]
    least = least_rows(
        held.buffers[buffer], 0, 1, network.layers, plan.nodes, network.edges, held.readers, network.makers, window,
        Planner(network, PRESETS["tiny"]).lags,
    )  # fmt: skip
    assert least == min(lowered.buffers[y].rows, naive.window_rows(lowered.nodes[1], 0, lowered.buffers[y]) + begun - 1)


def test_a_refusal_names_layer_memory_and_amounts() -> None:
    g = GraphBuilder(4, (40, 40, 16))
    config = Config().replace(acc_bytes=2048, acc_banks=2)
    refusal = Planner(lower(g.graph(g.conv("x", 80)), config).tables, config).whole()
    assert isinstance(refusal, Refusal)
    assert (refusal.layer, refusal.memory, refusal.needed, refusal.there) == ("op000 conv", "acc", 40, 16)
    assert "raise acc_bytes" in str(refusal)
