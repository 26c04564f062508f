"""Files of any name that the file system has: not UTF-8, with control characters, very long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tilewright.runtime.artifact import Artifact

#: name without the suffix, as bytes, and as artifacts have it
NAMES = [
    (b"n\xff", r"n\xff"), (b"n\x1b[31m", "n\x1b[31m"), (b"two\nlines", "two\nlines"), (b"x" * 240, "x" * 240),
    (b"\xe2\x80\xaen", "\u202en"), (b"[red]n", "[red]n"), (b" ", " "), (b"-n", "-n"), (b"a=2", "a=2"),
]  # fmt: skip


@pytest.mark.parametrize("stem, name", NAMES)
def test_a_model_of_any_name_goes_all_the_way(shell: Shell, stem: bytes, name: str, toy: Path) -> None:
    model = Path(os.fsdecode(b"./" + stem + b".tflite"))
    toy.rename(model)
    given = f"./{model}"
    assert shell("run", given, "--config", "tiny", "--html", "r.html", "--report", "r.json", "--trace", "t.json") == 0
    page = Path("r.html").read_text()
    assert [c for c in page if not c.isprintable() and c != "\n"] == []
    assert shell("compile", given, "--config", "tiny", "-o", "a.twa") == 0
    assert Artifact.load("a.twa").name == name
    for command in (["inspect"], ["run", "--html", "s.html"]):
        assert shell(*command, "a.twa") == 0, shell.err
        assert [c for c in shell.out if not c.isprintable() and c != "\n"] == []
    assert page.partition("</title>")[0] == Path("s.html").read_text().partition("</title>")[0]
    assert shell("compare", "r.json", "r.json", "--markdown", "m.md") == 0


def test_names_in_errors_control_no_terminal_and_have_a_limit(shell: Shell) -> None:
    for name in ("\x1b]0;title\x07", "\u202e", os.fsdecode(b"\xff"), "x" * 4000, "a/" * 2000):
        line = shell.fails("run", f"{name}.tflite")
        assert len(line) <= 1020
        assert line.rstrip("\n").isprintable()
