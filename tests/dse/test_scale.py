"""Sweeps on worker processes: the same trials as in one process, whatever dies on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import HANG
from tests.dse.test_search import ROOT, _count, make_search, trials
from tilewright.dse import pool as pool_module
from tilewright.dse.evaluate import Evaluator, Outcome
from tilewright.dse.evaluation import ANALYTICAL, SIMULATOR, Task
from tilewright.dse.pool import WorkerError
from tilewright.dse.space import Space, Value
from tilewright.dse.workers import Workers, make_pool

dask = pytest.importorskip("dask", reason="needs the explore extra: pip install 'tilewright[explore]'")
pytest.importorskip("distributed", reason="needs the explore extra: pip install 'tilewright[explore]'")

DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.dse.test_scale import Sluggish, make_search
from tilewright.dse.workers import make_pool
if __name__ == "__main__":
    with make_pool(2) as pool:
        pool._start()
        search = make_search(sys.argv[1], kind=Sluggish)
        search.pool = pool
        search.run(60)
"""


class Wrapped(Evaluator):
    """An evaluator like another, but for what :meth:`before` does."""

    def __init__(self, good: Evaluator) -> None:
        self.__dict__ = dict(good.__dict__)

    def __call__(self, space: Space, point: Mapping[str, Value]) -> Outcome:
        self.before(point)
        return super().__call__(space, point)

    def before(self, point: Mapping[str, Value]) -> None:
        raise NotImplementedError


class Sluggish(Wrapped):
    """Takes its time."""

    def before(self, point: Mapping[str, Value]) -> None:
        time.sleep(0.1)


class Deadly(Wrapped):
    """Ends its process at one point of the space, and runs out of memory at another."""

    def before(self, point: Mapping[str, Value]) -> None:
        if (point["block_in"], point["act_bytes"]) == (8, 4096):
            if point["block_out"] == 8:
                os.kill(os.getpid(), signal.SIGKILL)
            if point["block_out"] == 16:
                raise MemoryError


class DeadlyOnce(Wrapped):
    """Ends its process the first time that a point is evaluated."""

    marker = Path()

    def before(self, point: Mapping[str, Value]) -> None:
        if (point["block_in"], point["block_out"], point["act_bytes"]) == (8, 8, 4096) and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    """Two worker processes."""
    with make_pool(2) as started:
        started._start()
        yield started


@pytest.fixture
def expected(tmp_path: Path) -> list[tuple[object, ...]]:
    """The 27 trials of the grid, evaluated in this process."""
    return trials(make_search(f"sqlite:///{tmp_path}/expected.db", "grid").run(27))


def test_workers_change_nothing(pool: Workers, tmp_path: Path) -> None:
    alone = make_search(f"sqlite:///{tmp_path}/a.db")
    search = make_search(f"sqlite:///{tmp_path}/b.db")
    search.pool = pool
    assert trials(search.run(50)) == trials(alone.run(50))
    assert search.confirm_front(3) == alone.confirm_front(3)


def test_what_always_dies_is_a_failed_trial_and_its_neighbours_are_not(
    pool: Workers, expected: list[tuple[object, ...]], tmp_path: Path
) -> None:
    search = make_search(f"sqlite:///{tmp_path}/a.db", "grid", kind=Deadly)
    search.pool = pool
    points = search.run(27)
    reasons = {n: p.reason for n, p in enumerate(points) if (p.reason or "").startswith("the evaluation failed")}
    dead = [(p.params["block_out"], reasons[p.number]) for p in points if p.number in reasons]
    assert dead == [
        (8, "the evaluation failed 3 times: its process ended (out of memory, or killed)"),
        (16, "the evaluation failed 3 times: it ran out of memory"),
    ]
    assert [t for t in trials(points) if t[0] not in reasons] == [t for t in expected if t[0] not in reasons]
    assert trials(make_search(f"sqlite:///{tmp_path}/a.db", "grid").run(27)) == trials(points)  # it is in the database


