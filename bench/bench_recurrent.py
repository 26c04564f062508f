"""What a step of an int8 LSTM takes: in LiteRT, and with all steps as one program on the accelerator.

``python bench/bench_recurrent.py [--config pynq-z2 kv260 zcu104] [--json FILE]`` measures, for LSTMs with as many
inputs as units, microseconds a step: LiteRT's CPU time on one thread, and the cycles of the program of ``bench/lstm``,
which the verifier has passed and whose results are LiteRT's, at the Config's clock: all cycles of 20 steps, the first
loads among them. ``bound``: cycles over those of what is busiest in a step: the bus, with the weights that cross it,
ALU or the array.
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

from bench.common import machine, options_of, seconds, write_json
from bench.lstm.litert import lstm_of
from bench.lstm.program import sequence
from tilewright.config import Config, load_config
from tilewright.fuzz import TfliteNet
from tilewright.isa.verifier import verify
from tilewright.runtime import interpreters
from tilewright.sim import simulate_timing

UNITS = (20, 64, 128, 176, 256, 512, 1024)
STEPS, RUNS = 20, 20


def litert_step(path: Path, x: NDArray[np.int8]) -> float:
    """Microseconds of a step of LiteRT's operator."""
    run = interpreters.load("litert", path.read_bytes(), "an LSTM", fast=True)
    return 1e6 * statistics.median(seconds(lambda: run([x]), RUNS, thread_time)) / STEPS


def on_the_chip(path: Path, config: Config, x: NDArray[np.int8], wanted: NDArray[Any]) -> dict[str, Any]:
    """Of a step on a Config: microseconds, times the bound, bytes of weights over the bus, vectors of ALU. Ends the
    bench if the program is not legal or its results are not ``wanted``."""
    lstm = lstm_of(path)
    made = sequence(lstm, STEPS, config)
    verify(made.program)
    if not np.array_equal(made.run(x[0]), wanted[0]):
        raise SystemExit(f"{config.name}: an LSTM of {lstm.units} units is not LiteRT's")
    cycles = simulate_timing(made.program).cycles / STEPS
    vectors = -(-lstm.units // config.block_out)
    blocks = 4 * vectors * 2 * -(-lstm.units // config.block_in)
    busiest = max(made.bytes_a_step / config.beat_bytes, made.vectors * vectors, blocks)
    return {
        "us": round(cycles / config.clock_mhz, 1), "cycles": round(cycles), "bound": round(cycles / busiest, 2),
        "bus_bytes": round(made.bytes_a_step), "alu_vectors": round(made.vectors * vectors),
    }  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--config", nargs="+", default=["pynq-z2", "kv260", "zcu104"])
    options = parser.parse_args()
    configs = [load_config(name) for name in options.config]
    print(f"{machine()}; microseconds a step (times the bound), the array at the clock of each Config")
    print(f"{'units':>6}{'weights':>11}{'LiteRT':>9}" + "".join(f"{c.name:>20}" for c in configs))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for units in UNITS:
            net = TfliteNet(seed=1)
            path = net.save(Path(scratch) / "lstm.tflite", [net.lstm(net.input((1, STEPS, units)), units)])
            x = np.random.default_rng(0).integers(-128, 128, (1, STEPS, units)).astype(np.int8)
            (wanted,) = interpreters.load("litert", path.read_bytes(), "an LSTM")([x])
            litert = litert_step(path, x)
            chips = {c.name: on_the_chip(path, c, x, wanted) for c in configs}
            rows.append(
                {"units": units, "weight_bytes": 8 * units * units, "litert_us": round(litert, 1), "chips": chips}
            )
            cells = "".join(f"{chip['us']} ({chip['bound']})".rjust(20) for chip in chips.values())
            print(f"{units:>6}{8 * units * units:>11,}{litert:>9.1f}{cells}", flush=True)
    write_json(options.json, {"machine": machine(), "steps": STEPS, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
