"""``tilewright explore``: one-line errors, help with an example, and a whole small sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli import main
from tilewright.config import load_config

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--help"]) == 0
    assert "Example: tilewright explore" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "options,message",
    [
        (["--objective", "latency,power"], "power: no such objective"),
        (["--set", "block_in=12"], "block_in = 12: must be one of"),
        (["--set", "block_in"], "must be PARAMETER=VALUE"),
        (["--board", "tiny"], "tiny: no such board"),
    ],
)
def test_wrong_requests_are_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")
    assert main(["explore", str(DIGITS), "-o", str(tmp_path / "out"), *options]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_small_sweep_from_file_to_best_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")
    command = ["explore", str(DIGITS), "-o", str(tmp_path), "--set", "block_in=8,16", "--sampler", "grid"]
    assert main([*command, "--simulate", "1"]) == 0
    first = (tmp_path / "front.csv").read_text()
    assert load_config(tmp_path / "best.toml").block_in in (8, 16)
    assert "2 trials" in capsys.readouterr().out
    assert main([*command, "--simulate", "1"]) == 0
    assert (tmp_path / "front.csv").read_text() == first
