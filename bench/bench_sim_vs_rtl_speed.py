"""How much faster the simulator is than the Verilated RTL on the same program, at equal cycles, one core each.

``python bench/bench_sim_vs_rtl_speed.py [--config NAME|FILE] [--models DIR] [MODEL ...]``. Both run the whole program,
values and times, on the same inputs; simulation times are worked out anew for every run. Waveforms are off and the
RTL model is built with optimisation.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import tilewright as tw
from bench.common import models, options_of
from tilewright.config import load_config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel
from tilewright.runtime.segments import segment_memories
from tilewright.sim import simulate

DEFAULT = ("resnet8_cifar10", "mobilenet_v2_imagenet")
LEAST_SECONDS = 1.0  #: fast runs are repeated until they take this long


def best(run: Callable[[], int]) -> tuple[float, int]:
    """(least seconds of a run, its cycles); run at least once after a warm-up."""
    cycles, least, spent = run(), float("inf"), 0.0
    while spent < LEAST_SECONDS:
        start = time.process_time()
        run()
        took = time.process_time() - start
        least, spent = min(least, took), spent + took
    return least, cycles


def main() -> int:
    """Print a line per network; exit code 1 if the cycles differ."""
    parser = options_of(__doc__)
    parser.add_argument("networks", nargs="*", default=list(DEFAULT))
    options = parser.parse_args()
    config = load_config(options.config)
    driver = Driver(DesignModel(design_library(config), config.dram_latency), config)
    print(f"{'network':<24}{'cycles':>12}{'sim s':>9}{'rtl s':>9}{'rtl kc/s':>10}{'sim/rtl':>9}")
    different = False
    for model in models(options.models, tuple(options.networks)):
        for program in tw.compile(str(model), config=config).artifact.programs:
            memories = segment_memories(program, 1)
            for segment, memory in zip(program.segments, memories):
                if segment.kind == "input":
                    memory[:] = np.random.default_rng(0).integers(0, 256, memory.size)
            expected, found = [m.copy() for m in memories], [m.copy() for m in memories]
            sim_s, sim_cycles = best(lambda p=program, m=expected: simulate(p, m).cycles)  # type: ignore[misc]
            rtl_s, rtl_cycles = best(
                lambda p=program, m=found: driver.run(p, m, limit=2 * cycle_bound(p)).cycles  # type: ignore[misc]
            )
            equal = sim_cycles == rtl_cycles and all(np.array_equal(a, b) for a, b in zip(expected, found))
            different |= not equal
            print(f"{model.stem:<24}{rtl_cycles:>12,}{sim_s:>9.4f}{rtl_s:>9.3f}{rtl_cycles / rtl_s / 1e3:>10,.0f}"
                  f"{rtl_s / sim_s:>8.1f}x" + ("" if equal else "  cycles or bytes differ"))  # fmt: skip
    return int(different)


if __name__ == "__main__":
    raise SystemExit(main())
