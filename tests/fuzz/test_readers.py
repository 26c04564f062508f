"""The readers' campaign: what it finds is found, and what it has found stays mended."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import HANG
from tests.fuzz.__main__ import app
from tests.fuzz.readers import campaign, formats
from tests.fuzz.readers.campaign import Result, attack
from tests.fuzz.readers.child import FAILED, READ, REFUSED, attempt
from tests.fuzz.readers.formats import FORMATS, Defect, Format
from tests.fuzz.seeds import draw_network
from tilewright import agreement
from tilewright.isa.container import ContainerError

QUICK = {"toml": 150, "npy": 300, "npz": 300, "twp": 60, "assembly": 150, "frames": 60, "twa": 40}


@pytest.mark.parametrize("name", QUICK)
def test_damaged_files_are_read_or_refused_in_words(name: str, tmp_path: Path) -> None:
    form, outcomes = FORMATS[name], dict.fromkeys((READ, REFUSED, FAILED), 0)
    for seed in range(QUICK[name]):
        path = tmp_path / f"x{form.suffix}"
        path.write_bytes(form.make(random.Random(seed)))
        outcome, message = attempt(form, path)
        outcomes[outcome] += 1
        assert outcome != FAILED, f"seed {seed}: {message}"
    assert outcomes[REFUSED] > 0
    assert outcomes[READ] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tflite", "onnx"])
def test_damaged_models_are_read_or_refused_in_words(name: str, tmp_path: Path) -> None:
    result = attack(name, 0, 30.0, tmp_path)
    assert result.cases > 5
    assert not result.failures


def test_a_seed_gives_one_file() -> None:
    for name, form in FORMATS.items():
        assert form.make(random.Random(3)) == form.make(random.Random(3)), name


@pytest.mark.parametrize(
    ("raised", "outcome", "message"),
    [
        (None, READ, ""),
        (ContainerError("bad"), REFUSED, "ContainerError"),
        (ContainerError(" "), FAILED, "an empty message"),
        (Defect("other integers"), FAILED, "other integers"),
        (KeyError("x"), FAILED, "KeyError: 'x' (test_readers.py:"),
        (MemoryError(), FAILED, "MemoryError:  (test_readers.py:"),
    ],
)
def test_outcomes(raised: Exception | None, outcome: str, message: str) -> None:
    def read(_: Path) -> None:
        if raised is not None:
            raise raised

    found = attempt(Format("", lambda rng: b"", read), Path())
    assert found[0] == outcome
    assert found[1].startswith(message)


CHILD = """
import os, signal, sys, time
first = int(sys.argv[-3])
for seed in range(first, first + 3):
    print(seed, flush=True)
    if seed == 1:
        {what}
    print(seed, "read", flush=True)
"""


@pytest.mark.parametrize(
    ("what", "silence", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", HANG, "the process ended: SIGSEGV"),
        ("sys.exit(3)", HANG, "the process ended: exit code 3"),
        ("os.kill(os.getpid(), signal.SIGPROF)", HANG, "no answer in 300 s of processor time"),
        ("time.sleep(600)", 8.0, "no answer in 8 s"),  # within which the other processes must begin
    ],
)
def test_a_process_that_dies_or_hangs_is_a_failure_and_the_next_goes_on(
    what: str, silence: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD.format(what=what))
    monkeypatch.setattr(campaign, "SILENCE_SECONDS", silence)
    monkeypatch.setattr(campaign, "command", lambda *arguments: [sys.executable, str(script), *arguments])
    result = attack("toml", 0, 1000.0, tmp_path / "out")
    assert result.failures == {1: message}
    assert result.outcomes == {READ: 4, FAILED: 1}
    assert result.next_seed == 5


def test_a_case_that_computes_for_ever_ends_its_process(tmp_path: Path) -> None:
    code = """
import time
from pathlib import Path
from tests.fuzz.readers import child
child._START_SECONDS = 0.2
def read(path):
    while True:
        time.process_time()
child.FORMATS = {"slow": child.Format("", lambda rng: b"", read)}
child.main("slow", 0, 10.0, Path(__import__("sys").argv[1]))
"""
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGPROF
    assert ended.stdout == b"0\n"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["files", "toml", "-o", str(tmp_path), *arguments])

    assert (read := ran("--minutes", "0.02")).exit_code == 0
    assert " refused" in read.output
    assert "sand: no such format; the formats are tflite, onnx, twa" in str(ran("sand").exception)

    def found(name: str, *_: object) -> Result:
        return Result(name, failures={7: "made up"})

    monkeypatch.setattr("tests.fuzz.__main__.attack", found)
    assert (failed := ran()).exit_code == 1
    assert "seed 7: made up" in failed.output


def test_results_that_an_interpreter_leaves_unwritten_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """An accepted model whose reference gives other values each time, where none of its operators draws them."""
    path = draw_network("tflite", 4, "small", str(tmp_path))[1]
    monkeypatch.setattr(agreement, "_same", lambda *_: False)
    monkeypatch.setattr(agreement.Oracle, "compared", lambda *_: agreement.Compared("differs"))
    assert attempt(FORMATS["tflite"], path)[0] == FAILED
    monkeypatch.setattr(formats, "_draws", lambda _: True)
    assert attempt(FORMATS["tflite"], path)[0] == READ
