"""Speed of the simulator on one core: multiply-accumulates and simulated cycles per second.

``python bench/bench_sim_speed.py`` prints both, functional and timing side apart and together, for
``resnet8_cifar10`` where the real networks are found, else for the digits example; ``--model FILE``
measures another network, ``--json FILE`` also writes the numbers. The peer of a ``.tflite`` is LiteRT with its
reference kernels, one thread, timed in the same run on the same network; with ``--rtl`` also the Verilated RTL, without
waveforms and built with optimisation, which must give equal cycles and bytes. MACs are those the array performs, whole
blocks included.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from bench.common import DIGITS, machine, models, options_of, seconds, whole_graph, write_json
from tilewright.config import load_config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.jit.compiler import compile_graph
from tilewright.runtime.segments import segment_memories
from tilewright.sim import Functional, initial_segments, simulate, simulate_timing


def measure(program: Program, runs: int) -> dict[str, Any]:
    """Times of a program and what follows from them."""
    config = program.config
    segments = initial_segments(program)
    functional = Functional(program)
    counts = functional.run(segments)
    timing = simulate_timing(program)
    assert timing.fault is None, timing.fault
    macs = counts.gemm_uops * config.batch * config.block_in * config.block_out
    works, clocks = seconds(lambda: functional.run(segments), runs), seconds(lambda: simulate_timing(program), runs)
    (work, work_median), (clock, clock_median) = ((times[0], statistics.median(times)) for times in (works, clocks))
    return {
        "program": program.meta["name"],
        "machine": machine(), "numba": numba.__version__, "numpy": np.__version__, "config": config.name,
        "instructions": program.instruction_count, "macs": macs, "cycles": timing.cycles,
        "functional_ms": 1e3 * work, "functional_median_ms": 1e3 * work_median,
        "timing_ms": 1e3 * clock, "timing_median_ms": 1e3 * clock_median,
        "functional_gmac_per_s": macs / work / 1e9, "both_gmac_per_s": macs / (work + clock) / 1e9,
        "timing_mcycles_per_s": timing.cycles / clock / 1e6,
        "both_mcycles_per_s": timing.cycles / (work + clock) / 1e6,
    }  # fmt: skip


def rtl_rates(program: Program, runs: int) -> dict[str, Any]:
    """The same of the Verilated RTL on random inputs; ends the bench where cycles or bytes are not the simulator's."""
    config = program.config
    expected, order = segment_memories(program, 1), DramOrder(config)
    for segment, memory in zip(program.segments, expected):
        if segment.kind == "input":
            memory[:] = np.random.default_rng(0).integers(0, 256, memory.size)
    found = [order.arranged(memory) for memory in expected]
    with DesignModel(design_library(config), config.dram_latency) as model:
        driver, limit = Driver(model, config), 2 * cycle_bound(program)
        cycles = driver.run(program, found, limit=limit).cycles
        same = simulate(program, expected).cycles == cycles
        if not same or any(not np.array_equal(m, order.read(f, 0, m.size)) for m, f in zip(expected, found)):
            raise SystemExit(f"{program.meta['name']}: simulator and RTL differ in cycles or bytes")
        best = seconds(lambda: driver.run(program, found, limit=limit), runs, time.process_time)[0]
    ours = seconds(lambda: simulate(program, expected), runs, time.process_time)[0]
    return {"rtl_s": best, "rtl_kcycles_per_s": cycles / best / 1e3, "times_as_fast_as_rtl": best / ours}


def peer_seconds(model: Path, runs: int) -> float | None:
    """Best time of one inference in LiteRT's reference kernels; None for other formats or where it is missing."""
    if model.suffix != ".tflite" or importlib.util.find_spec("ai_edge_litert") is None:
        return None
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(str(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    interpreter.allocate_tensors()
    return seconds(interpreter.invoke, runs)[0]


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--model", type=Path, help="a .tflite or .onnx network")
    parser.add_argument("--rtl", type=int, default=0, metavar="RUNS", help="also time so many runs on the RTL")
    options = parser.parse_args()
    config = load_config(options.config)
    model = options.model or next(iter(models(options.models, ("resnet8_cifar10",))), DIGITS / "digits.onnx")
    programs = compile_graph(whole_graph(model), config).programs
    results = [measure(p, options.runs) | (rtl_rates(p, options.rtl) if options.rtl else {}) for p in programs]
    peer = peer_seconds(model, options.runs)
    if peer is not None:
        ours = sum(result["functional_ms"] + result["timing_ms"] for result in results)
        results[0] |= {"litert_reference_ms": 1e3 * peer, "times_as_fast_as_litert_reference": 1e3 * peer / ours}
    for result in results:
        for key, value in result.items():
            print(f"{key:24} {value:.3f}" if isinstance(value, float) else f"{key:24} {value}")
    write_json(options.json, results)


if __name__ == "__main__":
    main()
