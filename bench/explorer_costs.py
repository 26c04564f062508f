"""What a sweep costs beside its evaluations: proposals, database, messages; and evaluators to measure with."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

from bench.bench_networks import NETWORKS, ROOT
from tilewright.dse.cluster import Cluster
from tilewright.dse.evaluate import Evaluator, Network, Outcome
from tilewright.dse.evaluation import ANALYTICAL, Task
from tilewright.dse.proposals import Proposals, Seen
from tilewright.dse.space import Space, Value
from tilewright.dse.trials import Row, Trials
from tilewright.jit.importer import import_model


class Asleep(Evaluator):
    """Evaluates nothing, but takes its time: as many workers as one likes fit on one machine."""

    pause = 0.0

    def __init__(self, good: Evaluator, pause: float) -> None:
        self.__dict__ = {**good.__dict__, "pause": pause}

    def __call__(self, space: Space, point: Mapping[str, Value]) -> Outcome:
        time.sleep(self.pause)
        return Outcome(None, {"latency": 1.0, "area": 1.0}, {"none": 1})


def evaluator(folder: Path) -> Evaluator:
    """The real networks that are there, else the digits example."""
    paths = [p for name in NETWORKS if (p := folder / f"{name}.tflite").exists()]
    graphs = [import_model(path).graph for path in paths or [ROOT / "examples" / "digits" / "digits.onnx"]]
    return Evaluator([Network.of(g) for g in graphs if g is not None], "pynq-z2", ("latency", "area"))


def random_points(space: Space, count: int, seed: int = 0) -> list[dict[str, Value]]:
    rng = random.Random(seed)
    return [{name: rng.choice(values) for name, values in space.varied.items()} for _ in range(count)]


def measure_proposals(space: Space, sampler: str, trials: int, batch: int) -> dict[str, float]:
    """CPU seconds per point to propose and to learn, at the start and at the end of a sweep of synthetic values."""
    proposals, asked, learned = Proposals(space, ["minimize"] * 2, sampler, 0, batch), [], []
    rng = random.Random(0)
    for first in range(0, trials, batch):
        a = time.process_time()
        points = proposals.propose(first)
        b = time.process_time()
        proposals.learn(
            [Seen(n, p, (1e4 / int(p["block_in"]) + rng.random(), float(p["block_out"])), 0.0)
             for n, p in enumerate(points, first)]
        )  # fmt: skip
        asked.append((b - a) / batch)
        learned.append((time.process_time() - b) / batch)
    ends = max(1, len(asked) // 8)
    return {
        "propose": statistics.mean(asked), "learn": statistics.mean(learned),
        "propose, first eighth": statistics.mean(asked[:ends]), "propose, last eighth": statistics.mean(asked[-ends:]),
    }  # fmt: skip


def measure_database(url: str, rows: int = 2048) -> dict[str, float]:
    """Seconds of a transaction, and what every row adds."""
    trials, row = Trials(url, "bench"), Row({"a": 1}, {"values": {"latency": 1.0}, "cycles": {"x": 1, "y": 2}})
    times = {}
    for step in (1, 256):
        each = []
        for first in range(0, rows if step > 1 else 40, step):
            started = time.perf_counter()
            trials.write(f"step {step}", {first + k: row for k in range(step)})
            each.append(time.perf_counter() - started)
        times[step] = statistics.median(each)
    started = time.perf_counter()
    assert len(trials.read("step 256")) == rows
    read = time.perf_counter() - started
    each_row = max(0.0, times[256] - times[1]) / 255
    return {"commit": times[1] - each_row, "keep": each_row, "read": read / rows}


def measure_messages(
    cluster: Cluster, task: Task, points: list[dict[str, Value]], chunks: int = 400
) -> dict[str, float]:
    """Seconds of driver and scheduler (CPU) and of one round trip, per chunk of one point that takes no time."""
    many = [points[n % len(points)] for n in range(chunks)]
    for _ in cluster.evaluate(task, ANALYTICAL, many[:20], 1):
        pass
    trips = []
    for point in many[:40]:
        started = time.perf_counter()
        list(cluster.evaluate(task, ANALYTICAL, [point], 1))
        trips.append(time.perf_counter() - started)
    before, cpu = cluster.client.run_on_scheduler(time.process_time), time.process_time()
    list(cluster.evaluate(task, ANALYTICAL, many, 1))
    own, scheduler = time.process_time() - cpu, cluster.client.run_on_scheduler(time.process_time) - before
    return {"driver": own / chunks, "scheduler": scheduler / chunks, "round trip": statistics.median(trips)}
