"""Tiles in the cost model: near the simulator, counted as the compiled program is, and there when rows are not."""

from __future__ import annotations

import pytest

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, Config
from tilewright.dse.networks import Network
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.tiles import TilesEstimate, in_tiles
from tilewright.jit.energy.actions import count_estimated, count_program
from tilewright.jit.graph import Graph
from tilewright.sim import simulate_timing

PYNQ = Config()


def large_layers() -> Graph:
    """More weights than wgt holds, more pixels than act does, a residual add."""
    b = GraphBuilder(3, (14, 14, 256))
    x = b.conv("x", 256)
    x = b.add(x, b.conv(x, 256))
    return b.graph(b.conv(x, 512, strides=(2, 2)))


@pytest.mark.parametrize(
    "config",
    [
        PYNQ,
        PYNQ.replace(act_bytes=32768, wgt_bytes=65536),
        PYNQ.replace(axi_bits=32),
        PYNQ.replace(outstanding=2, burst_beats=8, dram_latency=64),
    ],
    ids=["pynq-z2", "small memories", "narrow bus", "slow bus"],
)
def test_near_the_simulator_where_layers_are_large(config: Config) -> None:
    network = Network.of(large_layers())
    found = network.estimate(config)
    assert isinstance(found, TilesEstimate)
    simulated = sum(simulate_timing(p).cycles for p in compile_graph(network.graph, config).programs)
    assert found.cycles == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize("config", ["pynq-z2", "zcu104"])
@pytest.mark.parametrize(
    ("shape", "channels", "kernel"), [((8, 8, 64), 32, 3), ((8, 16, 64), 64, 1), ((16, 16, 32), 32, 3)]
)
def test_near_the_simulator_where_a_program_is_its_ends(
    config: str, shape: tuple[int, int, int], channels: int, kernel: int
) -> None:
    """What is loaded before the array begins, and stored once it has ended: a tenth to a quarter of a layer alone."""
    b = GraphBuilder(3, shape)
    graph = b.graph(b.conv("x", channels, (kernel, kernel), padding=(kernel // 2,) * 4))
    network, chosen = Network.of(graph), PRESETS[config]
    simulated = sum(simulate_timing(p).cycles for p in compile_graph(graph, chosen).programs)
    tiles = in_tiles(network.forms.tiles(chosen), chosen)
    assert tiles is not None
    assert tiles.cycles == pytest.approx(simulated, rel=0.08)
    assert network.estimate(chosen).cycles == pytest.approx(simulated, rel=0.05)


def test_work_and_traffic_are_those_of_the_program() -> None:
    graph = large_layers()
    found = Network.of(graph).estimate(PYNQ)
    (program,) = compile_graph(graph, PYNQ).programs
    estimated, counted = count_estimated(found), count_program(program, simulate_timing(program).cycles)
    for action in ("mac", "alu_multiply"):
        assert estimated[action] == pytest.approx(counted[action], rel=0.01)
    for action in ("wgt_write", "act_read", "prm_write"):
        assert estimated[action] == pytest.approx(counted[action], rel=0.01)
    # what still lies in act is not loaded again, which the model does not see
    assert counted["dram_byte"] < estimated["dram_byte"] < 2.5 * counted["dram_byte"]


def test_what_binds_each_chain_is_told() -> None:
    graph = large_layers()
    found = Network.of(graph).estimate(PYNQ)
    assert [layer.bound for layer in found.layers] == ["array"] * 3
    assert set(found.spilled) == {op.output for op in graph.ops if op.output not in graph.outputs} - {
        graph.ops[1].output  # the add goes on with it where it lies
    }
    assert found.busy["GEMM"] > 14 * 14 * 9 * 16 * 16


def test_what_no_rows_can_hold_runs_in_tiles() -> None:
    b = GraphBuilder(4, (40, 40, 16))
    network = Network.of(b.graph(b.conv(b.conv("x", 80), 80)))
    assert isinstance(network.estimate(Config().replace(act_bytes=8192, wgt_bytes=65536)), TilesEstimate)


def test_a_slow_bus_takes_longer_for_every_beat() -> None:
    """Bursts of 8 beats, two at a time, cover a quarter of 64 cycles of latency: a layer of weights waits for them."""
    b = GraphBuilder(5, (1, 1, 1024))
    network = Network.of(b.graph(b.conv("x", 1024, (1, 1), padding=(0, 0, 0, 0))))
    beats = 1024 * 1024 // PYNQ.beat_bytes
    slow, fast = (
        in_tiles(network.forms.tiles(c), c)
        for c in (PYNQ.replace(outstanding=n, burst_beats=8, dram_latency=64) for n in (2, 16))
    )
    assert slow is not None
    assert fast is not None
    assert slow.cycles > (64 + 8) / (2 * 8) * beats
    assert beats < fast.cycles < 1.2 * beats
