"""The command as it is typed, in a folder of its own, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.app import main


class Shell:
    """Runs the command in a folder; keeps what it printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        code = main([str(a) for a in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def fails(self, *arguments: object) -> str:
        """Run; check that it ends with code 2, one line, nothing printed and no new file. Returns the line."""
        before = sorted(self.folder.rglob("*"))
        code = self(*arguments)
        assert code == 2
        assert self.out == ""
        assert self.err.count("\n") == 1
        assert self.err.startswith("tilewright: ")
        assert sorted(self.folder.rglob("*")) == before
        return self.err
