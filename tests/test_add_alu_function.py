"""The tutorial that adds an ALU function, on a copy of the repository: patches applied, commands run, as they stand.

Then functions and rounding modes of all shapes that a lane takes, more of them than the fields of today hold.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "tutorials" / "add_alu_function.md"
#: entries, and how the tests state them, behind those of the page
SHAPES = (
    (
        '    ABS = 6, abs(x), "the absolute value; of -2^31 itself, for 2^31 wraps"\n',
        '    SHL = 7, shift_right(~x, -(y & 31)), ""\n    MEAN = 8, (x + y) >> 1, ""\n    TIMES = 9, y * x, ""\n'
        '    SEVEN = 10, constant(7), ""\n    BYTE = 11, signed(y, 8) | (x & 256), ""\n',
    ),
    (
        '    TRUNCATE = 5, select(negative, half - (shift > 0), -half), False, "toward zero"\n',
        '    AWAY = 6, -(negative & (shift > 0)), False, ""\n    DOWN = 7, -half, True, ""\n',
    ),
)
STATED = (
    (
        '    "ABS": lambda a, b: abs(a),\n',
        '    "SHL": lambda a, b: ~a << (b & 31),\n    "MEAN": lambda a, b: (a + b) // 2,\n'
        '    "TIMES": lambda a, b: a * b,\n    "SEVEN": lambda a, b: 7,\n'
        '    "BYTE": lambda a, b: ((b + 128) % 256 - 128) | (a & 256),\n',
    ),
    (
        '    "TRUNCATE": lambda product, shift: int(Fraction(product, 1 << shift)),\n',
        '    "AWAY": lambda product, shift: half_away(Fraction(product, 1 << shift)),\n'
        '    "DOWN": lambda product, shift: product >> shift & (-1 if product % (1 << shift) or not shift else -2),\n',
    ),
)
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "results", "out")


def blocks(kind: str) -> list[str]:
    """The contents of the page's code blocks of a kind, of which there is one at least."""
    found: list[str] = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found, f"{PAGE.name} has no block {kind}"
    return found


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
        "TILEWRIGHT_CACHE": str(copy.parent / "cache"),
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


@pytest.mark.slow
def test_every_shape_that_a_lane_takes_agrees_everywhere(copy: Path) -> None:
    """This test comes last: it changes the copy."""
    for name, entries in (("isa/functions.py", SHAPES), ("tests/isa/test_functions.py", STATED)):
        content = (copy / name).read_text()
        for after, more in entries:
            assert content.count(after) == 1
            content = content.replace(after, after + more)
        (copy / name).write_text(content)
    for tests in (
        "tests/isa/test_functions.py tests/sim/test_functional.py tests/sim/test_functions.py",
        "tests/hw/test_engines.py tests/hw/test_hls.py -k extreme",
    ):
        assert " passed" in run(copy, f"python -m pytest -q {tests}")
