"""Random networks of both front ends, every integer against the reference interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fuzz.cases import EXACT, REFERENCE_REFUSED, WITHIN
from tests.fuzz.seeds import RANDOM
from tests.fuzz.workers import Pool, Task, Worker

QUICK = range(25)
MANY = range(1000, 2500)
GOOD = {"tflite": (EXACT,), "onnx": (EXACT, WITHIN)}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A process of its own: a network that ends it fails one test."""
    made = Worker()
    yield made
    made.close()


@pytest.mark.parametrize("seed", QUICK)
@pytest.mark.parametrize("frontend", GOOD)
def test_small_network(frontend: str, seed: int, worker: Worker) -> None:
    config = "pynq-z2" if seed % 2 else RANDOM
    result = worker.run(Task(frontend, seed, config, "small"))
    assert result.outcome.kind in GOOD[frontend], f"{result.outcome.message} {result.outcome.where}\n{result.recipe}"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("frontend", GOOD)
def test_large_image(frontend: str, seed: int, worker: Worker) -> None:
    """Or a long signal, mostly of one channel."""
    result = worker.run(Task(frontend, seed, "pynq-z2", "large"))
    assert result.outcome.kind in GOOD[frontend], f"{result.outcome.message} {result.outcome.where}\n{result.recipe}"


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seeds"), [("full", MANY), ("large", range(1000, 1200))])
@pytest.mark.parametrize("frontend", GOOD)
def test_many_networks(frontend: str, size: str, seeds: range) -> None:
    pool = Pool(1)
    try:
        results = list(pool.map_tasks([Task(frontend, seed, RANDOM, size) for seed in seeds]))
    finally:
        pool.close()
    kinds = Counter(r.outcome.kind for r in results)
    failures = [
        f"seed {r.task.seed}: {r.failure}"
        for r in results
        if r.outcome.kind not in (*GOOD[frontend], REFERENCE_REFUSED)
    ]
    assert not failures, "\n".join(failures)
    assert sum(kinds[kind] for kind in GOOD[frontend]) > 0.99 * len(seeds), kinds  # LiteRT aborts on one in a thousand
