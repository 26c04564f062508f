"""Latency and resource models against the simulator and kept synthesis reports."""

from __future__ import annotations

import pytest

from tests.dse.networks import residual_network
from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, Config
from tilewright.dse.evaluate import simulated_cycles
from tilewright.dse.resources import BOARDS, block_rams, excess, resources
from tilewright.jit.cost.estimate import estimate
from tilewright.jit.errors import PlaceError
from tilewright.jit.lower.lowering import lower


@pytest.mark.parametrize("name", ["pynq-z2", "ultra96", "tiny", "vta-64"])
def test_estimate_is_near_the_simulator(name: str) -> None:
    graph = residual_network()
    found = estimate(lower(graph, PRESETS[name]).tables, PRESETS[name])
    assert found.cycles == pytest.approx(simulated_cycles(graph, PRESETS[name]), rel=0.15)


def test_estimate_says_what_binds_each_layer() -> None:
    graph = residual_network()
    found = estimate(lower(graph, Config()).tables, Config())
    assert [layer.name for layer in found.layers] == [op.name for op in graph.ops]
    assert found.layers[1].bound == "array"
    assert found.layers[1].array == 16 * 16 * 9
    assert next(layer for layer in found.layers if "add" in layer.name).bound == "alu"
    assert found.busy["GEMM"] <= found.cycles


def test_a_wider_array_is_faster_and_a_slower_bus_is_not() -> None:
    graph = residual_network()
    narrow, wide = (estimate(lower(graph, c).tables, c).cycles for c in (PRESETS["vta-64"], Config()))
    assert wide < narrow
    slow = Config().replace(outstanding=1, burst_beats=4, dram_latency=200)
    assert estimate(lower(graph, slow).tables, slow).cycles > wide


@pytest.mark.parametrize(
    "change,message",
    [
        ({"act_bytes": 1024, "act_banks": 2}, "units of act are needed at once, there are 64"),
        ({"acc_bytes": 2048, "acc_banks": 2}, "op000 conv: a row of 40 outputs needs 40 acc units, a bank has 16"),
        ({"wgt_bytes": 1024}, "op000 conv: 9 weight blocks for one output block exceed wgt (4)"),
    ],
)
def test_infeasible_points_name_memory_layer_and_amount(change: dict[str, int], message: str) -> None:
    b = GraphBuilder(4, (40, 40, 16))
    x = b.conv("x", 80)
    graph = b.graph(b.add(x, b.conv(x, 80)))
    with pytest.raises(PlaceError) as error:
        estimate(lower(graph, Config()).tables, Config().replace(**change))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "width,depth,chunks,blocks",
    [
        (128, 512, 2, 2), (512, 512, 8, 8), (64, 2048, 1, 4), (256, 256, 4, 4), (512, 128, 8, 8), (128, 1024, 2, 4),
        (128, 2048, 4, 8), (64, 4096, 2, 8), (256, 4096, 4, 32), (32, 8192, 1, 8), (32, 1024, 1, 1),
        (1024, 1024, 16, 32), (1024, 256, 8, 15), (64, 16384, 1, 32), (128, 8192, 1, 30), (256, 64, 2, 4),
        (512, 2048, 4, 30), (32, 16384, 1, 16),
        (2048, 1024, 32, 64),
    ],
)  # fmt: skip
def test_block_ram_equals_yosys(width: int, depth: int, chunks: int, blocks: float) -> None:
    """Counts by Yosys 0.70 (synth_xilinx -family xc7) of the RTL's memory primitive."""
    assert block_rams(width, depth, chunks) == blocks


@pytest.mark.parametrize("depth,used,blocks", [(512, 34, 1), (1024, 34, 1), (2048, 34, 2), (2048, 64, 4)])
def test_block_rams_of_which_no_bit_is_read_are_not_built(depth: int, used: int, blocks: float) -> None:
    """Yosys chooses the shape for all 64 bits: 72, 36 and 18 wide; then it takes out what nothing reads."""
    assert block_rams(64, depth, 1, used) == blocks


def test_board_limits_name_what_is_missing() -> None:
    assert excess(resources(Config()), "pynq-z2") is None
    assert "DSP slices" in str(excess(resources(PRESETS["vta-256"]), "pynq-z1"))
    big = resources(Config().replace(wgt_bytes=1024 * 1024))
    assert "wgt alone takes 256" in str(excess(big, "pynq-z2"))
    assert all(excess(resources(Config()), board) is None or board == "pynq-z2" for board in BOARDS)
