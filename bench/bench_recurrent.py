"""What a step of an int8 LSTM takes: in LiteRT, and with all steps as one program on the accelerator.

``python bench/bench_recurrent.py [--config pynq-z2 kv260 zcu104] [--json FILE]`` measures, for LSTMs with as many
inputs as units, microseconds a step: LiteRT's CPU time on one thread, and the cycles of the compiler's program, whose
results are LiteRT's, at the Config's clock: all cycles of 20 steps, the first loads among them. ``bound``: cycles over
those of what is busiest: the bus, with the weights that cross it, ALU or the array.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import machine, options_of, seconds, write_json
from tilewright.fuzz import TfliteNet
from tilewright.runtime import interpreters

UNITS = (20, 64, 128, 176, 256, 512, 1024)
STEPS, RUNS = 20, 20


def litert_step(path: Path, x: NDArray[np.int8]) -> float:
    """Microseconds of a step of LiteRT's operator."""
    run = interpreters.load("litert", path.read_bytes(), "an LSTM", fast=True)
    return 1e6 * statistics.median(seconds(lambda: run([x]), RUNS, thread_time)) / STEPS


def on_the_chip(path: Path, name: str, x: NDArray[np.int8], wanted: NDArray[Any]) -> dict[str, Any]:
    """Of a step on a Config: microseconds, times the bound, bytes read, vectors of ALU. Ends the bench if its results
    are not ``wanted``, or the layer is not on the accelerator."""
    exe = tw.compile(path, name, cache=False)
    got, report = exe.run(x)
    if not np.array_equal(got, wanted) or len(exe.artifact.programs) != 1:
        raise SystemExit(f"{name}: {path.stem} is not LiteRT's, or not on the accelerator")
    cycles, floors = report.cycles / STEPS, report.floors
    return {
        "us": round(cycles / exe.artifact.config.clock_mhz, 1), "cycles": round(cycles),
        "bound": round(report.cycles / report.floor_cycles, 2),
        "bus_bytes": round(floors["read"] * exe.artifact.config.beat_bytes / STEPS),
        "alu_vectors": round(floors["alu"] / STEPS),
    }  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--config", nargs="+", default=["pynq-z2", "kv260", "zcu104"])
    options = parser.parse_args()
    print(f"{machine()}; microseconds a step (times the bound), the array at the clock of each Config")
    print(f"{'units':>6}{'weights':>11}{'LiteRT':>9}" + "".join(f"{name:>20}" for name in options.config))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for units in UNITS:
            net = TfliteNet(seed=1)
            path = net.save(Path(scratch) / f"lstm{units}.tflite", [net.lstm(net.input((1, STEPS, units)), units)])
            x = np.random.default_rng(0).integers(-128, 128, (1, STEPS, units)).astype(np.int8)
            (wanted,) = interpreters.load("litert", path.read_bytes(), "an LSTM")([x])
            litert = litert_step(path, x)
            chips = {name: on_the_chip(path, name, x, wanted) for name in options.config}
            rows.append(
                {"units": units, "weight_bytes": 8 * units * units, "litert_us": round(litert, 1), "chips": chips}
            )
            cells = "".join(f"{chip['us']} ({chip['bound']})".rjust(20) for chip in chips.values())
            print(f"{units:>6}{8 * units * units:>11,}{litert:>9.1f}{cells}", flush=True)
    write_json(options.json, {"machine": machine(), "steps": STEPS, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
