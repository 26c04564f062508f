"""The explorer's latency model against the cycle simulator, on random Configs and networks.

``python bench/bench_latency_model.py`` estimates the kept pairs of ``bench/results/latency_accuracy.json``, whose
simulated cycles cost twenty minutes, and prints rank correlation and error. ``--pairs N`` simulates pairs until N are
kept, ``--seconds T`` stops earlier; each is written as it comes, so that a killed run goes on where it was. ``--fresh``
forgets the kept ones. Networks are small random graphs, the digits example, ResNet-18 on 64 x 64 pixels and the real
networks of ``../shared/models`` or ``TILEWRIGHT_MODELS``; kept pairs of networks that are not there are left out. Pairs
that one of the two calls infeasible are counted apart.
"""

from __future__ import annotations

import datetime
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import DIGITS as DIGITS_FOLDER
from bench.common import MLPERF_TINY, RESULTS, machine, options_of, write_json
from bench.resnet18 import build
from tests.jit.builder import GraphBuilder
from tilewright.cache import compiler_version
from tilewright.config import KIB, Config, ConfigError
from tilewright.dse.evaluate import simulated_cycles
from tilewright.dse.networks import Network
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model
from tilewright.terminal import ProgressReporter

KEPT = RESULTS / "latency_accuracy.json"

#: (sizes are drawn independently; what contradicts itself is drawn again)
CHOICES: dict[str, tuple[int | bool, ...]] = {
    "block_in": (4, 8, 16, 32), "block_out": (4, 8, 16, 32), "act_bytes": tuple(KIB << k for k in range(3, 9)),
    "act_banks": (4, 8, 16), "wgt_bytes": tuple(KIB << k for k in range(4, 10)),
    "acc_bytes": tuple(KIB << k for k in range(4, 9)), "acc_banks": (2, 4, 8), "prm_entries": (32, 64, 128, 256),
    "axi_bits": (32, 64, 128), "burst_beats": (8, 16, 32), "outstanding": (2, 4, 8, 16), "dram_latency": (16, 32, 64),
    "queue_depth": (8, 32), "dsp_packing": (False, True), "axi_version": (4,),
}  # fmt: skip
RESNET_18 = "resnet18-64"
DIGITS = "digits"
#: networks that are not random, and how many of a hundred pairs have one of them
NAMED, NAMED_SHARE = (*MLPERF_TINY, DIGITS, RESNET_18), 35


@dataclass(frozen=True)
class Pair:
    """A network by name and the values of ``CHOICES``, and what the simulator said: cycles, or the reason for none."""

    network: str
    values: tuple[int | bool, ...]
    simulated: int | None = None
    reason: str | None = None

    @property
    def config(self) -> Config:
        return Config().replace(name="random", **dict(zip(CHOICES, self.values, strict=True)))


def draw(seed: int, index: int) -> Pair:
    """The pair of this number."""
    rng = random.Random(f"{seed}/{index}")
    network = rng.choice(NAMED) if rng.randrange(100) < NAMED_SHARE else f"random-{rng.randrange(1 << 30)}"
    config = random_config(rng).to_dict()
    return Pair(network, tuple(config[name] for name in CHOICES))


def random_config(rng: random.Random) -> Config:
    """A legal Config."""
    while True:
        try:
            drawn = {name: rng.choice(values) for name, values in CHOICES.items()}
            return Config().replace(name="random", **drawn)
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


@cache
def graph_of(network: str, models: Path) -> Graph | None:
    """A network by name; None if its file is not there."""
    if network.startswith("random-"):
        return random_graph(int(network.removeprefix("random-")))
    if network == RESNET_18:
        with tempfile.TemporaryDirectory() as folder:
            return import_model(build(Path(folder) / f"{RESNET_18}.onnx", size=64)).graph
    path = DIGITS_FOLDER / "digits.onnx" if network == DIGITS else models / f"{network}.tflite"
    return import_model(path).graph if path.exists() else None


@cache
def network_of(name: str, models: Path) -> Network | None:
    """What the model needs of a network."""
    graph = graph_of(name, models)
    return None if graph is None else Network.of(graph)


