"""The latency model beside ZigZag and SCALE-Sim on ResNet-18: time of an evaluation, error against the RTL's cycles.

``python bench/bench_explorer_peers.py [--python PATH] [--peer NAME] [--size 224] [--config pynq-z2] [--no-rtl]
[--json FILE]``. The truth is the compiled program on the Verilated RTL (minutes; ``--no-rtl`` takes the cycle
simulator's word), which must also give the simulator's outputs. All three models run one after another; times are
those of the processor. The peers get the convolutions and the dense layer, each distinct shape once
(identical layers are counted, not repeated); what they do not model, residual adds and pooling, costs Tilewright next
to nothing beside its array. Both describe a layer by itself and add layers up.

``--python`` names an interpreter that has the peers, in an environment of their own::

    python -m venv peers && peers/bin/pip install zigzag-dse==3.9.1 scalesim==3.0.0 six 'numpy<2.3'

(ZigZag imports six without asking for it; SCALE-Sim 3.0.0 fails on newer NumPy.) Without them, the model is measured
alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from bench.common import machine, options_of, write_json
from bench.resnet18 import build, images
from tilewright.config import Config, load_config
from tilewright.dse.networks import Network
from tilewright.errors import TilewrightError
from tilewright.jit.cost.estimate import estimate
from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.lower.rules import lower
from tilewright.jit.plan.network import NetworkTables
from tilewright.runtime.device import open_device
from tilewright.sim import simulate_timing
from tilewright.terminal import ProgressReporter

HERE = Path(__file__).resolve().parent
PEERS = {"ZigZag": HERE / "peer_zigzag.py", "SCALE-Sim": HERE / "peer_scalesim.py"}
_MODEL_SECONDS = 2.0


def conv_layers(graph: Graph, config: Config) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Distinct convolutions as the peers take them, and how often each is in the network, by the first one's name.

    A first layer whose input the host packs as patches is what the array sees: a 1x1 convolution over them.
    """
    distinct: dict[tuple[Any, ...], dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for node in lower(graph, config).nodes:
        if not isinstance(node, ConvNode):
            continue
        channels, kh, kw, in_channels = node.weight.shape
        entry = {
            "height": node.height, "width": node.width, "channels": channels, "in_channels": in_channels,
            "kernel": [kh, kw], "stride": node.strides[0],
        }  # fmt: skip
        first = distinct.setdefault(tuple(map(str, entry.values())), {"name": node.name, **entry})
        counts[first["name"]] += 1
    by_work = sorted(distinct.values(), key=lambda e: e["height"] * e["width"] * e["channels"] * e["in_channels"])
    return by_work, counts


def evaluation_seconds(tables: NetworkTables, config: Config) -> float:
    """Mean processor time of an estimate, once its loops are compiled."""
    estimate(tables, config)
    runs, start = 0, time.process_time()
    while time.process_time() - start < _MODEL_SECONDS:
        estimate(tables, config)
        runs += 1
    return (time.process_time() - start) / runs


def ask_peer(python: str, script: Path, config: Config, layers: list[dict[str, Any]], limit: float) -> dict[str, Any]:
    """What a peer says of the layers it finishes within ``limit`` seconds, or why it says nothing."""
    request = json.dumps({"config": config.to_dict(), "layers": layers})
    try:
        done = subprocess.run([python, str(script)], input=request, capture_output=True, text=True, timeout=limit)
        output, error = done.stdout, done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        partial = expired.stdout or b""
        output, error = partial.decode() if isinstance(partial, bytes) else partial, f"stopped after {limit:.0f} s"
    except OSError as failure:
        output, error = "", str(failure)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    reason = error.strip().splitlines()[-1] if error.strip() else None
    return {"version": lines[0]["version"] if lines else None, "layers": lines[1:], "reason": reason}


def peer_row(name: str, answer: dict[str, Any], counts: Counter[str], array: dict[str, int], truth: int) -> Any:
    """Cycles and time of the whole network, where all layers are there; else of those that are."""
    cycles = sum(counts[row["name"]] * row["cycles"] for row in answer["layers"])
    whole = len(answer["layers"]) == len(counts)
    least = sum(counts[row["name"]] * array[row["name"]] for row in answer["layers"])
    return {
        "tool": f"{name} {answer['version'] or ''}".strip(), "shapes": len(answer["layers"]), "of": len(counts),
        "cycles": round(cycles), "array_cycles": least, "error": round(cycles / truth - 1, 4) if whole else None,
        "seconds": round(sum(row["seconds"] for row in answer["layers"]), 3), "reason": answer["reason"],
        "layers": {row["name"]: round(row["cycles"]) for row in answer["layers"]},
    }  # fmt: skip


def rtl_cycles(executable: Any, config: Config, size: int) -> int:
    """Cycles of an image on the Verilated RTL. Raises :class:`TilewrightError` if the simulator gives other outputs."""
    x = images(1, size, seed=0, activations="uint8")
    on_rtl = type(executable)(executable.artifact, open_device("rtl", config), verified=True)
    (expected, _), (found, report) = executable.run(x), on_rtl.run(x)
    if not np.array_equal(expected, found):
        raise TilewrightError(f"ResNet-18 on {config.name}: the RTL's outputs are not the simulator's")
    return int(report.cycles)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All rows. Raises :class:`TilewrightError` for a Config that cannot run the network."""
    config = load_config(options.config)
    with tempfile.TemporaryDirectory() as folder, ProgressReporter() as progress:
        path = build(Path(folder) / "resnet18.onnx", options.size)
        progress.update("importing", 0, 0)
        model = import_model(path)
        assert not model.host_ops, model.host_ops
        tables = Network.of(model.graph).tables(config)
        executable = tw.compile(path, config, progress=progress.update)
        simulated = sum(simulate_timing(program).cycles for program in executable.artifact.programs)
        progress.update("Verilated RTL", 0, 0)
        truth = rtl_cycles(executable, config, options.size) if options.rtl else simulated
        found = estimate(tables, config)
        seconds = evaluation_seconds(tables, config)
        array = {layer.name: layer.array for layer in found.layers}
        rows = [{
            "tool": f"Tilewright {tw.__version__}", "cycles": found.cycles, "error": round(found.cycles / truth - 1, 4),
            "seconds": seconds, "array_cycles": sum(array.values()),
        }]  # fmt: skip
        layers, counts = conv_layers(model.graph, config)
        for name in (options.peer or PEERS) if options.python else ():
            progress.update(name, 0, 0)
            answer = ask_peer(options.python, PEERS[name], config, layers, options.seconds)
            rows.append(peer_row(name, answer, counts, array, truth))
    return {"machine": machine(), "config": config.name, "size": options.size, "simulated": simulated, "truth": truth,
            "truth_from": "rtl" if options.rtl else "sim", "rows": rows}  # fmt: skip


def main() -> int:
    """Print the table; exit code 1 if a peer that was asked said nothing, or RTL and simulator differ."""
    parser = options_of(__doc__)
    parser.add_argument("--python", help="an interpreter that has zigzag-dse and scalesim")
    parser.add_argument("--peer", action="append", choices=list(PEERS), help="only this one (may be repeated)")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--no-rtl", dest="rtl", action="store_false", help="the simulator's cycles, not the RTL's")
    parser.add_argument("--seconds", type=float, default=1500.0, help="stop a peer after this long")
    options = parser.parse_args()
    try:
        found = measure(options)
    except (TilewrightError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_json(options.json, found)
    source = "on the RTL" if found["truth_from"] == "rtl" else "on the simulator"
    print(f"ResNet-18 at {options.size} x {options.size} on {found['config']}: {found['truth']:,} cycles {source}, "
          f"{found['simulated']:,} simulated")  # fmt: skip
    print(f"{'tool':<20}{'cycles':>12}{'error':>9}{'s/evaluation':>14}{'evaluations/s':>15}")
    for row in found["rows"]:
        off = "-" if row["error"] is None else f"{row['error']:+.1%}"
        rate = 1 / row["seconds"] if row["seconds"] else 0.0
        print(f"{row['tool']:<20}{row['cycles']:>12,}{off:>9}{row['seconds']:>14.4g}{rate:>15.4g}")
        if row.get("reason"):
            print(f"    {row['shapes']} of {row['of']} shapes (array cycles {row['array_cycles']:,}): {row['reason']}")
    if not options.python:
        print("peers: not measured; --python names an interpreter that has them (see the head of this file)")
    return int(found["truth"] != found["simulated"] or any(row.get("shapes") == 0 for row in found["rows"]))


if __name__ == "__main__":
    sys.exit(main())
