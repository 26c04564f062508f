"""The documentation site builds without a warning, and what it makes of the source is whole."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import generated
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if missing := [name for name in ("sphinx", "myst_parser", "furo") if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}: pip install 'tilewright[docs]'")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "site",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tilewright explore" in (tmp_path / "site" / "commands.html").read_text()


def test_every_page_is_on_the_site() -> None:
    """Sphinx warns of a page that no list names; this says so in a second."""
    named = set(re.findall(r"^([a-z_0-9/]+)$", (DOCS / "index.md").read_text(), re.M))
    assert named == {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")} - {"index"}


def test_every_picture_is_shown() -> None:
    shown = set(re.findall(r"pictures/(\w+)\.svg", "".join(path.read_text() for path in DOCS.glob("*.md"))))
    assert shown == {path.stem for path in (DOCS / "pictures").iterdir()}


def test_every_command_has_an_example() -> None:
    parts = generated.commands().split("\n## ")[1:]
    assert {"tilewright run", "tilewright serve", "tilewright models list"} <= {
        part.partition("\n")[0] for part in parts
    }
    assert [part.partition("\n")[0] for part in parts if "Example: tilewright" not in part] == []
    assert all("Usage: tilewright " in part or "usage: tilewright " in part for part in parts)


def test_errors_have_their_way_out() -> None:
    text = generated.errors()
    assert "## ConfigError" in text
    assert r"| ‹path›: is a compiled artifact, not a model | load it with tilewright.load |" in text
    assert "## AssemblyError" in text
