"""Estimates and cycles of small networks as they were last: ``python -m tests.jit.cost.pinned`` writes them anew.

A change of planner or cost model that is meant shows in the difference of ``pinned.json`` what it wins and loses; one
that is not meant, a constant or a comparison that slipped, fails the test. Integers have tests of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, Config
from tilewright.dse.networks import Network
from tilewright.isa.effects import slots
from tilewright.isa.program import Program
from tilewright.isa.spec import Opcode
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.tiles import AnyEstimate, TilesEstimate
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.sim import simulate_timing

KEPT = Path(__file__).with_name("pinned.json")
SMALL = {"act_bytes": 16384, "wgt_bytes": 32768}
CONFIGS: dict[str, Config] = {
    **{name: PRESETS[name] for name in ("pynq-z2", "zcu104", "kv260", "tiny")},
    "small memories": PRESETS["pynq-z2"].replace(**SMALL),
    "narrow bus": PRESETS["pynq-z2"].replace(axi_bits=32, axi_ports=1, outstanding=2, burst_beats=8, dram_latency=64),
}


def residual() -> Graph:
    """Strides, residual adds with and without a layer beside them, a pool over everything, a classifier."""
    b = GraphBuilder(1, (32, 32, 3))
    x = b.conv("x", 16)
    x = b.add(x, b.conv(b.conv(x, 16), 16))
    x = b.add(b.conv(x, 32, (1, 1), (2, 2), (0, 0, 0, 0)), b.conv(b.conv(x, 32, strides=(2, 2)), 32))
    return b.graph(b.dense(b.average_pool(x, b.shape(x)[1:3]), 10))


def separable() -> Graph:
    """Depthwise and pointwise layers, a kernel of five, a max pool."""
    b = GraphBuilder(2, (40, 24, 1))
    x = b.conv("x", 24, (5, 5), (2, 2), (2, 2, 2, 2))
    for channels, strides in ((48, (1, 1)), (64, (2, 2)), (64, (1, 1))):
        x = b.conv(b.depthwise(x, strides=strides), channels, (1, 1), padding=(0, 0, 0, 0))
    return b.graph(b.max_pool(x, (2, 2), (2, 2)))


def large() -> Graph:
    """More weights than wgt holds, more pixels than act does."""
    b = GraphBuilder(3, (14, 14, 256))
    x = b.conv("x", 256)
    x = b.add(x, b.conv(x, 256))
    return b.graph(b.conv(x, 512, strides=(2, 2)))


def wide() -> Graph:
    """Images that do not stay on the chip."""
    b = GraphBuilder(4, (96, 80, 3))
    x = b.conv("x", 32, strides=(2, 2))
    x = b.conv(b.conv(x, 64), 32, (1, 1), padding=(0, 0, 0, 0))
    return b.graph(b.transposed(x, 16, (2, 2), (2, 2), (1, 1, 1, 1)))


def odd() -> Graph:
    """Channels, rows and kernels that fill no block: 1 x 7 and 7 x 1, dilation, groups, a concatenation's worth."""
    b = GraphBuilder(5, (17, 19, 5))
    x = b.conv("x", 21, (1, 7), padding=(0, 3, 0, 3))
    x = b.conv(x, 30, (7, 1), padding=(3, 0, 3, 0))
    x = b.conv(x, 30, dilation=(2, 2), padding=(2, 2, 2, 2), groups=3)
    return b.graph(b.conv(x, 9, (3, 3), (3, 3), (1, 1, 1, 1)))


def perceptron() -> Graph:
    """Fully connected layers alone: the bus."""
    b = GraphBuilder(6, (1, 1, 640))
    x = "x"
    for units in (128, 128, 8, 128, 640):
        x = b.dense(x, units)
    return b.graph(x)


NETWORKS: tuple[Callable[[], Graph], ...] = (residual, separable, large, wide, odd, perceptron)


def found(name: str) -> dict[str, dict[str, Any]]:
    """Of a network on each Config what it is estimated to take, by engine, and the cycles of its programs."""
    network = Network.of(next(draw for draw in NETWORKS if draw.__name__ == name)())
    return {f"{name} on {config}": numbers(network, chosen) for config, chosen in CONFIGS.items()}


def numbers(network: Network, config: Config) -> dict[str, Any]:
    """Whole cycles, as estimates are sums of floats; the reason where there is no room."""
    try:
        estimate: AnyEstimate = network.estimate(config)
    except PlaceError as error:
        return {"refused": str(error)}
    programs = compile_graph(network.graph, config).programs
    return {
        "tiles": isinstance(estimate, TilesEstimate),
        "estimate": round(estimate.cycles),
        "busy": {engine: round(cycles) for engine, cycles in estimate.busy.items()},
        "array": sum(map(array_cycles, programs)),
        "cycles": [simulate_timing(program).cycles for program in programs],
    }


def array_cycles(program: Program) -> int:
    """For how long the program's instructions hold the array, by their declaration."""
    fields = program.columns()
    return int(slots(fields, program.config)[fields.opcode == Opcode.GEMM].sum())


if __name__ == "__main__":
    every = {pair: kept for draw in NETWORKS for pair, kept in found(draw.__name__).items()}
    KEPT.write_text(json.dumps(every, indent=1) + "\n")