@pytest.mark.slow
def test_what_dies_once_is_tried_again(pool: Workers, expected: list[tuple[object, ...]], tmp_path: Path) -> None:
    search = make_search(f"sqlite:///{tmp_path}/a.db", "grid", kind=DeadlyOnce)
    vars(search.evaluator)["marker"] = tmp_path / "died"
    search.pool = pool
    assert trials(search.run(27)) == expected
    assert (tmp_path / "died").exists()


def test_a_worker_killed_from_outside_costs_nothing(
    pool: Workers, expected: list[tuple[object, ...]], tmp_path: Path
) -> None:
    search = make_search(f"sqlite:///{tmp_path}/a.db", "grid", kind=Sluggish)
    search.pool = pool
    killed: list[int] = []

    def kill() -> None:
        client = pool._start().client
        killed.extend(client.run(os.getpid).values())
        os.kill(killed[0], signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    assert trials(search.run(27)) == expected
    timer.join()
    assert killed


def test_a_worker_that_takes_its_time_to_come_back_keeps_its_place(
    expected: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """Where the machine is busy it is not back within Dask's own patience, here a hundredth of a second."""
    search = make_search(f"sqlite:///{tmp_path}/a.db", "grid", kind=Sluggish)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}):
        with make_pool(1) as lone:
            search.pool = lone
            (worker,) = lone._start().client.run(os.getpid).values()
            os.kill(worker, signal.SIGKILL)
            assert trials(search.run(27)) == expected
        assert dask.config.get("distributed.deploy.lost-worker-timeout") == "10 ms"


