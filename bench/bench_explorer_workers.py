"""What worker processes give a sweep: the same points evaluated here and on a local Dask cluster, and a whole sweep.

``python bench/bench_explorer_workers.py [--points N] [--simulations N] [--trials N] [--workers N] [--json FILE]``.
The networks are ResNet-8 and keyword spotting where the real networks are found, else the digits example.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from typing import Any

from bench.common import DIGITS, machine, models, options_of, whole_graph, write_json
from tilewright.config import PRESETS
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.evaluation import ANALYTICAL, SIMULATOR, Task
from tilewright.dse.networks import Network
from tilewright.dse.pool import InProcess
from tilewright.dse.search import Search
from tilewright.dse.space import make_space
from tilewright.dse.workers import Workers, make_pool


def timed(pool: InProcess | Workers, task: Task, fidelity: str, points: list[Any]) -> tuple[float, dict[int, Any]]:
    """Seconds to evaluate points, and their outcomes by index."""
    started = time.perf_counter()
    outcomes = dict(sorted(result for ready in pool.evaluate(task, fidelity, points) for result in ready))
    return time.perf_counter() - started, outcomes


def main() -> int:
    """Print seconds and speed-up; exit code 1 if outcomes on workers differ from those in one process."""
    parser = options_of(__doc__, config=None)
    parser.add_argument("--points", type=int, default=2048, help="points to estimate")
    parser.add_argument("--simulations", type=int, default=8, help="points to simulate")
    parser.add_argument("--trials", type=int, default=512, help="of the sweep")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    paths = models(options.models, ("resnet8_cifar10", "dscnn_keywords")) or [DIGITS / "digits.onnx"]
    evaluator = Evaluator([Network.of(whole_graph(path)) for path in paths], "pynq-z2", ("latency", "area"))
    space, rng = make_space(PRESETS["pynq-z2"]), random.Random(0)
    points = [{name: rng.choice(values) for name, values in space.varied.items()} for _ in range(options.points)]
    task, here, rows, same = Task(evaluator, space), InProcess(), {}, True
    timed(here, task, ANALYTICAL, points[:1])  # compiles the model's loops
    estimated, outcomes = timed(here, task, ANALYTICAL, points)
    legal = [point for index, point in enumerate(points) if not outcomes[index].get("reason")][: options.simulations]
    simulated, cycles = timed(here, task, SIMULATOR, legal)
    print(f"{machine()}; {', '.join(path.stem for path in paths)}")
    for fidelity, some, alone, expected in (
        (ANALYTICAL, points, estimated, outcomes),
        (SIMULATOR, legal, simulated, cycles),
    ):
        rows[fidelity] = {"points": len(some), "in process": alone}
        for count in sorted({1, options.workers}):
            with make_pool(count) as pool:
                pool._start()
                same &= timed(pool, task, fidelity, some)[1] == expected  # and kernels are loaded
                rows[fidelity][f"{count} workers"] = timed(pool, task, fidelity, some)[0]
        shown = (f"{name} {took:.2f} s ({alone / took:.2f}x)" for name, took in list(rows[fidelity].items())[1:])
        print(f"{fidelity}, {len(some)} points: " + ", ".join(shown), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        search = Search(space, evaluator, f"sqlite:///{folder}/trials.db", pool=(alone_pool := InProcess()))
        started = time.perf_counter()
        search.run(options.trials)
        took = time.perf_counter() - started
    rows["sweep"] = {"trials": options.trials, "seconds": took, "evaluating": sum(alone_pool.seconds)}
    beside = 1000 * (took - sum(alone_pool.seconds)) / options.trials
    print(f"sweep of {options.trials} trials in process: {took:.2f} s, {beside:.2f} ms a trial beside its evaluation")
    write_json(options.json, {"machine": machine(), "networks": [path.stem for path in paths], **rows})
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
