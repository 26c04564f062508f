"""Cycles of real networks against their lower bounds, their MACs on the accelerator, and whether every output is exact.

``python bench/bench_networks.py [--config NAME|FILE] [--models DIR] [--json FILE]`` runs each ``NAME.tflite`` of the
folder, and of the ``zoo`` in it, on the simulator for all inputs of ``NAME.npz`` (``x``, ``x1``, ... and ``y``, ``y1``,
..., stacked) and prints cycles, lower bound, their ratio, the share of the model's multiply-accumulates on the
accelerator, the operators that its interpreter keeps, and how many integers differ from the stored reference. Without
the folder (``../shared/models`` or ``TILEWRIGHT_MODELS``) the digits network of the examples is measured.
"""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import DIGITS, options_of, write_json
from tilewright.runtime.artifact import placed_macs

HEADER = (
    f"{'network':<28}{'cycles':>11}{'bound':>11}{'ratio':>7}{'MACs':>14}{'on it':>7}{'array':>7}{'kept':>6}"
    f"{'compile s':>10}  outputs"
)  # fmt: skip


def numbered(data: Any, letter: str) -> list[NDArray[Any]]:
    """The arrays ``x``, ``x1``, ``x2``, ... of an ``.npz`` in order."""
    names = [name for name in data.files if name[0] == letter and (name[1:] or "0").isdigit()]
    return [data[name] for name in sorted(names, key=lambda name: int(name[1:] or 0))]


def run_stored(executable: tw.Executable, stored: Path) -> tuple[list[NDArray[Any]], list[NDArray[Any]], Any]:
    """Run all inputs of an ``.npz``: outputs, the stored ones in the same shapes, and the report."""
    with np.load(stored) as data:
        inputs, expected = numbered(data, "x"), numbered(data, "y")
    given = [
        x.reshape(len(x), *(t.shape[1:] if t.shape[:1] == (1,) else t.shape))
        for x, t in zip(inputs, executable.inputs, strict=True)
    ]
    y, report = executable.run(given)
    outputs = y if isinstance(y, list) else [y]
    return outputs, [e.reshape(o.shape) for e, o in zip(expected, outputs, strict=bool(expected))], report


def measure(model: Path, stored: Path, config: str) -> dict[str, Any]:
    """One row: compile, run all inputs, compare with the stored outputs."""
    start = time.perf_counter()
    executable = tw.compile(str(model), config=config, cache=False)
    seconds = time.perf_counter() - start
    outputs, expected, report = run_stored(executable, stored)
    row = report.to_dict()
    here, everywhere = placed_macs(executable.artifact)
    kept = sum(entry["place"] == "interpreter" for entry in row["operators"])
    pairs = list(zip(outputs, expected, strict=False))
    return {
        "network": model.stem, "config": row["config"], "inputs": len(outputs[0]), "cycles": row["cycles"],
        "floor_cycles": row["floor_cycles"], "ratio": round(row["cycles"] / max(1, row["floor_cycles"]), 3),
        "macs": everywhere, "share": here / max(1, everywhere), "utilization": round(row["utilization"] or 0, 3),
        "operators": len(row["operators"]), "interpreter": kept,
        "differing": sum(int((o != e).sum()) for o, e in pairs) if expected else None,
        "integers": sum(e.size for e in expected), "compile_s": round(seconds, 2),
        "simulate_s": round(row["simulate_s"], 3),
    }  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    """A row of the table."""
    differing = "not compared"
    if row["differing"] is not None:
        differing = f"{row['inputs']:,} inputs, {row['differing']:,} of {row['integers']:,} differ"
    return (
        f"{row['network']:<28}{row['cycles']:>11,}{row['floor_cycles']:>11,}{row['ratio']:>7.2f}{row['macs']:>14,}"
        f"{row['share']:>7.0%}{row['utilization']:>7.1%}{row['interpreter']:>3}/{row['operators']:<3}"
        f"{row['compile_s']:>9}  {differing}"
    )


def main() -> int:
    """Print the table; exit code 1 if any output is wrong."""
    options = options_of(__doc__).parse_args()
    found = [model for folder in (options.models, options.models / "zoo") for model in sorted(folder.glob("*.tflite"))]
    cases = [(model, model.with_suffix(".npz")) for model in found if model.with_suffix(".npz").exists()]
    if not cases:
        print("no networks found; measuring the digits example")
        images = np.load(DIGITS / "digits_test.npz")
        stacked = DIGITS / "out" / "bench_digits.npz"
        stacked.parent.mkdir(exist_ok=True)
        np.savez(stacked, x=next(images[k] for k in images if images[k].ndim == 4))
        cases = [(DIGITS / "digits.onnx", stacked)]
    print(f"Python {platform.python_version()} on {platform.machine()}; cycles do not depend on the machine")
    print(f"on {options.config}; on it: MACs on the accelerator; kept: operators that the model's interpreter runs")
    print(HEADER)
    rows = []
    for model, stored in cases:
        rows.append(measure(model, stored, options.config))
        print(shown(rows[-1]), flush=True)
    write_json(options.json, rows)
    return int(any(row["differing"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
