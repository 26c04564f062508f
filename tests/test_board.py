"""The command as it is where nothing but NumPy is installed: on a board, or before a group of packages is chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.network import images, make_artifact, reference
from tilewright.board import EXTRAS, main
from tilewright.cli.app import COMMANDS, GROUPS

Captured = pytest.CaptureFixture[str]


def refusal(capsys: Captured, *arguments: str) -> str:
    """The line with which a call ends that is refused."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_every_command_is_there_or_names_what_to_install(capsys: Captured) -> None:
    full = {name for name, *_ in (*COMMANDS, *GROUPS)}
    assert full - {"run", "config"} == set(EXTRAS)
    for command, extra in EXTRAS.items():
        assert f"pip install 'tilewright[{extra}]'" in refusal(capsys, command, "x")


@pytest.mark.parametrize("model", ["m.tflite", "M.ONNX", "m.pt2"])
def test_a_model_wants_the_compiler(model: str, capsys: Captured) -> None:
    for arguments in ([model], [model, "--check"], ["--input", "x.npy", model]):
        assert "pip install 'tilewright[compile]'" in refusal(capsys, "run", *arguments)


def test_what_needs_nothing_works(capsys: Captured) -> None:
    for arguments, said in (
        ([], "usage:"),
        (["--help"], "Example:"),
        (["--version"], "tilewright "),
        (["config", "list"], "tiny"),
    ):
        assert main(arguments) == 0
        assert said in capsys.readouterr().out
    assert "no such command here; tilewright --help lists them" in refusal(capsys, "runn")
    assert "not a Tilewright artifact" in refusal(capsys, "run", __file__, "--input", __file__)


def test_arrays_by_name_in_and_out(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_artifact(output_names=("Identity",)).save("a.twa")
    x = images(2)
    np.savez("x.npz", x=x)
    run = ["run", "a.twa", "--device", "sim", "--input", "x.npz"]
    assert main([*run, "--output", "y.npz"]) == 0
    with np.load("y.npz") as found:
        assert found.files == ["Identity"]
        assert np.array_equal(found["Identity"], reference(x)[1].reshape(2, 32))
    np.savez("x.npz", z=x)
    capsys.readouterr()
    assert "input" in refusal(capsys, *run)
