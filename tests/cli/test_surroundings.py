"""Whatever the process is given around its command line: streams, folders, encodings, terminals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, own_cache
from tests.runtime.network import images, make_artifact
from tilewright.runtime.device import open_device
from tilewright.runtime.executable import Executable

LINES = [
    "config show", "run toy.twa", "run --help", "serve --help", "disasm p.twp",
    *(pytest.param(line, marks=pytest.mark.slow) for line in ("models list", "inspect toy.twa", "--help")),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from tests.isa.test_assembler import LEGAL
    from tilewright.isa.assembler import assemble
    from tilewright.isa.container import dump

    artifact = make_artifact()
    Executable(artifact, open_device("sim", artifact.config)).run(images(1))  # a first run tells of compiling kernels
    artifact.save(tmp_path / "toy.twa")
    (tmp_path / "p.twp").write_bytes(dump(assemble(LEGAL, "p.s")))
    return tmp_path


def shell(folder: Path, line: str, **environment: str | None) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell, in which ``tilewright`` is this one; an environment variable that is None is not there."""
    path = f"{sys.executable} -m tilewright"
    found = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "TILEWRIGHT_CACHE": own_cache(folder / "cache"),
        **environment,
    }
    given = {name: value for name, value in found.items() if value is not None}
    return subprocess.run(
        ["bash", "-c", re.sub("^tilewright", path, line)], cwd=folder, env=given, capture_output=True, timeout=300
    )


def complaints(done: subprocess.CompletedProcess[bytes]) -> bytes:
    """The error stream without lines of progress, which come where a machine is slow."""
    return re.sub(rb"(?m)^[\w :]+ \d+/\d+\n", b"", done.stderr)


@pytest.mark.parametrize("line", LINES)
def test_a_full_disk_is_an_error_and_a_closed_output_is_none(folder: Path, line: str) -> None:
    full = shell(folder, f"tilewright {line} > /dev/full")
    assert (full.returncode, complaints(full)) == (2, b"tilewright: the output: no space left on device\n")
    closed = shell(folder, f"tilewright {line} >&- <&-")
    assert (closed.returncode, complaints(closed)) == (0, b"")
    gone = shell(folder, f"tilewright {line} | true; exit ${{PIPESTATUS[0]}}")
    assert gone.returncode in (0, 2)  # 0: all of it fitted in the pipe before its reader went
    assert complaints(gone) == b""


def test_outputs_are_whole_where_streams_are_closed(folder: Path) -> None:
    done = shell(folder, "tilewright run toy.twa --report r.json --html r.html >&- 2>&- <&-")
    assert done.returncode == 0
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    assert (folder / "r.json").read_text().endswith("}\n")


@pytest.mark.parametrize("line", ["run nothing", "-v run nothing", "selftest --device nothing", "run toy.twa --input"])
def test_an_error_that_nobody_can_be_told_is_one_all_the_same(folder: Path, line: str) -> None:
    """Python 3.11.2 ended with 120: it tried to write the line once more."""
    assert shell(folder, f"tilewright {line} 2> /dev/full").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": None, "TILEWRIGHT_CACHE": None}, {"TMPDIR": "/nowhere"}, {"TMPDIR": "/proc"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, {"COLUMNS": "20"},
        {"COLUMNS": "0"}, {"COLUMNS": "-3"}, {"COLUMNS": "many"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"TERM": None},
        {"PYTHONOPTIMIZE": "2"}, {"LINES": "0", "COLUMNS": "1", "FORCE_COLOR": "1"},
    ],
)  # fmt: skip
def test_any_surroundings_will_do(folder: Path, environment: dict[str, str | None]) -> None:
    for line in ("run toy.twa --html r.html", "inspect toy.twa", "run --help", "explore --parameters"):
        done = shell(folder, f"tilewright {line}", **environment)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        assert done.stdout


def test_a_board_says_the_same_of_a_full_disk(folder: Path) -> None:
    board = f"{sys.executable} -c 'import sys; from tilewright.board import main; sys.exit(main(sys.argv[1:]))'"
    for line in ("config show", "serve --help"):
        done = shell(folder, f"{board} {line} > /dev/full")
        assert (done.returncode, done.stderr) == (2, b"tilewright: the output: no space left on device\n")
        assert shell(folder, f"{board} {line} >&-").returncode == 0


def test_where_an_error_comes_from_is_printable_too(folder: Path) -> None:
    done = shell(folder, "tilewright -v run $'\\x1b[31m.tflite'")
    assert done.returncode == 2
    assert b"Traceback" in done.stderr
    assert b"\x1b" not in done.stderr
    assert b"tilewright: \\x1b[31m.tflite: cannot be read" in done.stderr
