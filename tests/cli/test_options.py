"""Options that have no effect on what was asked for are refused by name, with the way out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.shell import Shell
from tests.runtime.network import images
from tilewright import compiling
from tilewright.board import main as board
from tilewright.cli.placing import OBJECTIVES
from tilewright.runtime import records

#: a command line on toy.twa or toy.tflite, and the option that it refuses
VAIN = [
    ("run toy.twa --host-watts 5", "--host-watts"),
    ("run toy.twa --host-idle-watts 5", "--host-idle-watts"),
    ("run toy.twa --energy-table t.toml", "--energy-table"),
    ("run toy.twa --objective nonsense", "--objective"),
    ("run toy.twa --objective=", "--objective"),
    ("run toy.twa --no-cache", "--no-cache"),
    ("run toy.twa --fast-host", "--fast-host"),
    ("run toy.twa --input x.npy --seed 3", "--seed"),
    ("run toy.twa --input x.npy --inputs 3", "--inputs"),
    ("run toy.twa --reference toy.tflite", "--reference"),
    ("run toy.tflite --host-watts 5", "--host-watts"),
    ("run toy.tflite --objective latency --energy-table t.toml", "--energy-table"),
    ("run toy.tflite --objective nonsense", "--objective nonsense"),
    ("compile toy.tflite -o a.twa --jobs 2", "--jobs"),
    ("compile toy.tflite -o a.twa --objective latency --jobs 2", "--jobs"),
    ("compile toy.tflite -o a.twa --host-watts 2", "--host-watts"),
    ("compile toy.tflite -o a.twa --objective nonsense", "--objective nonsense"),
    ("inspect toy.twa --config tiny", "--config"),
    ("inspect toy.twa --exact proven", "--exact"),
    ("run toy.twa --exact close", "--exact"),
    ("compile toy.tflite -o a.twa --exact nearly", "--exact nearly"),
    ("inspect toy.twa --objective latency", "--objective"),
    ("inspect toy.twa --jobs 2", "--jobs"),
    ("inspect toy.twa --host-watts 2", "--host-watts"),
    ("inspect toy.tflite --objective nonsense", "--objective"),
    ("inspect toy.tflite --jobs 2", "--jobs"),
    ("inspect toy.tflite --energy-table t.toml", "--energy-table"),
    ("inspect toy.tflite --placement --jobs 2", "--jobs"),
    ("inspect toy.tflite --placement --host-watts 2", "--host-watts"),
    ("inspect toy.tflite --placement --objective nonsense", "--objective nonsense"),
    ("explore toy.tflite -o out --sampler grid --seed 3", "--seed"),
    ("serve --device sim --overlay o.bit", "--overlay"),
    ("serve --config tiny", "--config"),
    ("selftest --device sim --input x.npy", "--input"),
    ("selftest --device sim --expected x.npy", "--expected"),
    ("selftest --device sim --artifact toy.twa --expected x.npy", "--expected"),
]


@pytest.mark.parametrize("line, option", VAIN)
def test_an_option_without_effect_is_refused(
    shell: Shell, toy: Path, artifact: Path, line: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("x.npy", images(2))
    Path("t.toml").touch()
    monkeypatch.setattr(compiling, "compile", lambda *_, **__: pytest.fail("it was compiled"))
    said = shell.fails(*line.split())
    assert option in said
    assert ";" in said or "must be one of" in said  # the way out


def test_a_board_refuses_them_too(artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", images(2))
    assert board(["run", str(artifact), "--device", "sim", "--input", "x.npy", "--overlay", "o.bit"]) == 2
    assert "--overlay: only the pynq device has one" in capsys.readouterr().err


def test_the_objectives_of_the_command_line_are_the_compilers() -> None:
    assert OBJECTIVES.split("|") == list(records.OBJECTIVES)


@pytest.mark.parametrize("host", ["", "\udcff", "a..b", "x" * 300, "two words", ".a", "\x1b", "[::1", "256.1.1.1.1"])
def test_a_host_that_no_machine_is_called_is_one_line(shell: Shell, host: str) -> None:
    assert "host" in shell.fails("serve", "--device", "sim", "--config", "tiny", "--host", host)


def test_syntax_errors_of_serve_and_selftest_are_one_line(shell: Shell) -> None:
    assert "--port: \\x1b" in shell.fails("serve", "--port", "\x1b")
    assert "selftest --help" in shell.fails("selftest", "--nonsense")
    assert shell("serve", "--help") == 0
    assert shell.out.startswith("usage: tilewright serve")
