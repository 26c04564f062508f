"""The command as it is where nothing but NumPy is installed: on a board, or before a group of packages is chosen."""

from __future__ import annotations

import pytest

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
