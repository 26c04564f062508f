"""What a notebook's cell prints, and ``tw.explore``, which is the command in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright as tw
from tests.conftest import ModelCase
from tests.runtime.network import images, make_artifact
from tilewright.__main__ import main
from tilewright.runtime.executable import Executable

SMALL = 10_000  #: characters that a cell may hold


def test_what_a_cell_shows_is_small_and_names_what_it_is() -> None:
    executable = Executable(make_artifact(name="<toy>"))
    _, report = executable.run(images(2))
    assert repr(executable) == "<Executable <toy> for tiny on sim>"
    assert repr(report).startswith("<Report of <toy> on tiny (sim): ")
    for made in (executable, report, executable.artifact, executable.artifact.programs[0]):
        assert len(repr(made)) < 200
    assert len(repr(executable.artifact.programs[0].segments[0])) < 200
    page = report._repr_html_()
    assert "&lt;toy&gt;" in page
    assert "<script" not in page
    assert all(layer["why"] in page for layer in report.layers if layer["place"] == "accelerator")
    shown = executable._repr_html_()
    assert "&lt;toy&gt;" in shown
    assert "int8 [1, 2, 4, 4]" in shown
    assert max(len(page), len(shown)) < SMALL


def test_a_large_network_is_small_in_a_cell_too(model_case: Callable[[str], ModelCase]) -> None:
    case = model_case("mobilenet_person")
    executable = tw.compile(case.model)
    _, report = executable.run(case.x[:1])
    assert len(report._repr_html_()) < SMALL
    assert len(executable._repr_html_()) < SMALL
    assert len(repr(report)) + len(repr(executable)) < 400


def test_explore_gives_what_the_command_gives(
    model_case: Callable[[str], ModelCase], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna", reason="the explorer needs optuna: pip install 'tilewright[explore]'")
    model = model_case("autoencoder_toycar").model
    found = tw.explore(
        model, tmp_path / "python", trials=24, values=["block_in=8,16", "block_out=8,16"], simulate=1, workers=0,
        weights={model.stem: 2},
    )  # fmt: skip
    command = [
        "explore", str(model), "-o", str(tmp_path / "command"), "--trials", "24", "--set", "block_in=8,16",
        "--set", "block_out=8,16", "--simulate", "1", "--workers", "0", "--weight", f"{model.stem}=2",
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["tilewright", *command])
    assert main() == 0
    python, by_command = (json.loads((tmp_path / name / "front.json").read_text()) for name in ("python", "command"))
    assert python == by_command
    assert {file.name for file in found.files} == {file.name for file in (tmp_path / "command").iterdir()} - {
        "trials.db"
    }
    assert found.best == tw.load_config(tmp_path / "command" / "best.toml")
    assert found.configs[0] == found.best
    assert len(found.points) == len(python["front"])
    assert "24 trials" in repr(found)
    assert len(found._repr_html_()) < SMALL


def test_explore_names_what_is_wrong_before_it_reads_models(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the explorer needs optuna: pip install 'tilewright[explore]'")
    with pytest.raises(tw.TilewrightError, match="no such board"):
        tw.explore("nothing.tflite", tmp_path, board="nowhere")
