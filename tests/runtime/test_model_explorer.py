"""Node data for Model Explorer: each value at the node of the file that it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tilewright as tw
from tests.conftest import REPOSITORY
from tests.runtime.network import images, make_artifact
from tilewright.cli.app import main
from tilewright.runtime.device import open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.report.model_explorer import SETS

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


def written(report: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """The sets of data by name, as read from their files: the values by the name of a node's output."""
    files = report.save_model_explorer(folder / "net.json")
    assert [path.name for path in files] == [f"net-{name}.json" for name in SETS]
    sets = [json.loads(path.read_text()) for path in files]
    return {name: {k: v["value"] for k, v in each["results"].items()} for name, each in zip(SETS, sets, strict=True)}


def test_every_value_is_at_a_node_of_the_file(tmp_path: Path) -> None:
    exe = tw.compile(DIGITS, "tiny")
    _, report = exe.run(np.zeros(exe.inputs[0].shape, exe.inputs[0].dtype))
    found = written(report, tmp_path)
    nodes = {node.name for node in onnx.load(DIGITS).graph.node}
    assert all(values.keys() <= nodes for values in found.values())
    assert sum(found["cycles"].values()) == report.cycles
    assert found["ratio"].keys() == found["cycles"].keys()
    assert min(found["ratio"].values()) >= 1
    assert found["place"].keys() == found["exact"].keys() >= found["cycles"].keys()
    assert {found["place"][name] for name in found["cycles"]} == {"accelerator"}
    assert set(found["exact"].values()) <= {"proven", "by construction"}


def test_an_artifact_that_knows_no_operators_of_a_file_has_none(tmp_path: Path) -> None:
    artifact = make_artifact()
    _, report = Executable(artifact, open_device("sim", artifact.config)).run(images(1))
    assert not any(written(report, tmp_path).values())


def test_the_command_says_how_to_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(DIGITS), "--config", "tiny", "--model-explorer", str(tmp_path / "d.json")]) == 0
    paths = ",".join(str(tmp_path / f"d-{name}.json") for name in SETS)
    assert f"model-explorer MODEL --node_data_paths={paths}" in capsys.readouterr().out
    assert main(["run", str(DIGITS), "--model-explorer", str(tmp_path / "none" / "d.json")]) == 2
