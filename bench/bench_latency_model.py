"""The explorer's latency model against the cycle simulator, on random Configs and networks.

``python bench/bench_latency_model.py [--pairs N] [--seed S] [--seconds T] [--models DIR] [--json FILE]`` draws pairs of
a Config and a network (small random graphs, the digits example, and the real networks of ``../shared/models`` or
``TILEWRIGHT_MODELS`` where they are), estimates, compiles, simulates, and prints rank correlation and error. Pairs
that one of the two calls infeasible are counted apart.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.bench_networks import NETWORKS, ROOT, models_folder
from tests.jit.builder import GraphBuilder
from tilewright.config import KIB, Config, ConfigError
from tilewright.dse.latency import estimate, simulated_cycles
from tilewright.dse.shapes import network_shape
from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model
from tilewright.jit.kernels.base import PlaceError

#: (sizes are drawn independently; what contradicts itself is drawn again)
CHOICES: dict[str, tuple[int | bool, ...]] = {
    "block_in": (4, 8, 16, 32), "block_out": (4, 8, 16, 32), "act_bytes": tuple(KIB << k for k in range(3, 9)),
    "act_banks": (4, 8, 16), "wgt_bytes": tuple(KIB << k for k in range(4, 10)),
    "acc_bytes": tuple(KIB << k for k in range(4, 9)), "acc_banks": (2, 4, 8), "prm_entries": (32, 64, 128, 256),
    "axi_bits": (32, 64, 128), "burst_beats": (8, 16, 32), "outstanding": (2, 4, 8, 16), "dram_latency": (16, 32, 64),
    "queue_depth": (8, 32), "dsp_packing": (False, True),
}  # fmt: skip


def random_config(rng: random.Random) -> Config:
    """A legal Config."""
    while True:
        try:
            drawn = {name: rng.choice(values) for name, values in CHOICES.items()}
            return Config().replace(name="random", axi_version=4, **drawn)
        except ConfigError:
            continue


def random_graph(seed: int) -> Graph:
    """A small network: convolutions, depthwise, adds, pools and a classifier."""
    rng = random.Random(seed)
    b = GraphBuilder(seed, (rng.randint(8, 24), rng.randint(8, 24), rng.choice((3, 8, 16))), f"random-{seed}")
    x = b.conv("x", rng.choice((8, 16, 24)))
    for _ in range(rng.randint(2, 6)):
        kind = rng.choice(("conv", "point", "depthwise", "residual", "down", "pool"))
        channels = b.shape(x)[3]
        if kind == "conv":
            x = b.conv(x, rng.choice((8, 16, 32, 48)))
        elif kind == "point":
            x = b.conv(x, rng.choice((16, 32, 64)), (1, 1), padding=(0, 0, 0, 0))
        elif kind == "depthwise":
            x = b.depthwise(x)
        elif kind == "residual":
            x = b.add(x, b.conv(x, channels))
        elif b.shape(x)[1] < 4 or b.shape(x)[2] < 4:
            x = b.conv(x, 16)
        else:
            x = b.conv(x, 2 * channels, strides=(2, 2)) if kind == "down" else b.max_pool(x, (2, 2))
    x = b.average_pool(x, b.shape(x)[1:3])
    return b.graph(b.dense(x, rng.randint(2, 20)))


def real_graphs(folder: Path) -> list[Graph]:
    """The digits example and the real networks that are there."""
    paths = [ROOT / "examples" / "digits" / "digits.onnx", *(folder / f"{name}.tflite" for name in NETWORKS)]
    models = [import_model(path) for path in paths if path.exists()]
    return [model.graph for model in models if model.graph is not None]


def measure(graph: Graph, config: Config) -> dict[str, Any]:
    """One pair: cycles of both, None where infeasible, and the model's time once it is warm."""
    shape = network_shape(graph)
    row: dict[str, Any] = {"network": graph.name, "estimated": None, "simulated": None}
    start = time.perf_counter()
    try:
        row["estimated"] = estimate(shape, config).cycles
    except PlaceError as error:
        row["estimate_reason"] = str(error)
    row["seconds"] = time.perf_counter() - start
    try:
        row["simulated"] = simulated_cycles(graph, config)
    except PlaceError as error:
        row["simulate_reason"] = str(error)
    return row


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's, without ties."""
    ranks = [np.argsort(np.argsort(values)).astype(np.float64) for values in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Agreement on feasibility, rank correlation and the distribution of the relative error."""
    both = [r for r in rows if r["estimated"] and r["simulated"]]
    errors = np.array([r["estimated"] / r["simulated"] - 1 for r in both])
    return {
        "pairs": len(rows),
        "both feasible": len(both),
        "both infeasible": sum(not r["estimated"] and not r["simulated"] for r in rows),
        "only the model feasible": sum(bool(r["estimated"]) and not r["simulated"] for r in rows),
        "only the compiler feasible": sum(not r["estimated"] and bool(r["simulated"]) for r in rows),
        "rank correlation": round(rank_correlation([r["estimated"] for r in both], [r["simulated"] for r in both]), 4),
        "median error": round(float(np.median(np.abs(errors))), 4),
        "90th percentile": round(float(np.quantile(np.abs(errors), 0.9)), 4),
        "worst": round(float(np.abs(errors).max()), 4),
        "mean signed error": round(float(errors.mean()), 4),
        "model ms (median)": round(1000 * float(np.median([r["seconds"] for r in rows])), 2),
    }


def main() -> int:
    """Print the summary; exit code 1 if fewer than ten pairs could be compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=240.0, help="stop drawing after this long")
    parser.add_argument("--models", type=Path, default=models_folder())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    real = real_graphs(options.models)
    warm = random_graph(0)
    estimate(network_shape(warm), Config())  # compiles the model's loop
    rows: list[dict[str, Any]] = []
    start = time.monotonic()
    while len(rows) < options.pairs and time.monotonic() - start < options.seconds:
        graph = rng.choice(real) if real and rng.random() < 0.3 else random_graph(rng.randrange(1 << 30))
        config = random_config(rng)
        rows.append({**measure(graph, config), "config": config.to_dict()})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    found = summary(rows)
    for name, value in found.items():
        print(f"{name:<28}{value:>10}")
    return int(found["both feasible"] < 10)


if __name__ == "__main__":
    sys.exit(main())
