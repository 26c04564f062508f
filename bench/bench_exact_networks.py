"""Well-known networks with seeded weights, on the simulator and in LiteRT: every integer compared.

``python bench/bench_exact_networks.py [--config NAME ...] [--network NAME ...] [--size SIZE] [--json FILE]`` builds the
networks of ``bench/networks`` (``small``, ``medium`` or ``full``), compiles each afresh, runs one seeded input on the
simulator and in LiteRT's reference kernels, and compares all outputs. Printed for each: the network's MACs and the
share of them on the accelerator, cycles and lower bound, differing integers, operators left to the host, processor
seconds to compile, seconds to run, and whether equality is proven for all inputs. ``lively`` are the distinct values of
the first output and the share of those at an end of the range: outputs that are all alike would be equal without saying
anything. Exit code 1 if anything differs, or an output is not lively.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import machine, write_json
from bench.networks import NETWORKS, SIZES, build, example
from tilewright.checking import reference_outputs
from tilewright.runtime.artifact import unproven

CONFIGS = ("tiny", "pynq-z2", "ultra96", "zcu104")
INPUT_SEED = 2027  #: another picture than the one that the scales were measured on


def liveliness(y: NDArray[Any], zero_point: int) -> tuple[int, float]:
    """Distinct values, and the share at the ends of int8; a zero is no saturation, wherever it lies."""
    return len(np.unique(y)), float(np.mean(((y == 127) | (y == -128)) & (y != zero_point)))


def lively(distinct: int, saturated: float, size: int) -> bool:
    """Whether equal outputs say anything: many values, few of them clipped."""
    return distinct >= min(50, size // 4) and saturated < 0.05


def measure(model: Path, macs: int, config: str, inputs: NDArray[Any], expected: list[NDArray[Any]]) -> dict[str, Any]:
    """One row: compile, run, compare."""
    start, cpu_start = time.perf_counter(), time.process_time()
    executable = tw.compile(model, config=config, cache=False)
    compile_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    start = time.perf_counter()
    results, report = executable.run(inputs)
    outputs = results if isinstance(results, list) else [results]
    differing = sum(int((y != reference).sum()) for y, reference in zip(outputs, expected, strict=True))
    host = Counter(layer["op"] for layer in report.layers if layer["place"] != "accelerator")
    distinct, saturated = liveliness(expected[0], executable.artifact.outputs[0].zero_point)
    return {
        "network": model.stem, "config": config, "macs": macs, "accelerator_share": round(report.macs / macs, 4),
        "cycles": report.cycles, "floor_cycles": report.floor_cycles, "programs": len(report.runs),
        "integers": sum(y.size for y in expected), "differing": differing,
        "host_operators": dict(host.most_common()), "compile_s": round(compile_s, 1), "compile_cpu_s": round(cpu_s, 1),
        "run_s": round(time.perf_counter() - start, 1), "proven": not unproven(executable.artifact),
        "distinct": distinct, "saturated": round(saturated, 4), "lively": lively(distinct, saturated, expected[0].size),
    }  # fmt: skip


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    host = " ".join(f"{kind}:{count}" for kind, count in row["host_operators"].items())
    equal = "all" if not row["differing"] else f"{row['differing']:,} differ"
    proven = "proven" if row["proven"] else "measured"
    print(
        f"{row['network']:<14}{row['config']:<9}{row['macs'] / 1e6:>9,.1f}{row['accelerator_share']:>8.1%}"
        f"{row['cycles']:>14,}{row['cycles'] / max(1, row['floor_cycles']):>7.2f}{row['programs']:>6}"
        f"{row['integers']:>9,} {equal:<12}{proven:<10}{row['distinct']:>4}{row['saturated']:>7.2%}"
        f"{row['compile_cpu_s']:>8.1f}{row['run_s']:>7.1f}  {host or 'nothing'}",
        flush=True,
    )


def keep(path: Path, row: dict[str, Any]) -> None:
    """Write a row to the file, in the place of what it has of the same network, config, size and seed."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [r for r in rows if any(r[k] != row[k] for k in ("size", "seed", "network", "config"))]
    names = list(NETWORKS)
    rows = sorted([*rows, row], key=lambda r: (SIZES.index(r["size"]), names.index(r["network"]), r["config"]))
    write_json(path, {"machine": machine(), "rows": rows})


def main() -> int:
    """Print the table; exit code 1 if any output differs or is not lively."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", nargs="+", default=list(CONFIGS))
    parser.add_argument("--network", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--size", choices=SIZES, default="small", help="full takes hours on tiny")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    parser.add_argument("--json", type=Path, help="rows are added to what the file holds")
    options = parser.parse_args()
    print(f"{machine()}; cycles do not depend on the machine")
    print(
        f"{'network':<14}{'config':<9}{'MMACs':>9}{'accel.':>8}{'cycles':>14}{'/bound':>7}{'progs':>6}"
        f"{'outputs':>9} {'equal':<12}{'exact':<10}{'lively':>11}{'compile':>8}{'run s':>7}  on the host"
    )
    rows = []
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        for name in options.network:
            model = Path(folder) / f"{name}.tflite"
            built = build(model, name, options.size, options.seed)
            inputs = example(built.input_shape, np.random.default_rng(INPUT_SEED))[None]
            expected = reference_outputs(model, [inputs])
            for config in options.config:
                row = measure(model, built.macs, config, inputs, expected)
                rows.append({"size": options.size, "seed": options.seed, **row})
                show(rows[-1])
                if options.json:  # after each row: a run over all takes long
                    keep(options.json, rows[-1])
    return int(any(row["differing"] or not row["lively"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
