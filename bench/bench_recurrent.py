"""What a step of an int8 LSTM costs in LiteRT, and what it would cost with its products on the accelerator.

``python bench/bench_recurrent.py [--config pynq-z2] [--json FILE]`` measures, for LSTMs with as many inputs as units:
LiteRT's whole step, the cycles of the recurrent product (four gates of a step) as a program of its own, whose weights
cross the bus at each step, and what the array alone would take if they stayed in ``wgt``; the time of this host around
a launch (what packs the state and unpacks the sums, without the driver, which ``bench_launch.py`` measures); and a cell
in NumPy: its saturating sums, products and look-ups of sigmoid and tanh in tables of 65,536 int16. Of LiteRT and the
cell it is the CPU time of one thread.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import machine, options_of, seconds, write_json
from tilewright.config import Config, load_config
from tilewright.fuzz import TfliteNet
from tilewright.runtime import interpreters

UNITS = (20, 64, 128, 180, 256, 512, 1024)
STEPS, RUNS = 25, 20


def litert_step(units: int, folder: Path) -> float:
    """Microseconds of a step of LiteRT's operator."""
    net = TfliteNet(seed=1)
    path = net.save(folder / "lstm.tflite", [net.lstm(net.input((1, STEPS, units)), units)])
    run = interpreters.load("litert", path.read_bytes(), "an LSTM", fast=True)
    x = np.random.default_rng(0).integers(-128, 128, (1, STEPS, units)).astype(np.int8)
    return 1e6 * statistics.median(seconds(lambda: run([x]), RUNS, time.thread_time)) / STEPS


def product(units: int, config: Config, folder: Path) -> tuple[int, float]:
    """(cycles of the recurrent product of a step, microseconds of the host around its launch)."""
    net = TfliteNet(seed=1)
    y = net.fully_connected(net.input((1, units)), 4 * units)
    exe = tw.compile(net.save(folder / "product.tflite", [y]), config, cache=False)
    x = np.zeros((1, units), np.int8)
    around = []
    for _ in range(RUNS + 1):
        _, report = exe.run(x)
        around.append(report.timings.pack_s + report.timings.unpack_s)
    return report.cycles, 1e6 * min(around[1:])


def cell(units: int) -> float:
    """Microseconds of a cell whose sums of gates are there as int32."""
    rng = np.random.default_rng(0)
    gates: NDArray[Any] = rng.integers(-40000, 40000, (2, 4, units)).astype(np.int32)
    memory: NDArray[Any] = rng.integers(-30000, 30000, units).astype(np.int32)
    tables = rng.integers(-32768, 32768, (2, 1 << 16)).astype(np.int32)

    def rounded(value: NDArray[Any], shift: int) -> NDArray[Any]:
        return (value + (1 << shift - 1)) >> shift

    def step() -> None:
        sums = np.clip(gates[0] + gates[1], -32768, 32767)
        entry, forget, output = tables[0].take(sums[:3] & 0xFFFF)
        fresh = tables[1].take(sums[3] & 0xFFFF)
        new = np.clip(rounded(forget * memory, 15) + rounded(entry * fresh, 19), -32768, 32767)
        hidden = rounded(output * tables[1].take(new & 0xFFFF), 15)
        np.clip(rounded(hidden * 181, 15) - 3, -128, 127).astype(np.int8)

    return 1e6 * statistics.median(seconds(step, 20 * RUNS, time.thread_time))


def main() -> int:
    """Print the table."""
    options = options_of(__doc__).parse_args()
    config = load_config(options.config)
    print(f"{machine()}; microseconds a step, the array at the {config.clock_mhz:g} MHz of {config.name}")
    print(f"{'units':>6}{'weights':>10}{'LiteRT':>9}{'product':>9}{'resident':>10}{'around':>8}{'cell':>7}")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for units in UNITS:
            cycles, around = product(units, config, Path(scratch))
            blocks = -(-units // config.block_in) * -(-4 * units // config.block_out)
            row = {
                "units": units, "weight_bytes": 4 * units * units,
                "litert_us": round(litert_step(units, Path(scratch)), 1),
                "product_us": round(cycles / config.clock_mhz, 1),
                "resident_us": round(blocks / config.clock_mhz, 1),
                "around_us": round(around, 1), "cell_us": round(cell(units), 1),
            }  # fmt: skip
            rows.append(row)
            print(
                f"{units:>6}{row['weight_bytes']:>10,}{row['litert_us']:>9}{row['product_us']:>9}"
                f"{row['resident_us']:>10}{row['around_us']:>8}{row['cell_us']:>7}",
                flush=True,
            )
    write_json(options.json, {"machine": machine(), "config": config.name, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
