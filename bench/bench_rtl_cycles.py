"""Real networks on simulator and RTL: equal cycles and outputs, and where every cycle above the lower bound goes.

``python bench/bench_rtl_cycles.py [--config NAME|FILE ...] [--all] [--models DIR] [--inputs N] [--stall P]
[--brief] [--json FILE]``: the four MLPerf Tiny networks and the digits of the examples, on one config or several
(``--all``: those of :data:`CONFIGS`). The first run builds the Verilated designs. Every network also runs on a DRAM
that pauses at random (``--stall`` chances in 256 a cycle, 0 to leave that out): other cycles, the same bytes.

Exit code 1 if simulator and RTL differ in a cycle or a byte, an output is not the reference's, or a ratio to the
lower bound is above what is promised (:data:`PROMISED`).

A cycle in which the array does not work is counted under what it waited for, as in reports (``docs/reports.md``);
the array's own cycles above the lower bound, where the bus binds a layer, are negative.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from bench.common import DIGITS, MLPERF_TINY, keep_rows, models, options_of
from tilewright.checking import reference_outputs
from tilewright.config import Config, load_config
from tilewright.hw.verilated.model import Disturbance
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.report.report import Report

CAUSES = ("load", "store", "alu", "fetch", "latency")
CONFIGS = ("pynq-z2", "vta-64", "vta-256", "ultra96")  #: what ``--all`` runs
#: most cycles over the lower bound of the MLPerf Tiny networks, by config and DRAM latency; the digits network is so
#: small that loading its program, which no lower bound counts, is a quarter of its time
PROMISED = {("pynq-z2", 32): 1.25}
STALL = 48  #: chances in 256 that a channel of the disturbed DRAM pauses for a cycle


def stored(model: Path, inputs: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Inputs, and the outputs of the reference interpreter: kept beside the model, or ONNX Runtime's for digits."""
    if model.suffix == ".onnx":
        with np.load(DIGITS / "digits_test.npz") as kept:
            x = next(kept[name] for name in kept if kept[name].ndim == 4)[:inputs]
        return x, reference_outputs(model, [x])[0]
    with np.load(model.with_suffix(".npz")) as kept:
        return kept["x"][:inputs], kept["y"][:inputs]


def account(report: Report) -> dict[str, Any]:
    """Cycles above the lower bound by cause: they and the bound add up to the cycles, in total and in every layer."""
    layers = []
    for layer in report.layers:
        if "cycles_by_cause" not in layer:
            continue  # runs on the host
        causes = {cause: int(layer["cycles_by_cause"][cause]) for cause in CAUSES}
        above = int(layer["cycles"]) - int(layer["lower_bound_cycles"])
        layers.append({"name": layer["name"], "cycles": int(layer["cycles"]),
                       "lower_bound_cycles": int(layer["lower_bound_cycles"]), **causes,
                       "array": above - sum(causes.values())})  # fmt: skip
    total = {cause: sum(layer[cause] for layer in layers) for cause in CAUSES}
    total["array"] = report.cycles - report.lower_bound_cycles - sum(total.values())
    return {"total": total, "layers": layers}


def measure(model: Path, config: Config, rtl: Device, stalled: Device | None, inputs: int) -> dict[str, Any]:
    """One network on both devices, and on RTL behind a DRAM that pauses."""
    executable = tw.compile(str(model), config=config)
    on_rtl = type(executable)(executable.artifact, rtl, verified=True)
    x, expected = stored(model, inputs)
    y_sim, simulated = executable.run(x)
    y_rtl, measured = on_rtl.run(x)
    row = {
        "network": model.stem, "config": config.name, "dram_latency": config.dram_latency, "inputs": len(x),
        "sim_cycles": simulated.cycles, "rtl_cycles": measured.cycles,
        "lower_bound_cycles": measured.lower_bound_cycles,
        "ratio": round(measured.cycles / measured.lower_bound_cycles, 4),
        "promised": PROMISED.get((config.name, config.dram_latency)) if model.stem in MLPERF_TINY else None,
        "outputs_equal": bool(np.array_equal(y_sim, y_rtl)),
        "outputs_exact": bool(np.array_equal(np.asarray(y_rtl).reshape(expected.shape), expected)),
    }  # fmt: skip
    if stalled is not None:
        y_stalled, slower = type(executable)(executable.artifact, stalled, verified=True).run(x)
        row["stalled_cycles"] = slower.cycles
        row["stalled_equal"] = bool(np.array_equal(y_sim, y_stalled))
    return {**row, "account": account(measured)}


def faults(row: dict[str, Any]) -> list[str]:
    """What is wrong with a network's row; nothing, it is hoped."""
    found = []
    if row["sim_cycles"] != row["rtl_cycles"]:
        found.append(f"sim has {row['sim_cycles']:,} cycles")
    if not row["outputs_equal"]:
        found.append("outputs of sim and rtl differ")
    if not row["outputs_exact"]:
        found.append("outputs are not the reference's")
    if not row.get("stalled_equal", True):
        found.append("outputs change with the DRAM's pauses")
    if row["promised"] is not None and row["ratio"] > row["promised"]:
        found.append(f"ratio above {row['promised']}")
    return found


def print_row(row: dict[str, Any], brief: bool) -> None:
    """A network's line, and its account by cause and by layer."""
    stalled = f", paused DRAM {row['stalled_cycles']:,} cycles" if "stalled_cycles" in row else ""
    verdict = "; ".join(faults(row)) or "cycles and outputs equal, outputs exact"
    print(f"{row['config']:<9}{row['network']:<20}{row['rtl_cycles']:>9,} cycles, "
          f"bound {row['lower_bound_cycles']:>7,}, "
          f"ratio {row['ratio']:.3f}{stalled}: {verdict}", flush=True)  # fmt: skip
    if brief:
        return
    names = (*CAUSES, "array")
    print(f"    {'above the bound':<32}{'cycles':>9}{'bound':>9}" + "".join(f"{name:>9}" for name in names))
    total = {
        "name": "total",
        "cycles": row["rtl_cycles"],
        "lower_bound_cycles": row["lower_bound_cycles"],
        **row["account"]["total"],
    }
    for layer in (total, *row["account"]["layers"]):
        print(f"    {layer['name'][:31]:<32}{layer['cycles']:>9,}{layer['lower_bound_cycles']:>9,}"
              + "".join(f"{layer[name]:>9,}" for name in names))  # fmt: skip


def main() -> int:
    """Print all rows; the exit code is described above."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--config", nargs="+", default=["pynq-z2"])
    parser.add_argument("--all", action="store_true", help=f"the configs {', '.join(CONFIGS)}")
    parser.add_argument("--inputs", type=int, default=2)
    parser.add_argument("--stall", type=int, default=STALL, help="chances in 256 of a pause; 0: no such runs")
    parser.add_argument("--brief", action="store_true", help="a line per network, without the account")
    options = parser.parse_args()
    paths = [*models(options.models), DIGITS / "digits.onnx"]
    rows = []
    for name in CONFIGS if options.all else options.config:
        config = load_config(name)
        rtl = open_device("rtl", config)
        stalled = open_device("rtl", config, disturbance=Disturbance(options.stall)) if options.stall else None
        for model in paths:
            rows.append(measure(model, config, rtl, stalled, options.inputs))
            print_row(rows[-1], options.brief)
    keep_rows(options.json, rows, ("config", "network"), stall=options.stall)
    return int(any(faults(row) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