def test_a_cluster_by_its_address_and_a_worker_of_another_version(
    pool: Workers, expected: list[tuple[object, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = pool._start().client.scheduler.address
    with make_pool(None, address) as joined:
        assert joined._start().workers() >= 1
        search = make_search(f"sqlite:///{tmp_path}/a.db", "grid")
        search.pool = joined
        assert trials(search.run(27)) == expected
        monkeypatch.setattr("tilewright.dse.cluster.version", lambda: "0123")
        with pytest.raises(WorkerError, match=f"{address}: the worker runs version .*, the driver 0123"):
            list(joined.evaluate(Task(search.evaluator, search.space), SIMULATOR, [search.points()[0].params]))
    assert pool._start().workers() >= 1  # leaving a cluster does not end it


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.dse.cluster._CONNECT_SECONDS", 1)
    with (
        pytest.raises(WorkerError, match="tcp://127.0.0.1:9: no Dask scheduler answers"),
        make_pool(None, "tcp://127.0.0.1:9"),
    ):
        pass
    with pytest.raises(WorkerError, match="nonsense"), make_pool(None, "nonsense://x"):
        pass
    with pytest.raises(WorkerError, match="give one of them"):
        make_pool(2, "tcp://127.0.0.1:9")
    with pytest.raises(WorkerError, match="--workers -1: must be 0 or more"):
        make_pool(-1)


def test_a_script_without_a_guard_is_not_run_by_its_workers(tmp_path: Path) -> None:
    """Spawned processes import their parent's script: workers that need nothing of it leave it alone."""
    script = tmp_path / "script.py"
    script.write_text(
        "from tilewright.dse.cluster import Cluster\n"
        "print('once', flush=True)\n"
        "cluster = Cluster(1)\n"
        "print(cluster.workers(), cluster.client.submit(abs, -7).result())\n"
        "cluster.close()\n"
        "print(__file__)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    assert done.stdout.splitlines() == ["once", "1 7", str(script)], done.stderr


def test_workers_start_only_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        seconds_per_point = None

        def __init__(self, count: int, scheduler: str | None) -> None:
            self.sent: list[tuple[int, int]] = []

        def workers(self) -> int:
            return 2

        def evaluate(self, task: Any, fidelity: str, points: list[Any], chunk: int) -> Iterator[list[tuple[int, Any]]]:
            self.sent.append((len(points), chunk))
            yield [(n, {}) for n in range(len(points))]

    monkeypatch.setattr("tilewright.dse.cluster.Cluster", Fake)
    monkeypatch.setattr(pool_module.time, "perf_counter", iter(range(1000)).__next__)  # a second for each evaluation
    quick: Any = lambda fidelity, point: {}  # noqa: E731
    points: list[pool_module.Params] = [{} for _ in range(10)]
    started = Workers(2)
    assert _indices(started.evaluate(quick, ANALYTICAL, points[:4])) == list(range(4))
    assert started._cluster is None  # what was left was worth less than the start
    assert _indices(started.evaluate(quick, ANALYTICAL, points, left=100)) == list(range(10))
    assert vars(started._cluster)["sent"] == [(9, 1)]  # a second of work goes alone
    for count in (0, 1):
        few = Workers(count)
        assert len(_indices(few.evaluate(quick, ANALYTICAL, points, left=10_000))) == 10
        assert few._cluster is None
        assert len(_indices(few.evaluate(quick, SIMULATOR, points))) == 10
        assert (few._cluster is None) == (count == 0)  # what may take its process down has one of its own


def _indices(results: Iterator[list[tuple[int, Any]]]) -> list[int]:
    return [index for ready in results for index, _ in ready]


def test_quick_points_travel_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        seconds_per_point = 0.001

        def workers(self) -> int:
            return 4

    started: Any = Workers(4)
    started._cluster = Fake()
    assert started._chunk(10_000, 4) == 50
    assert started._chunk(160, 4) == 10  # four chunks for each worker, so that they finish together
    assert started._chunk(40, 4) == 5  # less is not worth a message
    started._cluster.seconds_per_point = 0.1
    assert started._chunk(40, 4) == 1


def test_a_killed_driver_takes_its_workers_along_and_the_sweep_goes_on(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/killed.db"
    search = make_search(storage)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), storage, str(ROOT)]
    driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    limit = time.monotonic() + HANG
    while driver.poll() is None and len(search.trials.read(ANALYTICAL)) < 4 and time.monotonic() < limit:
        time.sleep(0.01)
    children = _children(driver.pid)
    os.kill(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL, "the sweep ended before it could be killed"
    assert len(children) >= 2
    while any(map(_alive, children)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(_alive, children))
    assert 4 <= len(search.trials.read(ANALYTICAL)) < 60
    assert trials(search.run(60)) == trials(make_search(f"sqlite:///{tmp_path}/alone.db").run(60))


@pytest.mark.slow
def test_a_sweep_killed_three_times_has_the_front_of_one_left_alone(pool: Workers, tmp_path: Path) -> None:
    """The command itself, 2,000 trials on a cluster: its driver killed three times at random moments, a worker once."""
    address = pool._start().client.scheduler.address
    digits = str(ROOT / "examples" / "digits" / "digits.onnx")
    objectives = "latency,area,energy"

    def command(folder: str, *options: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "tilewright", "explore", digits, "-o", str(tmp_path / folder), *options]
        line += ["--trials", "2000", "--simulate", "6", "--objective", objectives]
        return subprocess.Popen(line, env={**os.environ, "PYTHONPATH": str(ROOT)})

    rng, done, killed = random.Random(), 0, 0
    moments = sorted(rng.sample(range(40, 1900), 3))
    for moment in moments:
        driver = command("killed", "--scheduler", address)
        while driver.poll() is None and (done := _count(tmp_path / "killed" / "trials.db")) < moment:
            time.sleep(0.02)
        if moment == moments[1]:
            os.kill(next(iter(pool._start().client.run(os.getpid).values())), signal.SIGKILL)
        driver.kill()
        killed += driver.wait() == -signal.SIGKILL
        assert done < 2000
    assert killed == 3, f"the sweep ended before it could be killed at {moments}"
    assert command("killed", "--scheduler", address).wait(timeout=600) == 0
    assert command("alone", "--workers", "0").wait(timeout=600) == 0
    assert _count(tmp_path / "killed" / "trials.db") == 2000
    for name in ("front.json", "front.csv", "best.toml"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes(), (name, moments)


def _children(parent: int) -> list[int]:
    """Process ids below ``parent``, at any depth."""
    return [child.pid for child in psutil.Process(parent).children(recursive=True)]


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
