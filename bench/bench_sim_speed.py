"""Speed of the simulator on one core: multiply-accumulates and simulated cycles per second.

``python bench/bench_sim_speed.py`` prints both, functional and timing side apart and together, for
``resnet8_cifar10`` where the real networks are found, else for a hand-made program of its shapes; ``--model FILE``
measures another network, ``--json FILE`` also writes the numbers. The peer of a ``.tflite`` is LiteRT with its
reference kernels, one thread, timed in the same run on the same network. MACs are those the array performs, whole
blocks included.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from tilewright.config import Config, load_config
from tilewright.isa.program import Program
from tilewright.sim import Functional, initial_segments, simulate_timing

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.resnet8_like import resnet8_like

ROOT = Path(__file__).resolve().parent.parent


def machine() -> str:
    """The processor's name, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def seconds(call: Callable[[], object], runs: int) -> tuple[float, float]:
    """(best, median) wall-clock seconds of a call; one run ahead to compile and warm up."""
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times), statistics.median(times)


def measure(program: Program, runs: int) -> dict[str, Any]:
    """Times of a program and what follows from them."""
    config = program.config
    segments = initial_segments(program)
    functional = Functional(program)
    counts = functional.run(segments)
    timing = simulate_timing(program)
    assert timing.fault is None, timing.fault
    macs = counts.gemm_uops * config.batch * config.block_in * config.block_out
    work, work_median = seconds(lambda: functional.run(segments), runs)
    clock, clock_median = seconds(lambda: simulate_timing(program), runs)
    return {
        "program": program.meta.get("name", "ResNet-8-like"),
        "machine": machine(), "numba": numba.__version__, "numpy": np.__version__, "config": config.name,
        "instructions": program.instruction_count, "macs": macs, "cycles": timing.cycles,
        "functional_ms": 1e3 * work, "functional_median_ms": 1e3 * work_median,
        "timing_ms": 1e3 * clock, "timing_median_ms": 1e3 * clock_median,
        "functional_gmac_per_s": macs / work / 1e9, "both_gmac_per_s": macs / (work + clock) / 1e9,
        "timing_mcycles_per_s": timing.cycles / clock / 1e6,
        "both_mcycles_per_s": timing.cycles / (work + clock) / 1e6,
    }  # fmt: skip


def compiled_programs(model: Path, config: Config) -> list[Program]:
    """The accelerator programs of a network file."""
    from tilewright.jit.compiler import compile_graph
    from tilewright.jit.importer import import_model

    graph = import_model(model).graph
    if graph is None:
        raise SystemExit(f"{model}: only part of it runs on the accelerator; measure a network that runs there whole")
    return compile_graph(graph, config).programs


def default_model() -> Path | None:
    """``resnet8_cifar10`` in the folder of real networks, if it is there."""
    folder = Path(os.environ.get("TILEWRIGHT_MODELS", ROOT.parent / "shared" / "models"))
    path = folder / "resnet8_cifar10.tflite"
    return path if path.exists() else None


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--model", type=Path, default=default_model(), help="a .tflite or .onnx network")
    parser.add_argument("--config", default="pynq-z2")
    options = parser.parse_args()
    config = load_config(options.config)
    programs = [resnet8_like(config)] if options.model is None else compiled_programs(options.model, config)
    results = [measure(program, options.runs) for program in programs]
    peer = peer_seconds(options.model, options.runs) if options.model is not None else None
    if peer is not None:
        ours = sum(result["functional_ms"] + result["timing_ms"] for result in results)
        results[0] |= {"litert_reference_ms": 1e3 * peer, "times_as_fast_as_litert_reference": 1e3 * peer / ours}
    for result in results:
        for key, value in result.items():
            print(f"{key:24} {value:.3f}" if isinstance(value, float) else f"{key:24} {value}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
