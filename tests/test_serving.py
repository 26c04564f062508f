"""``tilewright serve`` and ``run --device pynq://HOST`` as typed, and the command that a board has."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import HANG
from tests.runtime.network import images, make_artifact, reference
from tests.test_layering import ONLY_NUMPY
from tilewright import board
from tilewright.cli.app import COMMANDS, GROUPS, main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an artifact and inputs."""
    monkeypatch.chdir(tmp_path)
    make_artifact().save("toy.twa")
    np.save("x.npy", images(3))
    return tmp_path


@pytest.fixture
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A server of the simulator in a process of its own, and the lines it greets with."""
    command = [sys.executable, "-m", "tilewright", "serve", "--device", "sim", "--config", "tiny", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if line.startswith("then: "):
            break
    yield process, lines
    process.kill()
    process.communicate()


def test_from_the_line_that_serve_prints_to_a_network_run(
    folder: Path, serving: tuple[subprocess.Popen[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    process, lines = serving
    assert lines[0].startswith("serving the sim device, config tiny, on port ")
    assert re.fullmatch(r"for this machine alone; from another: ssh -L (\d+):127\.0\.0\.1:\1 THIS-MACHINE", lines[1])
    told = re.fullmatch(r"then: tilewright run A\.twa --device (pynq://127\.0\.0\.1:\d+)", lines[-1])
    assert told is not None
    device = told[1]
    run = ["run", "toy.twa", "--input", "x.npy", "--output", "y.npy", "--device", device]
    assert main([*run, "--wait", "5"]) == 0
    assert np.array_equal(np.load("y.npy"), reference(images(3))[1].reshape(3, -1))
    assert f"device {device} (sim)" in capsys.readouterr().out
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "pynq"], "no overlay is given"),
        (["--device", "pynq", "--config", "tiny"], "--config: the overlay's manifest has"),
        (["--device", "sim", "--overlay", "o.bit"], "--overlay: only the pynq device has one, not sim"),
        (["--device", "sim", "--config", "tinny"], "tinny: no such preset"),
        (["--device", "sim", "--config", "tiny", "--host", "256.0.0.1"], "cannot listen on 256.0.0.1"),
    ],
)
def test_serving_cannot_start(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (main, board.main):
        assert command(["serve", *arguments]) == 2
        said = capsys.readouterr()
        assert message in said.err
        assert said.err.count("\n") == 1
        assert said.out == ""


@pytest.mark.parametrize("option", [["--port", "70000"], ["--idle", "x"], ["--max-memory", "0"]])
def test_numbers_out_of_range_are_told(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *option]) == 2
    assert f"{option[1]}: must be an integer from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--wave", "w.fst"], "--wave: only the rtl device"),
        (["--overlay", "o.bit"], "--overlay: only the pynq device"),
        (["--wait", "3"], "--wait: only a remote device"),
        (["--device", "rtl", "--jobs", "3"], "--jobs: only the sim device"),
        (["--device", "pynqs://host"], "not a device's address"),
        (["--device", "pynq://127.0.0.1:1"], "is tilewright serve running there"),
    ],
)
def test_options_of_other_devices(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "toy.twa", "--input", "x.npy", *arguments]) == 2
    assert message in capsys.readouterr().err


# -- the board's command --------------------------------------------------------------------------------------


def test_the_boards_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "toy.twa", "--device", "sim", "--input", "x.npy", "--output", "y.npy", "--report", "r.json"]
    assert board.main(command) == 0
    assert np.array_equal(np.load("y.npy"), reference(images(3))[1].reshape(3, -1))
    assert re.match(r"toy: 3 inferences on sim, [\d,]+ cycles", capsys.readouterr().out)
    assert Path("r.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dance"], "dance: no such command here"),
        (["compile", "m.tflite"], "compile: needs packages that are not installed: pip install 'tilewright[compile]'"),
        (["explore", "m.tflite"], "pip install 'tilewright[compile,explore]'"),
        (["hw", "verilog"], "pip install 'tilewright[compile,rtl]'"),
        (["config", "dance"], "config: list, or show NAME|FILE.toml"),
        (["config", "show", "tinny"], "tinny: no such preset"),
        (["run", "none.twa", "--input", "x.npy"], "none.twa: cannot be read"),
        (["run", "toy.twa", "--input", "x.npy", "--output", "none/y.npy"], "there is no directory none"),
        (["run", "toy.twa", "--input", "x.npy"], "no overlay is given"),
    ],
)
def test_what_the_boards_command_refuses(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert board.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--version"], ["config", "list"], ["config", "show", "tiny"], ["config", "show"]]
)
def test_what_needs_nothing_says_the_same_with_and_without_extras(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert board.main(arguments) == 0
    plain = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == plain


def test_every_command_is_known_where_it_cannot_be_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert board.main([]) == 0
    usage = capsys.readouterr().out
    for name in (*(name for name, *_ in COMMANDS), *(name for name, *_ in GROUPS)):
        assert name in board.EXTRAS or name in ("run", "config")
        assert name in usage


def test_a_missing_package_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'optuna'", name="optuna")

    monkeypatch.setattr("tilewright.config.Config.to_toml", missing)
    assert main(["config", "show"]) == 2
    told = "needs packages (optuna) that are not installed: pip install 'tilewright[compile]'"
    assert told in capsys.readouterr().err


def test_verbose_shows_where_an_error_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    for given, expected in ((["config", "show", "tinny"], False), (["-v", "config", "show", "tinny"], True)):
        assert main(given) == 2
        said = capsys.readouterr().err
        assert ("Traceback" in said) == expected
        assert said.splitlines()[-1].startswith("tilewright: tinny: no such preset")


def test_the_shell_completes_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "_TILEWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "tilewright comp",
                   "COMP_CWORD": "1"}  # fmt: skip
    command = "import sys; sys.argv = ['tilewright']; from tilewright.cli.app import main; sys.exit(main())"
    said = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)
    assert said.stdout.split() == ["compile", "compare"]


def test_the_command_works_with_numpy_alone() -> None:
    """Typer cannot be found, so the command is the board's; its help loads nothing else."""
    source = f"""{ONLY_NUMPY}
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "typer" else real(name, *rest)
from tilewright.__main__ import main
sys.argv = ["tilewright", "--help"]
assert main() == 0
sys.argv = ["tilewright", "serve", "--device", "pynq"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=HANG)
    assert "usage: tilewright {run,serve,selftest,config}" in done.stdout
    assert (done.returncode, "no overlay is given" in done.stderr) == (2, True), done.stderr
