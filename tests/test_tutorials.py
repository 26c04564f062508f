"""The tutorials and the quick start, carried out: their commands and Python lines run, and print what the page shows.

Blocks marked ``console`` hold commands behind ``$`` and what they print, blocks marked ``python`` are doctests; both
share a folder, Python lines also their names. ``...`` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: pages, and the packages beyond those of the tests that they need
PAGES = {
    "start.md": (),
    "tutorials/own_model.md": (),
    "tutorials/parameter.md": (),
    "tutorials/explore.md": (),
    "tutorials/programs.md": (),
    "tutorials/tvm.md": ("tvm",),
    "tutorials/pytorch_to_board.md": ("torch", "torchao", "onnxscript"),
}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples and a ``tilewright`` on the path, and the working directory."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "tilewright"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tilewright "$@"\n')
    command.chmod(0o755)
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(folder)
    return folder


def blocks(page: str, *kinds: str) -> list[tuple[str, str]]:
    """Kind and content of the page's code blocks of these kinds, in order; there is one at least."""
    every = re.findall(r"^```([^\n]*)\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    found = [(kind, body) for kind, body in every if kind in kinds]
    assert found, f"{page} has none of the blocks {kinds}"
    return found


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a ``console`` block with what it is to print."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def run(command: str, expected: str) -> None:
    """One command: succeeds, or fails as the page shows, and prints what the page shows."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    refused = expected.startswith("tilewright: ")
    assert (done.returncode == 2) is refused, f"{command}\n{done.stdout}\n{done.stderr}"
    assert refused or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    printed = done.stderr if refused else "\n" + done.stdout
    wanted = expected if refused else "\n" + expected
    assert doctest.OutputChecker().check_output(wanted, printed, RULES), f"{command}\n{printed}"


def run_python(page: str, body: str, names: dict[str, Any]) -> None:
    """The lines of a ``python`` block."""
    test = doctest.DocTestParser().get_doctest(body, names, page, str(DOCS / page), 0)
    assert test.examples
    report: list[str] = []
    test.globs = names
    failed = doctest.DocTestRunner(optionflags=RULES, verbose=False).run(test, out=report.append, clear_globs=False)
    assert failed.failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_does_what_it_says(page: str, clone: Path) -> None:
    if missing := [name for name in PAGES[page] if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}: pip install 'tilewright[torch]'")
    names: dict[str, Any] = {}
    for kind, body in blocks(page, "console", "python"):
        if kind == "python":
            run_python(page, body, names)
        else:
            for command, expected in commands(body):
                run(command, expected)


@pytest.mark.slow
def test_the_changed_parameter_in_rtl(clone: Path, toolchain: None) -> None:
    page = "tutorials/parameter.md"
    assert blocks(page, "console slow")
    for _, body in blocks(page, "console", "console slow"):
        for command, expected in commands(body):
            run(command, expected)


def test_every_tutorial_is_carried_out() -> None:
    here = {path.name for path in (DOCS / "tutorials").glob("*.md")} - {"add_alu_function.md"}
    assert here == {Path(page).name for page in PAGES if page.startswith("tutorials/")}
