"""The campaign of command lines draws every command, and sees what is wrong with an ending."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.command_lines import Drawer, faults, parameters, snapshot
from tilewright.cli.app import COMMANDS, GROUPS

LINE = "tilewright: a: cannot be read; give another\n"


def test_every_command_and_option_is_drawn() -> None:
    drawer = Drawer(1, ["a", "b"])
    lines = [drawer.line() for _ in range(4000)]
    assert {name for name, _, _ in lines} == set(parameters())
    assert len(parameters()) == len(COMMANDS) + sum(len(members) for _, _, members in GROUPS) + 2
    words = {word.partition("=")[0] for _, line, _ in lines for word in line}
    for flag in ("--wait", "--reference", "--space", "--html", "--lint", "--base-url", "--expected", "-o"):
        assert flag in words


@pytest.mark.parametrize(
    "code, out, err, changed, what",
    [
        (2, "", LINE, "", None), (0, "x\n", "", "", None), (0, "", "schedules 1/8\n", "", None),
        (2, "", "running 1/2\n" + LINE, "", None), (0, "", "", "out", None), (None, "", "", "", "hang"),
        (1, "", "Traceback (most recent call last):\n  x\n", "", "traceback"), (1, "", "", "", "exit code 1"),
        (-11, "", "", "", "exit code -11"), (2, "", "", "", "0 lines of error"), (2, "", LINE + LINE, "", "2 lines"),
        (2, "", "other\n", "", "1 lines"), (2, "", f"tilewright: {'x' * 2000}\n", "", "a long line"),
        (0, "\x1b[31m", "", "", "control characters"), (2, "", LINE, "more", "left ["),
        (0, "", "", "in", "changed in"), (2, "", LINE, "out", "changed out"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_seen(
    code: int | None,
    out: str,
    err: str,
    changed: str,
    what: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").touch()
    Path("out").touch()
    before = snapshot(tmp_path)
    if changed:
        Path(changed).write_text("other")
    found = list(faults("verify", ["verify"], {"out"}, (code, out, err, 1.0), before, snapshot(tmp_path)))
    if what is None:
        assert found == []
    else:
        assert any(each.startswith(what) for each in found)
