"""What a step of an int8 LSTM, GRU or SVDF takes: in LiteRT, and with all steps as one program on the accelerator.

``python bench/bench_recurrent.py [--config pynq-z2 kv260 zcu104] [--cells LSTM --units 256 --steps 150] [--json FILE]``
measures, for cells with as many
inputs as units, microseconds a step: LiteRT's CPU time on one thread, and the cycles of the compiler's program, whose
results are LiteRT's, at the Config's clock: all cycles of 20 steps (a GRU's four, an SVDF's one), the first loads
among them. An SVDF remembers ten inputs; LiteRT has no kernel for one whose state is int8.
``bound``: cycles over those of what is busiest: the bus, with the weights that cross it, ALU or the array.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import keep_rows, machine, options_of, seconds
from bench.networks import gru
from tests.fuzz import Tensor, TfliteNet
from tilewright.checking import reference_outputs
from tilewright.runtime import interpreters

RUNS = 20
Inputs = list[NDArray[Any]]


@dataclass(frozen=True)
class Cell:
    """A kind of layer: the bytes of weights of so many units, the sizes and the number of steps that are measured, a
    network of that one layer, and whether LiteRT runs it as it is."""

    weight_bytes: Callable[[int], int]
    units: tuple[int, ...]
    steps: int
    draw: Callable[[int, int], tuple[TfliteNet, list[Tensor]]]
    in_litert: bool = True


def lstm(units: int, steps: int) -> tuple[TfliteNet, list[Tensor]]:
    """A single LSTM layer, and its hidden states."""
    net = TfliteNet(seed=1)
    return net, [net.lstm(net.input((1, steps, units)), units)]


def svdf(state: str) -> Callable[[int, int], tuple[TfliteNet, list[Tensor]]]:
    """A single SVDF layer on a batch of so many steps, with a state of this type, and its results."""

    def draw(units: int, steps: int) -> tuple[TfliteNet, list[Tensor]]:
        net = TfliteNet(seed=1)
        return net, [net.svdf(net.input((steps, units)), units, MEMORY, state=state)]

    return draw


MEMORY = 10  #: inputs that an SVDF remembers, the new one among them
SVDFS = (64, 256, 1024)
CELLS = {
    "LSTM": Cell(lambda units: 8 * units * units, (20, 64, 128, 176, 256, 512, 1024), 20, lstm),
    "GRU": Cell(lambda units: 6 * units * units, (512, 1024, 1536, 2048, 2560), 4, gru.draw),
    "SVDF": Cell(lambda units: (units + 2 * MEMORY) * units, SVDFS, 1, svdf("int16")),
    "SVDF8": Cell(lambda units: (units + MEMORY) * units, SVDFS, 1, svdf("int8"), False),
}


def litert_step(path: Path, inputs: Inputs, steps: int) -> float:
    """Microseconds of a step in LiteRT."""
    run = interpreters.load("litert", path.read_bytes(), path.stem, fast=True)
    return 1e6 * statistics.median(seconds(lambda: run(inputs), RUNS, thread_time)) / steps


def on_the_chip(path: Path, name: str, inputs: Inputs, wanted: Inputs, steps: int) -> dict[str, Any]:
    """Of a step on a Config: microseconds, times the bound, bytes read, vectors of ALU. Ends the bench if its results
    are not ``wanted``, or it is not one program on the accelerator."""
    exe = tw.compile(path, name, cache=False)
    outputs, report = exe.run([x if len(x) == 1 else x[None] for x in inputs])
    got = outputs if isinstance(outputs, list | tuple) else [outputs]
    if (
        not all((a.ravel() == b.ravel()).all() for a, b in zip(got, wanted, strict=True))
        or len(exe.artifact.programs) != 1
    ):
        raise SystemExit(f"{name}: {path.stem} is not LiteRT's, or not one program on the accelerator")
    cycles, bounds = report.cycles / steps, report.lower_bounds
    return {
        "us": round(cycles / exe.artifact.config.clock_mhz, 1), "cycles": round(cycles),
        "bound": round(report.cycles / report.lower_bound_cycles, 2),
        "bus_bytes": round(bounds["read"] * exe.artifact.config.beat_bytes / steps),
        "alu_vectors": round(bounds["alu"] / steps),
    }  # fmt: skip


def measure(name: str, cell: Cell, units: int, configs: list[str]) -> dict[str, Any]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        net, outputs = cell.draw(units, cell.steps)
        path = net.save(Path(scratch) / f"{name.lower()}{units}.tflite", outputs)
        rng = np.random.default_rng(0)
        inputs: Inputs = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in net.inputs]
        wanted = reference_outputs(path, [x[None] for x in inputs])
        return {
            "cell": name, "units": units, "steps": cell.steps, "weight_bytes": cell.weight_bytes(units),
            "litert_us": round(litert_step(path, inputs, cell.steps), 1) if cell.in_litert else None,
            "chips": {config: on_the_chip(path, config, inputs, wanted, cell.steps) for config in configs},
        }  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--config", nargs="+", default=["pynq-z2", "kv260", "zcu104"])
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--units", nargs="+", type=int, help="instead of the table's")
    parser.add_argument("--steps", type=int, help="instead of the table's")
    options = parser.parse_args()
    print(f"{machine()}; microseconds a step (times the bound), the array at the clock of each Config")
    print(f"{'cell':>5}{'units':>6}{'weights':>12}{'LiteRT':>9}" + "".join(f"{name:>20}" for name in options.config))
    rows = []
    for name in options.cells:
        cell = replace(CELLS[name], steps=options.steps or CELLS[name].steps)
        for units in options.units or cell.units:
            rows.append(row := measure(name, cell, units, options.config))
            cells = "".join(f"{chip['us']} ({chip['bound']})".rjust(20) for chip in row["chips"].values())
            print(f"{name:>5}{units:>6}{row['weight_bytes']:>12,}{row['litert_us'] or '-':>9}{cells}", flush=True)
    keep_rows(options.json, rows, ("cell", "units", "steps"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
