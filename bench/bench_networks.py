"""Cycles of real networks against their floors, and whether every output is exact.

``python bench/bench_networks.py [--config NAME|FILE] [--models DIR] [--json FILE]`` runs each ``NAME.tflite`` of the
folder on the simulator for all inputs of ``NAME.npz`` and prints cycles, floor, their ratio, and how many outputs
equal the stored reference. The folder is ``../shared/models`` or ``TILEWRIGHT_MODELS``; without one, the digits
network of the examples is measured against ONNX Runtime's stored behaviour instead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

import numpy as np

import tilewright as tw

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ("resnet8_cifar10", "dscnn_keywords", "mobilenet_person", "autoencoder_toycar")


def models_folder() -> Path:
    """Where the real networks are looked for."""
    return Path(os.environ.get("TILEWRIGHT_MODELS", ROOT.parent / "shared" / "models"))


def measure(model: Path, inputs: Path, config: str) -> dict[str, object]:
    """One row: compile, run all inputs, compare with the stored outputs."""
    executable = tw.compile(str(model), config=config, cache=False)
    stored = np.load(inputs)
    y, report = executable.run(stored["x"])
    row = report.to_dict()
    expected = stored["y"].reshape(y.shape) if "y" in stored else None
    wrong = None if expected is None else int((y != expected).reshape(len(y), -1).any(axis=1).sum())
    return {
        "network": model.stem, "config": row["config"], "inputs": len(y), "wrong": wrong, "cycles": row["cycles"],
        "floor_cycles": row["floor_cycles"], "ratio": round(row["cycles"] / row["floor_cycles"], 3),
        "macs": row["macs"], "utilization": round(row["utilization"], 3), "compile_s": round(row["compile_s"], 2),
        "simulate_s": round(row["simulate_s"], 3),
    }  # fmt: skip


def main() -> int:
    """Print the table; exit code 1 if any output is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="pynq-z2")
    parser.add_argument("--models", type=Path, default=models_folder())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = [(options.models / f"{n}.tflite", options.models / f"{n}.npz") for n in NETWORKS]
    cases = [case for case in cases if case[0].exists() and case[1].exists()]
    if not cases:
        print(f"no networks in {options.models}; measuring the digits example")
        digits = ROOT / "examples" / "digits"
        images = np.load(digits / "digits_test.npz")
        stacked = digits / "out" / "bench_digits.npz"
        stacked.parent.mkdir(exist_ok=True)
        np.savez(stacked, x=next(images[k] for k in images if images[k].ndim == 4))
        cases = [(digits / "digits.onnx", stacked)]
    print(f"Python {platform.python_version()} on {platform.machine()}; cycles do not depend on the machine")
    print(f"{'network':<22}{'config':<10}{'cycles':>9}{'floor':>9}{'ratio':>7}{'MACs':>12}{'array':>7}  outputs")
    rows = []
    for model, inputs in cases:
        row = measure(model, inputs, options.config)
        rows.append(row)
        wrong = "not compared" if row["wrong"] is None else f"{row['inputs']} inputs, {row['wrong']} wrong"
        print(
            f"{row['network']:<22}{row['config']:<10}{row['cycles']:>9,}{row['floor_cycles']:>9,}{row['ratio']:>7}"
            f"{row['macs']:>12,}{row['utilization']:>7.1%}  {wrong}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
