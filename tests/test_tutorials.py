"""The tutorials in ``docs/`` carried out on a copy of the repository: patches applied, commands run, as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "add_alu_function.md"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "results", "out")


def blocks(kind: str) -> list[str]:
    """The contents of the page's code blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with all patches of the page applied."""
    if shutil.which("git") is None:
        pytest.skip("git, which applies the patches, is not installed")
    root = tmp_path_factory.mktemp("tutorial") / "tilewright"
    shutil.copytree(REPOSITORY, root, symlinks=True, ignore=NOT_COPIED)
    for patch in blocks("diff"):
        subprocess.run(["git", "apply", "-"], cwd=root, input=patch, text=True, check=True)
    return root


def run(copy: Path, command: str) -> str:
    """Run one command of the page in the copy, with caches of its own; what it printed."""
    environment = {
        **os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "TILEWRIGHT_CACHE": str(copy.parent / "cache"), "NUMBA_CACHE_DIR": str(copy.parent / "cache"),
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }  # fmt: skip
    done = subprocess.run(command, shell=True, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_new_entries_are_known_everywhere_at_once(copy: Path) -> None:
    for block in blocks("sh"):
        for command in block.splitlines():
            run(copy, command)
    page = (copy / "docs" / "isa.md").read_text()
    assert "| ABS | `(0 - x) if (x < 0) else x` |" in page
    assert "| TRUNCATE | " in page
    assert "| rounding | 189:187 | 3 | Rounding |" in page


@pytest.mark.slow
def test_simulator_rtl_and_hls_agree_on_the_new_entries(copy: Path) -> None:
    for block in blocks("sh slow"):
        for command in block.splitlines():
            assert " passed" in run(copy, command)
