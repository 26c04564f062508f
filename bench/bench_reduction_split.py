"""What splitting convolutions over their input channels gains, with sums that cores exchange and add up.

``python -m bench.bench_reduction_split [--config zcu104] [--cores 2 4] [MODEL ...]``. Of single layers, ``--layers`` or
those of :data:`LAYERS`: cycles on so many cores that share them by rows or by channels of the result, or by input
channels, as one launch on the simulator, without the host. Of each network the cycles of one inference, with the host
around launches, as placed for latency with parts that exchange: without sums to add up and with them.
``--blocks PIXELSxCHANNELSxLAYERS`` are dense blocks of DenseNet-121 by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.common import options_of, write_json
from bench.networks.calibrated import Calibrated
from bench.networks.densenet import GROWTH
from tilewright.config import Config, load_config
from tilewright.isa.functions import Rounding
from tilewright.isa.program import Program
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Conv2D, Graph, Requant, TensorSpec
from tilewright.jit.place.exchange import exchanged, launch_cycles
from tilewright.jit.place.execute import compile_placed, simulate_latency
from tilewright.jit.place.placed import exchanges, place_source
from tilewright.jit.place.solve import best_latency
from tilewright.jit.source import Source, open_source
from tilewright.jit.split.linked import linked
from tilewright.jit.split.steps import WAYS, Split, Way
from tilewright.runtime.steps import LaunchStep, Step

#: pixels of a side, input channels, results, kernel: shapes of DenseNet, ResNet, MobileNet, dense layers
LAYERS = (
    "7x128->32x3", "14x128->32x3", "28x128->32x3", "7x512->128x1", "7x1024->128x1", "7x512->32x1", "1x2048->32x1",
    "1x1024->64x1", "7x512->64x3", "7x960->160x1",
)  # fmt: skip


def layer(text: str) -> Graph:
    """A convolution of random weights, its padding such that the result has as many pixels. Raises ValueError."""
    found = re.fullmatch(r"(\d+)x(\d+)->(\d+)x(\d+)", text)
    if found is None:
        raise ValueError(f"{text}: must be PIXELSxCHANNELS->RESULTSxKERNEL")
    size, channels, results, kernel = map(int, found.groups())
    weight = np.random.default_rng(0).integers(-127, 128, (results, kernel, kernel, channels)).astype(np.int8)
    zero, one = np.zeros(results, np.int32), np.ones(results, np.int32)
    requant = Requant(zero, one << 30, one * 44, zero, Rounding.DOUBLE, 0)
    before, after = (kernel - 1) // 2, kernel // 2
    op = Conv2D(
        name="conv", inputs=["x"], output="y", weight=weight, requant=requant, padding=(before, before, after, after)
    )
    tensors = {
        "x": TensorSpec("x", (1, size, size, channels), "int8"), "y": TensorSpec("y", (1, size, size, results), "int8")
    }  # fmt: skip
    return Graph("layer", ["x"], ["y"], tensors, [op])


def dense_block(path: Path, size: int, channels: int, layers: int) -> None:
    """Writes layers as of DenseNet-121, of that many pixels a side, that begin with so many channels."""
    net = Calibrated(0)
    x = net.input((size, size, channels))
    for _ in range(layers):
        x = net.concatenation(x, net.conv(net.conv(x, 4 * GROWTH, 1), GROWTH, 3, like=x))
    net.save(path, [x])


def cycles_of(steps: list[Step], programs: list[Program], config: Config) -> int:
    """Of all launches, one after another."""
    launched = [step.programs for step in steps if isinstance(step, LaunchStep)]
    return sum(launch_cycles(config, [programs[number] for number in together]) for together in launched)


def layer_cycles(graph: Graph, config: Config, way: Way) -> int:
    """Cycles of a layer that all cores share; of one core where they cannot."""
    made = compile_graph(graph, config, split={graph.ops[0].name: Split(config.cores, way)})
    return cycles_of(*linked(made.steps, made.programs, [graph.tensors[n] for n in graph.outputs], config), config)


def network_rows(source: Source, config: Config) -> list[dict[str, Any]]:
    """Cycles of an inference, with the host's work around launches, without sums to add up and with them."""
    placed, rows = place_source(source, config, "latency"), []
    for reduces in (False, True):
        with exchanges(placed.costs, reduces):
            solution = best_latency(placed.costs.problem)
        made = compile_placed(source, placed, solution)
        cycles = simulate_latency(placed, solution, made.compiled.programs) - exchanged(placed.costs, made)[1]
        parts = sum(part.way == "inputs" for part in solution.parts)
        rows.append({"reduces": reduces, "cycles": cycles, "parts": parts})
    return rows


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__, config="zcu104")
    parser.add_argument("networks", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--layers", nargs="*", default=LAYERS, metavar="PIXELSxCHANNELS->RESULTSxKERNEL")
    parser.add_argument("--blocks", nargs="*", default=["7x512x8"], metavar="PIXELSxCHANNELSxLAYERS")
    options = parser.parse_args()
    config, rows = load_config(options.config), list[dict[str, Any]]()
    for text in options.layers:
        for cores in options.cores:
            found: dict[str, int] = {way: layer_cycles(layer(text), config.replace(cores=cores), way) for way in WAYS}
            rows.append({"layer": text, "cores": cores, **found})
            saved = 1 - found["inputs"] / min(found["rows"], found["channels"])
            print(f"{text:16} {cores} cores  {'  '.join(f'{w} {c:7,}' for w, c in found.items())}  {saved:+6.1%}")
    with TemporaryDirectory() as folder:
        blocks = {text: Path(folder) / f"densenet-{text}.tflite" for text in options.blocks}
        for text, path in blocks.items():
            dense_block(path, *map(int, text.split("x")))
        rows += networks([*options.networks, *blocks.values()], config, options.cores)
    write_json(options.json, rows)


def networks(paths: Sequence[Path], config: Config, several: Sequence[int]) -> list[dict[str, Any]]:
    """Measure networks, and print."""
    rows = []
    for path in paths:
        source = open_source(path)
        for cores in several:
            without, those = network_rows(source, config.replace(cores=cores))
            rows.append({"network": path.stem, "cores": cores, "without": without, "with": those})
            print(
                f"{path.stem}  {cores} cores  {without['cycles']:,} cycles, with {those['parts']} parts by input "
                f"channels {those['cycles']:,}, {1 - those['cycles'] / without['cycles']:+.1%}"
            )
    return rows


if __name__ == "__main__":
    main()
