"""The search: seeded, resumed after a kill with the same front, and honest about points that cannot run."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, load_config
from tilewright.dse.evaluate import Evaluator, Network, ObjectiveError
from tilewright.dse.search import Point, Search, SearchError, front
from tilewright.dse.space import make_space
from tilewright.dse.trials import StorageError

pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")

ROOT = Path(__file__).resolve().parents[2]
SWEEP = """
import sys
sys.path.insert(0, sys.argv[3])
from tests.dse.test_search import make_search
make_search(sys.argv[1], sys.argv[2]).run(40)
"""


def make_search(storage: str, sampler: str = "nsga2", seed: int = 1) -> Search:
    b = GraphBuilder(1, (8, 8, 4))
    x = b.conv("x", 8)
    graph = b.graph(b.dense(b.average_pool(b.conv(x, 16), (8, 8)), 4))
    space = make_space(
        PRESETS["tiny"], {"block_in": [4, 8, 16], "block_out": [4, 8, 16], "act_bytes": [1024, 4096, 8192]}
    )
    return Search(space, Evaluator([Network.of(graph)], "pynq-z2", ("latency", "dsp")), storage, seed, sampler)


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


def test_a_killed_sweep_ends_with_the_same_front(tmp_path: Path) -> None:
    database = tmp_path / "killed.db"
    command = [sys.executable, "-c", SWEEP, f"sqlite:///{database}", "nsga2", str(ROOT)]
    kills = 0
    for at_least in (3, 12):
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
        limit = time.monotonic() + 90
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
            return int(connection.execute("select count(*) from tilewright_trials").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


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
    confirmed = search.confirm_front(2)
    assert sum(p.simulated is not None for p in search.points()) == 2
    fastest = confirmed[0]
    assert fastest.simulated is not None
    assert fastest.best_values["latency"] == pytest.approx(fastest.values["latency"], rel=0.15)


def test_front_keeps_the_first_of_equal_points() -> None:
    def point(number: int, a: float, b: float, reason: str | None = None) -> Point:
        return Point(number, {}, {"latency": a, "dsp": b}, reason, {})

    points = [point(0, 2, 2), point(1, 1, 3), point(2, 1, 3), point(3, 3, 3), point(4, 0, 0, "does not fit")]
    assert [p.number for p in front(points, ("latency", "dsp"))] == [1, 0]


def test_wrong_requests_are_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectiveError, match="power: no such objective"):
        Evaluator([], None, ("power",))
    with pytest.raises(ObjectiveError, match="de10: no such board"):
        Evaluator([], "de10", ("latency",))
    with pytest.raises(StorageError, match="cannot be used"):
        make_search(f"sqlite:///{tmp_path}/none/a.db")
    with pytest.raises(SearchError, match="no such sampler"):
        make_search(f"sqlite:///{tmp_path}/a.db", "annealing")


def test_results_are_written_whole(tmp_path: Path) -> None:
    from tilewright.dse.report import write_all

    search = make_search(f"sqlite:///{tmp_path}/a.db", "grid")
    everything = search.run(27)
    best = front(everything, search.evaluator.objectives)
    written = write_all(tmp_path, search, best, everything)
    assert {path.name for path in written} == {"front.json", "front.csv", "report.html", "best.toml", "front.png"}
    data = json.loads((tmp_path / "front.json").read_text())
    assert [row["trial"] for row in data["front"]] == [p.number for p in best]
    assert data["front"][0]["layers"]["random"][0]["bound"] in ("array", "alu", "bus")
    assert load_config(tmp_path / "best.toml") == search.config(best[0])
    page = (tmp_path / "report.html").read_text()
    assert "http" not in page
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "front.csv").read_text().splitlines()) == len(best) + 1
