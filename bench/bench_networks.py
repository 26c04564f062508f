"""Networks on the simulator against their lower bounds and their interpreter: cycles, MACs, every integer compared.

``python bench/bench_networks.py [--config NAME|FILE ...] [--models DIR] [--json FILE]`` runs each ``NAME.tflite`` of
the folder, and of the ``zoo`` in it, for all inputs of ``NAME.npz`` (``x``, ``x1``, ... and ``y``, ``y1``, ...,
stacked); without that file, four seeded random inputs against the reference interpreter (``tilewright models fetch all
-d DIR`` gets the networks that the README quotes). Without the folder (``../shared/models`` or ``TILEWRIGHT_MODELS``)
the digits network is measured.

``--built small|medium|full [--network NAME ...] [--seed N]`` builds those of ``bench/networks`` instead, and compares
one seeded input with LiteRT's reference kernels, or ONNX Runtime (full takes some minutes on ``tiny``).

Printed for each: cycles, their ratio to the lower bound, the network's multiply-accumulates and the share of them on
the accelerator, the array's utilization, the operators that the interpreter keeps, distinct values of the first output
and the share of those at an end of the range, processor seconds to compile, seconds to run, whether equality is proven
for all inputs, and how many integers differ. Exit code 1 if any differs, or if a built network's output is not lively:
outputs that are all alike would be equal without saying anything. With ``--json``, rows are added to the file's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import DIGITS, keep_rows, machine, options_of
from bench.networks import NETWORKS, SIZES, build, example
from tilewright.checking import reference_outputs
from tilewright.runtime.artifact import placed_macs, unproven
from tilewright.runtime.random_inputs import random_inputs

INPUT_SEED = 2027  #: another picture than the one that the scales of built networks were measured on
Arrays = list[NDArray[Any]]


def numbered(data: Any, letter: str) -> Arrays:
    """The arrays ``x``, ``x1``, ``x2``, ... of an ``.npz`` in order."""
    names = [name for name in data.files if name[0] == letter and (name[1:] or "0").isdigit()]
    return [data[name] for name in sorted(names, key=lambda name: int(name[1:] or 0))]


def stored(path: Path) -> tuple[Arrays, Arrays]:
    """Inputs and outputs of an ``.npz``."""
    with np.load(path) as data:
        return numbered(data, "x"), numbered(data, "y")


def run(executable: tw.Executable, inputs: Arrays, expected: Arrays) -> tuple[Arrays, Arrays, Any]:
    """Run all inputs: outputs, the expected ones in the same shapes, and the report."""
    given = [
        x.reshape(len(x), *(t.shape[1:] if t.shape[:1] == (1,) else t.shape))
        for x, t in zip(inputs, executable.inputs, strict=True)
    ]
    y, report = executable.run(given)
    outputs = y if isinstance(y, list) else [y]
    return outputs, [e.reshape(o.shape) for e, o in zip(expected, outputs, strict=bool(expected))], report


def liveliness(y: NDArray[Any], zero_point: int) -> tuple[int, float]:
    """Distinct values, and the share at the ends of int8; a zero is no saturation, wherever it lies."""
    return len(np.unique(y)), float(np.mean(((y == 127) | (y == -128)) & (y != zero_point)))


def lively(distinct: int, saturated: float, size: int) -> bool:
    """Whether equal outputs say anything: many values, few of them clipped."""
    return distinct >= min(50, size // 4) and saturated < 0.05


def measure(model: Path, inputs: Arrays, expected: Arrays, config: str) -> dict[str, Any]:
    """One row: compile, run all inputs (random ones if none are given), compare with the expected outputs if any."""
    start, cpu_start = time.perf_counter(), time.process_time()
    executable = tw.compile(model, config=config, cache=False)
    compile_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    if not inputs:
        inputs = random_inputs(executable.inputs, INPUT_SEED, 4)
        expected = reference_outputs(model, inputs)
    start = time.perf_counter()
    outputs, expected, report = run(executable, inputs, expected)
    here, everywhere = placed_macs(executable.artifact)
    host = Counter(layer["op"] for layer in report.layers if layer["place"] != "accelerator")
    distinct, saturated = liveliness(outputs[0], executable.artifact.outputs[0].zero_point)
    pairs = zip(outputs, expected, strict=False)
    return {
        "network": model.stem, "config": executable.artifact.config.name, "inputs": len(outputs[0]),
        "cycles": report.cycles, "lower_bound_cycles": report.lower_bound_cycles,
        "ratio": round(report.cycles / max(1, report.lower_bound_cycles), 3), "macs": everywhere,
        "share": round(here / max(1, everywhere), 4), "utilization": round(report.utilization, 3),
        "programs": len(report.runs), "host_operators": dict(host.most_common()),
        "differing": sum(int((o != e).sum()) for o, e in pairs) if expected else None,
        "integers": sum(e.size for e in expected), "compile_s": round(compile_s, 2), "compile_cpu_s": round(cpu_s, 2),
        "run_s": round(time.perf_counter() - start, 2), "proven": not unproven(executable.artifact),
        "distinct": distinct, "saturated": round(saturated, 4), "lively": lively(distinct, saturated, outputs[0].size),
    }  # fmt: skip


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    host = " ".join(f"{kind}:{count}" for kind, count in row["host_operators"].items())
    equal = "not compared"
    if row["differing"] is not None:
        equal = f"{row['inputs']:,} inputs, {row['differing']:,} of {row['integers']:,} differ"
    print(
        f"{row['network']:<28}{row['config']:<9}{row['cycles']:>12,}{row['ratio']:>7.2f}{row['macs']:>14,}"
        f"{row['share']:>7.1%}{row['utilization']:>7.1%}{row['distinct']:>5}{row['saturated']:>7.2%}"
        f"{row['compile_cpu_s']:>8.1f}{row['run_s']:>7.1f}  {'proven' if row['proven'] else 'measured':<9}{equal}"
        f"; on the host: {host or 'nothing'}",
        flush=True,
    )


def found(folder: Path) -> Iterator[tuple[Path, Arrays, Arrays]]:
    """The networks of a folder with their inputs and outputs; else that of the digits example."""
    paths = [path for place in (folder, folder / "zoo") for path in sorted(place.glob("*.tflite"))]
    for path in paths:
        beside = path.with_suffix(".npz")
        yield path, *(stored(beside) if beside.exists() else ([], []))
    if not paths:
        print("no networks found; measuring the digits example")
        images = np.load(DIGITS / "digits_test.npz")
        yield DIGITS / "digits.onnx", [next(images[k] for k in images if images[k].ndim == 4)], []


def built(names: list[str], size: str, seed: int) -> Iterator[tuple[Path, Arrays, Arrays]]:
    """Networks of ``bench/networks`` with an input and the interpreter's outputs."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        for name in names:
            model, rng = Path(folder) / f"{name}{NETWORKS[name].suffix}", np.random.default_rng(INPUT_SEED)
            shape = build(model, name, size, seed).input_shape
            whole = rng.normal(size=shape).astype(np.float32) if model.suffix == ".onnx" else example(shape, rng)
            inputs = [whole[None]]
            yield model, inputs, reference_outputs(model, inputs)


def main() -> int:
    """Print the table; the exit code is described above."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--config", nargs="+", default=["pynq-z2"])
    parser.add_argument("--built", choices=SIZES, help="networks of bench/networks of this size")
    parser.add_argument(
        "--network", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), help="of the built ones"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the built networks' weights")
    options = parser.parse_args()
    print(f"{machine()}; cycles do not depend on the machine")
    print(
        f"{'network':<28}{'config':<9}{'cycles':>12}{'/bound':>7}{'MACs':>14}{'accel.':>7}{'array':>7}{'lively':>12}"
        f"{'compile':>8}{'run s':>7}  equality"
    )
    rows = []
    cases = built(options.network, options.built, options.seed) if options.built else found(options.models)
    drawn = {"size": options.built, "seed": options.seed} if options.built else {}
    for model, inputs, expected in cases:
        for config in options.config:
            rows.append({**drawn, **measure(model, inputs, expected, config)})
            show(rows[-1])
            keep_rows(options.json, rows[-1:], ("size", "seed", "network", "config"))  # a run over all takes long
    return int(any(row["differing"] or (drawn and not row["lively"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
