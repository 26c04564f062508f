"""The explorer's samplers at equal budget on the two studies of ``docs/study.md``: MLPerf Tiny, and ResNet-18.

``python bench/bench_explorer_samplers.py [--trials N] [--seeds K] [--board NAME]`` explores the default space for
latency and area (estimates alone, no simulation) and prints of each sampler the best latency and the hypervolume of
the front, over seeds: the share of the box between the ideal point and the worst feasible one that the front dominates.
The box is one for all, so that shares compare. Exit code 1 if random search has a better mean than NSGA-II of either.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.common import MLPERF_TINY, machine, models, options_of
from bench.resnet18 import build
from tilewright.config import load_config
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.networks import Network, load_networks
from tilewright.dse.points import Point
from tilewright.dse.search import Search, front
from tilewright.dse.space import make_space

OBJECTIVES = ("latency", "area")
SAMPLERS = ("random", "nsga2", "tpe")


def hypervolume(points: list[Point], worst: tuple[float, float], ideal: tuple[float, float]) -> float:
    """Share of the box that a front of two minimised objectives dominates."""
    total, level = 0.0, worst[1]
    for point in sorted(front(points, OBJECTIVES), key=lambda p: p.values["latency"]):
        latency, area = point.values["latency"], point.values["area"]
        if area < level and latency < worst[0]:
            total += (worst[0] - latency) * (level - area)
            level = area
    return total / ((worst[0] - ideal[0]) * (worst[1] - ideal[1]))


def study(name: str, networks: list[Network], board: str, trials: int, seeds: int) -> bool:
    """Print one study; whether NSGA-II is at least as good as random search in both means."""
    space = make_space(load_config(board), {})
    found: dict[str, list[list[Point]]] = {sampler: [] for sampler in SAMPLERS}
    for sampler in SAMPLERS:
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                evaluator = Evaluator(networks, board, OBJECTIVES)
                search = Search(space, evaluator, f"sqlite:///{folder}/t.db", seed, sampler)
                found[sampler].append([p for p in search.run(trials) if p.feasible])
    every = [p.values for runs in found.values() for run in runs for p in run]
    worst, ideal = (
        (pick(v["latency"] for v in every), pick(v["area"] for v in every)) for pick in (max, min)
    )  # fmt: skip
    means = {}
    for sampler, runs in found.items():
        best = [min(p.values["latency"] for p in run) for run in runs]
        volumes = [hypervolume(run, worst, ideal) for run in runs]
        means[sampler] = (float(np.mean(best)), float(np.mean(volumes)))
        print(
            f"{name:<12}{sampler:<8}{np.mean(best):>12,.1f}{min(best):>12,.1f}{max(best):>12,.1f}{np.mean(volumes):>10.4f}"
            f"{min(volumes):>9.4f}{np.mean([len(run) for run in runs]):>10.0f}",
            flush=True,
        )
    return means["nsga2"][0] <= means["random"][0] and means["nsga2"][1] >= means["random"][1]


def main() -> int:
    """Print the table; the exit code is described above."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--board", default="pynq-z2")
    options = parser.parse_args()
    print(f"{machine()}; {options.trials} trials, {options.seeds} seeds, {options.board}, latency in us")
    print(f"{'study':<12}{'sampler':<8}{'best, mean':>12}{'least':>12}{'most':>12}{'volume':>10}{'least':>9}  feasible")
    good = []
    with tempfile.TemporaryDirectory() as folder:
        resnet = Path(folder) / "resnet18.onnx"
        build(resnet)
        tiny = [n for path in models(options.models, MLPERF_TINY) for n in load_networks(path, 1.0)]
        for name, networks in (("mlperf-tiny", tiny), ("resnet-18", load_networks(resnet, 1.0))):
            if networks:
                good.append(study(name, networks, options.board, options.trials, options.seeds))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
