"""The search: seeded, resumed after a kill with the same front, and honest about points that cannot run."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.conftest import HANG
from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS
from tilewright.dse.evaluate import Evaluator, Network, ObjectiveError, Outcome
from tilewright.dse.evaluation import Task
from tilewright.dse.points import judged
from tilewright.dse.pool import InProcess, Params, Result
from tilewright.dse.proposals import BATCH, Proposals, Seen
from tilewright.dse.search import Point, Search, SearchError, front
from tilewright.dse.space import Space, Value, make_space
from tilewright.dse.trials import Row, StorageError

pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")

ROOT = Path(__file__).resolve().parents[2]
SWEEP = """
import sys
sys.path.insert(0, sys.argv[3])
from tests.dse.test_search import Slow, make_search
from tilewright.dse import search
search._KEEP_SECONDS = 0.0
sweep = make_search(sys.argv[1], sys.argv[2])
sweep.pool = Slow()
sweep.run(40)
"""


def make_search(
    storage: str, sampler: str = "nsga2", seed: int = 1, kind: Callable[[Evaluator], Evaluator] | None = None
) -> Search:
    """A sweep over 27 Configs; ``kind`` replaces its evaluator."""
    b = GraphBuilder(1, (8, 8, 4))
    x = b.conv("x", 8)
    graph = b.graph(b.dense(b.average_pool(b.conv(x, 16), (8, 8)), 4))
    space = make_space(
        PRESETS["tiny"], {"block_in": [4, 8, 16], "block_out": [4, 8, 16], "act_bytes": [1024, 4096, 8192]}
    )
    evaluator = Evaluator([Network.of(graph)], "pynq-z2", ("latency", "dsp"))
    return Search(space, kind(evaluator) if kind else evaluator, storage, seed, sampler)


def trials(points: list[Point]) -> list[tuple[object, ...]]:
    return [(p.number, sorted(p.params.items()), p.values, p.reason) for p in points]


@pytest.mark.parametrize("sampler", ["nsga2", "tpe", "random", "grid"])
def test_equal_seeds_give_equal_trials_in_pieces_too(sampler: str, tmp_path: Path) -> None:
    whole = make_search(f"sqlite:///{tmp_path}/a.db", sampler).run(20)
    make_search(f"sqlite:///{tmp_path}/b.db", sampler).run(7)
    pieces = make_search(f"sqlite:///{tmp_path}/b.db", sampler).run(20)
    assert len(whole) == 20
    assert trials(pieces) == trials(whole)
    if sampler != "grid":
        other = make_search(f"sqlite:///{tmp_path}/a.db", sampler, seed=2).run(20)
        assert trials(other) != trials(whole)


class Slow(InProcess):
    """Slow enough to be killed in the middle."""

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], left: int = 0) -> Iterator[list[Result]]:
        for result in super().evaluate(task, fidelity, points, left):
            time.sleep(0.05)
            yield result


class Shuffled:
    """A pool that finishes points in another order every time, as workers do."""

    def __init__(self, seed: int) -> None:
        self.random, self.evaluated = random.Random(seed), 0

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], left: int = 0) -> Iterator[list[Result]]:
        order = list(range(len(points)))
        self.random.shuffle(order)
        for index in order:
            self.evaluated += 1
            yield [(index, task(fidelity, points[index]))]


class Dies(Shuffled):
    """A pool in a process that is killed after some evaluations."""

    def __init__(self, seed: int, after: int) -> None:
        super().__init__(seed)
        self.after = after

    def evaluate(self, task: Task, fidelity: str, points: Sequence[Params], left: int = 0) -> Iterator[list[Result]]:
        for result in super().evaluate(task, fidelity, points, left):
            if self.evaluated > self.after:
                raise KeyboardInterrupt
            yield result


@pytest.mark.parametrize("sampler", ["nsga2", "tpe", "random"])
def test_the_order_in_which_workers_finish_changes_nothing(
    sampler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.dse.search._KEEP_SECONDS", 0.0)  # every result is kept on its own
    alone = make_search(f"sqlite:///{tmp_path}/a.db", sampler)
    expected, best = trials(alone.run(50)), alone.confirm_front(3)
    search = make_search(f"sqlite:///{tmp_path}/b.db", sampler)
    for seed, after in enumerate((5, 8)):
        search.pool = Dies(seed, after)
        with pytest.raises(KeyboardInterrupt):
            search.run(50)
    kept = len(search.trials.read("analytical"))
    assert 5 <= kept < 50
    search.pool = last = Shuffled(3)
    assert trials(search.run(50)) == expected
    assert last.evaluated <= 27 - 5  # what was kept, and points proposed twice, are not evaluated again
    assert search.confirm_front(3) == best
    assert trials(make_search(f"sqlite:///{tmp_path}/b.db", sampler).run(7)) == expected[:7]


def test_a_killed_sweep_ends_with_the_same_front(tmp_path: Path) -> None:
    database = tmp_path / "killed.db"
    command = [sys.executable, "-c", SWEEP, f"sqlite:///{database}", "nsga2", str(ROOT)]
    kills = 0
    for at_least in (3, 12):
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
        limit = time.monotonic() + HANG
        while process.poll() is None and _count(database) < at_least and time.monotonic() < limit:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 2, "the sweep ended before it could be killed"
    assert 12 <= _count(database) < 40
    search = make_search(f"sqlite:///{database}")
    resumed = search.run(40)
    alone = make_search(f"sqlite:///{tmp_path}/alone.db").run(40)
    assert trials(resumed) == trials(alone)
    assert front(resumed, ("latency", "dsp")) == front(alone, ("latency", "dsp"))


def _count(database: Path) -> int:
    if not database.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1) as connection:
            return int(
                connection.execute("select count(*) from tilewright_trials where fidelity = 'analytical'").fetchone()[0]
            )
    except sqlite3.OperationalError:
        return 0


@pytest.mark.parametrize("sampler", ["nsga2", "tpe"])
def test_samplers_learn_from_earlier_batches_and_keep_the_elite(sampler: str) -> None:
    space = Space(PRESETS["tiny"], {"dram_latency": tuple(range(16, 80)), "outstanding": tuple(range(1, 17))})

    def values(params: Mapping[str, Value]) -> list[float]:
        a, b = params["dram_latency"], params["outstanding"]
        return [abs(a - 40) + b, abs(a - 50) + b]  # type: ignore[operator]

    def total(name: str) -> float:
        proposals, found = Proposals(space, ["minimize"] * 2, name, seed=1), []
        for first in range(0, 8 * BATCH, BATCH):
            points = proposals.propose(first)
            assert proposals.propose(first) == points  # asking does not change the answer
            batch = [Seen(n, p, values(p), 0.0) for n, p in enumerate(points, first)]
            proposals.learn(batch)
            found += [sum(t.values or ()) for t in batch]
        return statistics.mean(found[-2 * BATCH :])

    assert total(sampler) < 0.7 * total("random")


def test_points_beyond_the_board_are_avoided() -> None:
    space = Space(PRESETS["tiny"], {"dram_latency": tuple(range(16, 80)), "outstanding": tuple(range(1, 17))})
    proposals, late = Proposals(space, ["minimize"], "nsga2", seed=1), []
    for first in range(0, 8 * BATCH, BATCH):
        points = proposals.propose(first)
        # the smaller the better, but what is smaller than 40 does not fit
        excess = [max(0.0, 40 - int(p["dram_latency"])) / 40 for p in points]
        proposals.learn([Seen(first + n, p, [float(p["dram_latency"])], excess[n]) for n, p in enumerate(points)])
        late = excess
    assert sum(e == 0 for e in late) > len(late) / 2


def test_a_grid_is_every_point_in_order() -> None:
    space = make_space(PRESETS["tiny"], {"block_in": [4, 8, 16], "dsp_packing": [False, True], "prm_entries": [32, 64]})
    proposals = Proposals(space, ["minimize"], "grid", seed=0, batch=5)
    assert [p for first in (0, 5, 10) for p in proposals.propose(first)] == list(space.points())


def test_a_defect_of_a_model_is_a_failed_trial(tmp_path: Path) -> None:
    points = make_search(f"sqlite:///{tmp_path}/a.db", "grid", kind=Defective).run(27)
    failed = [p for p in points if (p.reason or "").startswith("ZeroDivisionError")]
    assert len(points) == 27
    assert [p.params["block_in"] for p in failed] == [16] * 9
    assert front(points, ("latency", "dsp"))


class Defective(Evaluator):
    """A model that breaks on wide blocks."""

    def __init__(self, good: Evaluator) -> None:
        self.__dict__ = good.__dict__

    def __call__(self, space: Space, point: Mapping[str, Value]) -> Outcome:
        if point["block_in"] == 16:
            raise ZeroDivisionError("division by zero")
        return super().__call__(space, point)


def test_a_database_of_other_proposals_is_refused(tmp_path: Path) -> None:
    search = make_search(f"sqlite:///{tmp_path}/a.db")
    first = search.run(1)[0]
    other = {**first.params, "block_in": 4 if first.params["block_in"] != 4 else 8}
    search.trials.write("analytical", {1: Row(other, {"reason": "made up"})})
    with pytest.raises(SearchError, match="trial 1 is not what this version"):
        search.run(3)


def test_infeasible_points_are_kept_with_their_reason(tmp_path: Path) -> None:
    points = make_search(f"sqlite:///{tmp_path}/a.db", "grid").run(27)
    reasons = [p.reason for p in points if p.reason]
    assert len(points) == 27
    assert reasons
    assert all(":" in reason for reason in reasons)
    best = front(points, ("latency", "dsp"))
    assert best
    assert all(p.feasible for p in best)


def test_the_front_is_confirmed_by_the_simulator(tmp_path: Path) -> None:
    search = make_search(f"sqlite:///{tmp_path}/a.db", "grid")
    search.run(27)
    before = front(search.points(), ("latency", "dsp"))
    confirmed = search.confirm_front(2)
    seen = {p.number for p in search.points() if p.simulated is not None}
    (base,) = (p for p in search.points() if search.config(p).fingerprint == search.space.base.fingerprint)
    assert base.number not in {p.number for p in before}
    assert base.number in seen, "it is simulated on top of the front's points"
    assert len(seen) == 3
    fastest = confirmed[0]
    assert fastest.simulated is not None
    assert fastest.best_values["latency"] == pytest.approx(fastest.values["latency"], rel=0.15)


def test_the_budget_of_simulations_is_spent_whole_and_spread(tmp_path: Path) -> None:
    """Ends of the front first, then what lies behind it; equal estimates once."""
    search = make_search(f"sqlite:///{tmp_path}/t.db", "random")
    search._points = {
        n: Point(n, {"x": n}, {"latency": float(latency), "dsp": float(dsp)})
        for n, (latency, dsp) in enumerate([(1, 9), (2, 8), (3, 7), (4, 6), (5, 5), (2, 9), (3, 8), (2, 9), (9, 9)])
    }
    assert [p.number for p in search._spread(3, "simulated", [])] == [0, 2, 4]
    assert [p.number for p in search._spread(7, "simulated", [])] == [0, 1, 2, 3, 4, 5, 6]
    assert [p.number for p in search._spread(99, "simulated", [])] == [0, 1, 2, 3, 4, 5, 6, 8]


def test_front_keeps_the_first_of_equal_points() -> None:
    def point(number: int, a: float, b: float, reason: str | None = None) -> Point:
        return Point(number, {}, {"latency": a, "dsp": b}, reason, {})

    points = [point(0, 2, 2), point(1, 1, 3), point(2, 1, 3), point(3, 3, 3), point(4, 0, 0, "does not fit")]
    assert [p.number for p in front(points, ("latency", "dsp"))] == [1, 0]


def test_an_estimate_does_not_push_its_confirmed_twin_off_the_front() -> None:
    def point(number: int, latency: float, throughput: float, simulated: dict[str, float] | None = None) -> Point:
        seen = {"values": simulated} if simulated else None
        return Point(number, {}, {"latency": latency, "throughput": throughput}, simulated=seen)

    objectives = ("latency", "throughput")
    points = [
        point(0, 100.0, 50.0, {"latency": 110.0, "throughput": 45.0}),
        point(1, 101.0, 49.0),  # beats the simulated values of point 0, as all its neighbours do
        point(2, 90.0, 40.0),  # better in latency by more than the model has been wrong
        point(3, 120.0, 60.0, {"latency": 118.0, "throughput": 61.0}),  # a pessimistic estimate improves no other
    ]
    assert [p.number for p in front(points, objectives)] == [2, 0, 3]
    assert judged(points, objectives)[1].best_values == {"latency": 101.0 * 1.1, "throughput": 49.0 * 0.9}
    assert front(points, objectives)[0].best_values["latency"] == 90.0 * 1.1  # what is shown is what is compared
    assert [p.number for p in front(judged(points, objectives), objectives)] == [2, 0, 3]


def test_a_front_by_three_fidelities() -> None:
    points = [
        Point(0, {}, {"latency": 10.0, "dsp": 100.0}, simulated={"values": {"latency": 11.0, "dsp": 100.0}},
              synthesised={"values": {"dsp": 120.0}}),
        Point(1, {}, {"latency": 10.0, "dsp": 100.0}),
        Point(2, {}, {"latency": 5.0, "dsp": 100.0}, simulated={"reason": "does not fit"}),
        Point(3, {}, {"latency": 20.0, "dsp": 90.0}, synthesised={"values": {"dsp": 300.0}, "reason": "too large"}),
        Point(4, {}, {"latency": 30.0, "dsp": 50.0}, synthesised={"metrics": {"lut": 7.0}}),  # of another objective
    ]  # fmt: skip
    assert [p.number for p in front(points, ("latency", "dsp"))] == [0, 4]
    assert points[0].best_values == {"latency": 11.0, "dsp": 120.0}
    assert front(points, ("latency", "dsp"))[1].best_values == {"latency": 33.0, "dsp": 50.0}


def test_wrong_requests_are_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectiveError, match="power: no such objective"):
        Evaluator([], None, ("power",))
    with pytest.raises(ObjectiveError, match="de10: no such board"):
        Evaluator([], "de10", ("latency",))
    with pytest.raises(StorageError, match="cannot be used"):
        make_search(f"sqlite:///{tmp_path}/none/a.db")
    with pytest.raises(SearchError, match="no such sampler"):
        make_search(f"sqlite:///{tmp_path}/a.db", "annealing")
