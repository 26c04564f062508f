"""Folders of builds: gone at the end, and after a kill when the next build begins; never another's under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tilewright.hw import scratch
from tilewright.hw.scratch import sweep

HOLD = """
import sys, time
from pathlib import Path
from tilewright.hw.scratch import scratch
with scratch(Path(sys.argv[1])) as place:
    (place / "half.o").write_text("half")
    print(place, flush=True)
    time.sleep(60)
"""


def test_killed_builds_are_swept_and_others_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    held = Path(process.stdout.readline().strip())
    (tmp_path / "kept.so").write_text("")
    long_ago = time.time() - 2 * scratch.GRACE_SECONDS
    os.utime(held, (long_ago, long_ago))
    sweep(tmp_path)
    assert held.exists(), "it is under way"
    process.send_signal(signal.SIGKILL)
    process.wait()
    fresh = tmp_path / "build-fresh"
    fresh.mkdir()
    with scratch.scratch(tmp_path) as place:
        assert not held.exists()
        assert fresh.exists(), "its maker may not have locked it yet"
    assert not place.exists()
    assert (tmp_path / "kept.so").exists()


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "GRACE_SECONDS", -1)
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "cache"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "build-link").symlink_to(elsewhere)
    sweep(folder)
    assert elsewhere.exists()
