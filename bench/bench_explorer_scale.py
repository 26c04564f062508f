"""What a sweep costs beside its evaluations, the speed-up on this machine's workers, and the outlook for a cluster.

``python -m bench.bench_explorer_scale [--trials N] [--points N] [--workers N] [--models DIR] [--json FILE]`` measures
proposals, database, messages and evaluations; runs the same points in one process and on workers, by both fidelities;
compares that with what ``bench/cluster_model.py`` predicts of it, and prints the model's outlook up to 1,000 workers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.bench_networks import ROOT, models_folder
from bench.cluster_model import Costs, Outlook, Work, halves, simulate, table
from bench.explorer_costs import Asleep, evaluator, measure_database, measure_messages, measure_proposals, random_points
from bench.spawned import spawned_scheduler
from tilewright.config import PRESETS
from tilewright.dse.cluster import Cluster
from tilewright.dse.evaluation import ANALYTICAL, SIMULATOR, Task
from tilewright.dse.space import make_space
from tilewright.dse.workers import InProcess, Result, Workers, chunk_size, make_pool

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
#: what a network adds to a message one way, where the two ends are different machines
NETWORK_LATENCY = 0.0005
#: Yosys on a Config of ordinary size, from the reports in hw/reports
SYNTHESIS_SECONDS = statistics.median(
    json.loads(path.read_text())["seconds"] for path in (ROOT / "hw" / "reports").glob("*.json")
)


def best_of(repeats: int, run: Callable[[], float]) -> float:
    """The least disturbed of some runs."""
    return min(run() for _ in range(repeats))


def outcomes(results: Iterator[list[Result]]) -> dict[int, dict[str, Any]]:
    """All outcomes by index, in the order of the points."""
    return dict(sorted(result for ready in results for result in ready))


def timed(pool: InProcess | Workers, task: Task, fidelity: str, points: list[Any], batch: int) -> float:
    """Seconds to evaluate points round by round."""
    started = time.perf_counter()
    for first in range(0, len(points), batch):
        list(pool.evaluate(task, fidelity, points[first : first + batch]))
    return time.perf_counter() - started


def main() -> int:
    """Print all tables; exit code 1 if outcomes on workers differ from those in one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--points", type=int, default=256, help="points to evaluate for the speed-up")
    parser.add_argument("--simulations", type=int, default=8, help="points to simulate for the speed-up")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--models", type=Path, default=models_folder())
    parser.add_argument("--storage", help="URL of another database to measure, beside SQLite")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    space = make_space(PRESETS["pynq-z2"])
    task = Task(evaluator(options.models), space)
    points = random_points(space, options.points)
    found: dict[str, Any] = {"networks": [n.name for n in task.evaluator.networks]}
    print("networks:", ", ".join(found["networks"]), flush=True)

    found["proposals"] = {
        f"{sampler}, batch {batch}": measure_proposals(space, sampler, options.trials if batch == 32 else 4096, batch)
        for sampler, batch in (("random", 32), ("nsga2", 32), ("nsga2", 1024), ("tpe", 32))
    }
    show("proposals, CPU ms per point", found["proposals"])
    with tempfile.TemporaryDirectory() as scratch:
        found["database"] = {"sqlite": measure_database(f"sqlite:///{scratch}/bench.db")}
        if options.storage:
            found["database"]["other"] = measure_database(options.storage)
    show("database, ms", found["database"])

    same = speed_up(options.workers, task, points, options.simulations, found)
    outlook(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if same else 1


def speed_up(workers: int, task: Task, points: list[Any], simulations: int, found: dict[str, Any]) -> bool:
    """Measure evaluations here and on workers; whether outcomes are equal."""
    here, nothing = InProcess(), Task(Asleep(task.evaluator, 0.0), task.space)
    expected = outcomes(here.evaluate(task, ANALYTICAL, points))
    simulated = [p for n, p in enumerate(points) if not expected[n].get("reason")][:simulations]
    each = here.seconds[8:]  # the first ones load compiled kernels
    found["analytical"] = {"seconds": statistics.mean(each), "spread": statistics.stdev(each) / statistics.mean(each)}
    found["bytes"] = {
        "task, to each worker once": len(pickle.dumps(task, protocol=5)),
        "a point, to a worker": len(pickle.dumps(points, protocol=5)) / len(points),
        "its outcome, from a worker": len(pickle.dumps(list(expected.values()), protocol=5)) / len(points),
    }  # fmt: skip
    print("bytes (pickled):", {k: round(v) for k, v in found["bytes"].items()}, flush=True)
    found["measured"], same = {}, True
    both = ((ANALYTICAL, points), (SIMULATOR, simulated))
    alone = {
        fidelity: best_of(3 if fidelity == ANALYTICAL else 1, partial(timed, here, task, fidelity, p, len(p)))
        for fidelity, p in both
    }
    found["simulator"] = {"seconds": alone[SIMULATOR] / max(1, len(simulated)), "spread": 0.5}
    for count in sorted({1, workers}):
        with make_pool(count) as pool:
            started = time.perf_counter()
            cluster = pool._start()
            begun = time.perf_counter() - started
            found.setdefault("start", {})[count] = begun
            same &= outcomes(pool.evaluate(task, ANALYTICAL, points)) == expected  # and kernels are loaded
            if count == 1:
                found["messages"] = {"local": measure_messages(cluster, nothing, points)}
                show("messages, ms per chunk", found["messages"])
            for fidelity, p, batch in (
                (ANALYTICAL, points, 32),
                (ANALYTICAL, points, 256),
                (SIMULATOR, simulated, len(simulated)),
            ):
                run = partial(timed, pool, task, fidelity, p, batch)
                took = best_of(3 if fidelity == ANALYTICAL else 1, run)
                name = f"{fidelity}, {batch} at a time"
                found["measured"].setdefault(name, {"in process": alone[fidelity], "points": len(p)})[str(count)] = took
    sleeping(task, points, found)
    compare(found)
    return same


def sleeping(task: Task, points: list[Any], found: dict[str, Any]) -> None:
    """Workers that sleep, behind a scheduler in a process of its own: what messages cost, without a core for each."""
    found["sleeping"] = []
    for threads in (64, 2, 1):
        with spawned_scheduler(threads) as address:
            cluster = Cluster(0, address)
            if threads == 64:
                nothing = Task(Asleep(task.evaluator, 0.0), task.space)
                found["messages"]["apart"] = measure_messages(cluster, nothing, points)
                show("messages, ms per chunk", found["messages"])
            for pause, size in ((0.01, 5), (1.0, 1)):
                asleep = Task(Asleep(task.evaluator, pause), task.space)
                many = (points * 64)[: 4 * threads * size]
                list(cluster.evaluate(asleep, ANALYTICAL, many, size))
                started = time.perf_counter()
                list(cluster.evaluate(asleep, ANALYTICAL, many, size))
                found["sleeping"].append(
                    {"workers": threads, "pause": pause * size, "chunks": len(many) // size,
                     "seconds": time.perf_counter() - started}
                )  # fmt: skip
            cluster.close()


def costs(found: Mapping[str, Any], sampler: str, database: str, apart: bool) -> Costs:
    """The simulation's inputs, from what was measured."""
    messages = found["messages"]["apart" if apart else "local"]
    kept, asked = found["database"][database], found["proposals"][sampler]
    # with local workers one process is driver and scheduler; what it takes cannot be told apart
    busy = messages["driver"] + (messages["scheduler"] if apart else 0.0)
    return Costs(
        propose=asked["propose"], learn=asked["learn"], send=messages["driver"] / 2, receive=messages["driver"] / 2,
        schedule=messages["scheduler"] if apart else 0.0, commit=kept["commit"], keep=kept["keep"],
        latency=max(0.0, messages["round trip"] - busy) / 4 + (NETWORK_LATENCY if apart else 0.0), shared=not apart,
    )  # fmt: skip


def compare(found: dict[str, Any]) -> None:
    """What the simulation says of the runs that were measured."""
    free: dict[str, Any] = dict.fromkeys(("propose", "learn", "commit", "keep"), 0.0)  # the runs only evaluate
    base = costs(found, "random, batch 32", "sqlite", False)
    local = dataclasses.replace(base, **free)
    rows = {}
    for name, run in found["measured"].items():
        fidelity, batch = name.split(",")[0], int(name.split()[1])
        rounds = tuple(min(batch, run["points"] - first) for first in range(0, run["points"], batch))
        # the points are the same: their mean is known, and with few points a spread would be a guess
        work = Work(run["in process"] / run["points"], 0.0, rounds, fidelity == ANALYTICAL)
        for count in (k for k in run if k.isdigit()):
            predicted = simulate(local, work, int(count)).seconds
            rows[f"{name}, {count} workers"] = {
                "in process s": run["in process"], "measured s": run[count], "predicted s": predicted,
                "speed-up": run["in process"] / run[count], "predicted": run["in process"] / predicted,
            }  # fmt: skip
    apart = dataclasses.replace(costs(found, "random, batch 32", "sqlite", True), **free)
    for run in found["sleeping"]:
        alone = run["chunks"] * run["pause"]
        predicted = simulate(apart, Work(run["pause"], 0.0, (run["chunks"],), False), run["workers"]).seconds
        rows[f"asleep {run['pause']:g} s, {run['workers']} workers"] = {
            "in process s": alone, "measured s": run["seconds"], "predicted s": predicted,
            "speed-up": alone / run["seconds"], "predicted": alone / predicted,
        }  # fmt: skip
    found["compared"] = rows
    show("speed-up, measured and predicted", rows, 1.0)


def outlook(found: dict[str, Any]) -> None:
    """The tables up to 1,000 workers."""
    database = "other" if "other" in found["database"] else "sqlite"
    analytical, simulator = found["analytical"], found["simulator"]
    cases: dict[str, tuple[Costs, Callable[[int], Work]]] = {
        "analytical, nsga2, batch 32": (
            costs(found, "nsga2, batch 32", database, True),
            lambda n: Work(analytical["seconds"], analytical["spread"], (32,) * 64),
        ),
        "analytical, nsga2, batch 1024": (
            costs(found, "nsga2, batch 1024", database, True),
            lambda n: Work(analytical["seconds"], analytical["spread"], (1024,) * 8),
        ),
        "simulator, front of 1,000 points": (
            costs(found, "nsga2, batch 1024", database, True),
            lambda n: Work(simulator["seconds"], simulator["spread"], halves(1000), False),
        ),
        "simulator, 20,000 points": (
            costs(found, "nsga2, batch 1024", database, True),
            lambda n: Work(simulator["seconds"], simulator["spread"], (20_000,), False),
        ),
        "synthesis, front of 1,000 points": (
            costs(found, "nsga2, batch 1024", database, True),
            lambda n: Work(SYNTHESIS_SECONDS, 0.5, halves(1000), False),
        ),
    }
    found["outlook"] = {}
    for name, (cost, work) in cases.items():
        outlooks: list[Outlook] = [simulate(cost, work(n), n) for n in WORKERS]
        found["outlook"][name] = [dataclasses.asdict(o) for o in outlooks]
        first = work(1)
        size = chunk_size(first.rounds[0], 1, first.seconds) if first.chunked else 1
        print(f"\n{name} ({first.seconds:.3g} s a point, chunks of at most {size})\n{table(outlooks)}", flush=True)


def show(title: str, rows: Mapping[str, Mapping[str, float]], scale: float = 1000.0) -> None:
    """A table; times in ms unless ``scale`` says otherwise."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    width = max(len(r) for r in rows) + 2
    print(f"\n{title}\n{'':<{width}}" + "".join(f"{n:>{max(13, len(n) + 2)}}" for n in names))
    for row, values in rows.items():
        cells = (f"{values[n] * scale:>{max(13, len(n) + 2)}.3f}" if n in values else "" for n in names)
        print(f"{row:<{width}}" + "".join(cells), flush=True)


if __name__ == "__main__":
    sys.exit(main())
