"""What any design could gain: lower bounds of the MLPerf Tiny set over every array shape that a board's DSPs hold.

``python bench/bench_explorer_bound.py [--board NAME] [--config NAME|FILE] [--models DIR]``. A lower bound is what no
schedule can beat, on memories of any size (``jit/cost/lower_bound.py``): array cycles in whole blocks, and bytes over
the bus. So the cycles of a Config over the least lower bound of all shapes are the most that a search at the same
clock, weight width and bus can still gain, and no search is needed to know it.
"""

from __future__ import annotations

import platform

import numpy as np

import tilewright as tw
from bench.common import models, options_of, write_json
from tilewright.config import PARAMETERS, PRESETS, Config, ConfigError, load_config
from tilewright.dse.resources import limits, resources
from tilewright.jit.cost.lower_bound import layer_bounds, network_bound
from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model
from tilewright.jit.sides import accelerator_graphs
from tilewright.jit.simplify import simplified
from tilewright.terminal import ProgressReporter


def least_cycles(graph: Graph, config: Config) -> int:
    """Cycles that the network takes at least on arrays and bus of this shape, whatever its memories."""
    total = 0
    for whole in accelerator_graphs(graph, config):
        part = simplified(whole, config).graph
        total += network_bound(layer_bounds(part, config), config)
    return total


def shapes(base: Config, board: str) -> list[Config]:
    """Every block shape and packing whose multipliers and ALU lanes fit the board, on the base's bus."""
    blocks = PARAMETERS["block_in"].values()
    found = []
    for block_in in blocks:
        for block_out in blocks:
            for packed in (False, True):
                try:
                    config = base.replace(
                        name=f"{block_in}x{block_out}{' packed' if packed else ''}", block_in=block_in,
                        block_out=block_out, dsp_packing=packed,
                    )  # fmt: skip
                except ConfigError:
                    continue
                if resources(config).dsp <= limits(board)["dsp"]:
                    found.append(config)
    return found


def main() -> int:
    """Print the bounds of all shapes and the gain; exit code 1 if the base beats its own bound, which cannot be."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--board", default="pynq-z2", choices=[n for n in PRESETS if PRESETS[n].board == n])
    parser.add_argument("--config", help="what is to be beaten (default: the board's preset)")
    options = parser.parse_args()
    base = load_config(options.config or options.board)
    paths = models(options.models)
    if not paths:
        return 0
    graphs = [import_model(path).graph for path in paths]
    rows: dict[str, list[int]] = {}
    with ProgressReporter() as progress:
        cycles = []
        for number, model in enumerate(paths):
            progress.update("simulating", number, len(paths))
            executable = tw.compile(str(model), config=base)
            shape = (1, *executable.inputs[0].shape[1:])
            cycles.append(executable.run(np.zeros(shape, executable.inputs[0].dtype))[1].cycles)
        candidates = shapes(base, options.board)
        for number, config in enumerate(candidates):
            progress.update("lower bounds", number, len(candidates))
            rows[config.name] = [least_cycles(graph, config) for graph in graphs]
    dsp = limits(options.board)["dsp"]
    print(f"lower bounds on {options.board} ({dsp} DSP), {base.axi_bits}-bit bus; run on {platform.machine()}")
    names = [model.stem for model in paths]
    print(f"{'shape':<16}" + "".join(f"{name:>22}" for name in names) + f"{'sum':>12}")
    for shape_name, bounds in sorted(rows.items(), key=lambda item: sum(item[1])):
        print(f"{shape_name:<16}" + "".join(f"{value:>22,}" for value in bounds) + f"{sum(bounds):>12,}")
    print(f"{base.name + ', cycles':<16}" + "".join(f"{value:>22,}" for value in cycles) + f"{sum(cycles):>12,}")
    least = min(sum(bounds) for bounds in rows.values())
    gain = sum(cycles) / least
    print(f"no shape that fits takes fewer than {least:,} cycles for the set: at most {gain:.3f} times faster")
    write_json(options.json, {"bounds": rows, "cycles": dict(zip(names, cycles))})
    return int(sum(cycles) < least)


if __name__ == "__main__":
    raise SystemExit(main())