def simulate(pair: Pair, models: Path) -> Pair | None:
    """The pair with the simulator's answer; None if its network is not there."""
    graph = graph_of(pair.network, models)
    if graph is None:
        return None
    try:
        return Pair(pair.network, pair.values, simulated_cycles(graph, pair.config))
    except PlaceError as error:
        return Pair(pair.network, pair.values, None, str(error))


class Kept:
    """The pairs of one seed in a file, by number."""

    def __init__(self, path: Path, seed: int, fresh: bool) -> None:
        self.path = path
        self.data: dict[str, Any] = {"seed": seed, "fields": list(CHOICES), "pairs": {}}
        if path.exists() and not fresh:
            stored = json.loads(path.read_text())
            if (stored["seed"], stored["fields"]) == (seed, list(CHOICES)):
                self.data = stored

    def pairs(self) -> dict[int, Pair]:
        """Number -> pair."""
        rows = self.data["pairs"]
        return {int(k): Pair(**{**row, "values": tuple(row["values"])}) for k, row in rows.items()}

    def add(self, number: int, pair: Pair) -> None:
        """Keep a pair; the file appears whole."""
        self.data |= {"date": datetime.date.today().isoformat(), "machine": machine(), "compiler": compiler_version()}
        self.data["pairs"][str(number)] = {k: v for k, v in asdict(pair).items() if v is not None}
        head = json.dumps({k: v for k, v in self.data.items() if k != "pairs"})[:-1]
        rows = ",\n".join(f'"{k}": {json.dumps(row)}' for k, row in self.data["pairs"].items())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(f'{head}, "pairs": {{\n{rows}\n}}}}\n')
        partial.replace(self.path)


def extend(kept: Kept, pairs: int, seconds: float, models: Path) -> None:
    """Simulate pairs that are not kept yet, up to ``pairs`` in all."""
    start = time.monotonic()
    with ProgressReporter() as progress:
        for number in range(pairs):
            if str(number) in kept.data["pairs"]:
                continue
            if time.monotonic() - start > seconds:
                return
            progress.update("simulating pairs", number, pairs)
            pair = simulate(draw(kept.data["seed"], number), models)
            if pair is not None:
                kept.add(number, pair)


def estimated(pairs: Iterable[Pair], models: Path) -> list[dict[str, Any]]:
    """Rows of pairs with the model's cycles and time, once its loops are compiled."""
    rows = []
    for pair in pairs:
        network = network_of(pair.network, models)
        if network is None:
            continue
        config = pair.config
        network.tables(config), network.forms.tiles(config)  # once for a network and a block shape
        row: dict[str, Any] = {**asdict(pair), "estimated": None}
        start = time.perf_counter()
        try:
            row["estimated"] = network.estimate(config).cycles
        except PlaceError as error:
            row["estimate_reason"] = str(error)
        row["seconds"] = time.perf_counter() - start
        rows.append(row)
    return rows


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
    parser = options_of(__doc__, config=None)
    parser.add_argument("--pairs", type=int, default=0, help="simulate until so many are kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=240.0, help="stop simulating after this long")
    parser.add_argument("--fresh", action="store_true", help="forget the kept pairs")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--worst", type=int, default=0, help="show so many pairs with the largest errors")
    options = parser.parse_args()
    kept = Kept(options.kept, options.seed, options.fresh)
    extend(kept, options.pairs, options.seconds, options.models)
    if kept.data.get("compiler", compiler_version()) != compiler_version():
        print("the kept pairs were simulated with another version of the compiler; --fresh measures again")
    pairs = kept.pairs()
    Network.of(random_graph(0)).estimate(Config())  # compiles the model's loops
    rows = estimated(pairs.values(), options.models)
    write_json(options.json, rows)
    found = summary(rows)
    for name, value in found.items():
        print(f"{name:<28}{value:>10}")
    both = [r for r in rows if r["estimated"] and r["simulated"]]
    for row in sorted(both, key=lambda r: -abs(r["estimated"] / r["simulated"] - 1))[: options.worst]:
        print(f"{row['estimated'] / row['simulated'] - 1:+.1%}", row["network"], row["values"])
    return int(found["both feasible"] < 10)


if __name__ == "__main__":
    sys.exit(main())
