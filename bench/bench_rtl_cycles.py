"""Real networks on simulator and RTL: equal cycles and outputs, and where every cycle above the floor goes.

``python bench/bench_rtl_cycles.py [--config NAME|FILE] [--models DIR] [--inputs N] [--json FILE]``. The first run
builds the Verilated design. A cycle in which the array does not work is counted under what it waited for, as in
reports (``docs/reports.md``); the array's own cycles above the floor, where the bus binds a layer, are negative.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tilewright as tw
from bench.bench_networks import NETWORKS, models_folder
from tilewright.config import Config, load_config
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.report import Report

CAUSES = ("load", "store", "alu", "latency")


def account(report: Report) -> dict[str, Any]:
    """Cycles above the floor by cause: they and the floor add up to the cycles, in total and in every layer."""
    layers = []
    for layer in report.layers:
        if "cycles_by_cause" not in layer:
            continue  # runs on the host
        causes = {cause: int(layer["cycles_by_cause"][cause]) for cause in CAUSES}
        above = int(layer["cycles"]) - int(layer["floor_cycles"])
        layers.append({"name": layer["name"], "cycles": int(layer["cycles"]),
                       "floor_cycles": int(layer["floor_cycles"]), **causes,
                       "array": above - sum(causes.values())})  # fmt: skip
    total = {cause: sum(layer[cause] for layer in layers) for cause in CAUSES}
    total["array"] = report.cycles - report.floor_cycles - sum(total.values())
    return {"total": total, "layers": layers}


def measure(model: Path, config: Config, rtl: Device, inputs: int) -> dict[str, Any]:
    """One network on both devices."""
    executable = tw.compile(str(model), config=config)
    on_rtl = type(executable)(executable.artifact, rtl, verified=True)
    with np.load(model.with_suffix(".npz")) as stored:
        x, expected = stored["x"][:inputs], stored["y"][:inputs]
    y_sim, simulated = executable.run(x)
    y_rtl, measured = on_rtl.run(x)
    return {
        "network": model.stem, "config": config.name, "dram_latency": config.dram_latency, "inputs": len(x),
        "sim_cycles": simulated.cycles, "rtl_cycles": measured.cycles, "floor_cycles": measured.floor_cycles,
        "ratio": round(measured.cycles / measured.floor_cycles, 4),
        "outputs_equal": bool(np.array_equal(y_sim, y_rtl)),
        "outputs_exact": bool(np.array_equal(np.asarray(y_rtl).reshape(expected.shape), expected)),
        "account": account(measured),
    }  # fmt: skip


def print_row(row: dict[str, Any]) -> None:
    """A network's line, and its account by cause and by layer."""
    same = "equal" if row["sim_cycles"] == row["rtl_cycles"] else f"sim {row['sim_cycles']:,}"
    exact = "exact" if row["outputs_exact"] else "WRONG"
    print(f"{row['network']:<22}{row['rtl_cycles']:>10,} cycles ({same}), floor {row['floor_cycles']:,}, "
          f"ratio {row['ratio']:.3f}, outputs {exact}")  # fmt: skip
    names = (*CAUSES, "array")
    print(f"    {'above the floor':<32}{'cycles':>9}{'floor':>9}" + "".join(f"{name:>9}" for name in names))
    total = {
        "name": "total",
        "cycles": row["rtl_cycles"],
        "floor_cycles": row["floor_cycles"],
        **row["account"]["total"],
    }
    for layer in (total, *row["account"]["layers"]):
        print(f"    {layer['name'][:31]:<32}{layer['cycles']:>9,}{layer['floor_cycles']:>9,}"
              + "".join(f"{layer[name]:>9,}" for name in names))  # fmt: skip


def main() -> int:
    """Print all accounts; exit code 1 if simulator and RTL differ in anything, or an output is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="pynq-z2")
    parser.add_argument("--models", type=Path, default=models_folder())
    parser.add_argument("--inputs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    config = load_config(options.config)
    models = [options.models / f"{name}.tflite" for name in NETWORKS]
    models = [model for model in models if model.exists() and model.with_suffix(".npz").exists()]
    if not models:
        print(f"no networks in {options.models}: set TILEWRIGHT_MODELS to the folder that holds them")
        return 0
    rtl = open_device("rtl", config)
    rows = []
    for model in models:
        rows.append(measure(model, config, rtl, options.inputs))
        print_row(rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(
        any(r["sim_cycles"] != r["rtl_cycles"] or not r["outputs_equal"] or not r["outputs_exact"] for r in rows)
    )


if __name__ == "__main__":
    raise SystemExit(main())
