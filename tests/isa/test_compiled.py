"""Cached machine code is found again, belongs to the sources it was made from, and needs no writable home."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilewright.sim
from tilewright.isa import compiled, machine_code, tokens
from tilewright.isa.machine_code import SUFFIX, MachineCode
from tilewright.sim.event_loop import data_end

#: modules that kernels take no constant from: what calls them does
HARMLESS = (
    "isa", "isa.by_reference", "isa.compiled", "isa.machine_code", "isa.program", "isa.registers", "isa.tensors",
    "isa.uops", "isa.verifier", "isa.verify.errors", "errors", "kinds", "ranges",
)  # fmt: skip

CALL = "from tilewright.sim.event_loop import response_cycle; print(response_cycle(5, 3, -1))"


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    found = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", script], env=found, capture_output=True, text=True, check=True)


def test_kernels_are_kept_in_a_folder_of_their_sources() -> None:
    assert data_end(1, 16, 32, -1) == 48
    kernel: Any = data_end
    folder = kernel._code.folder
    assert folder.name.startswith("sim-")
    assert list(folder.glob(f"event_loop.data_end-*{SUFFIX}"))


def test_a_second_process_finds_the_code_and_damaged_code_is_made_again(tmp_path: Path) -> None:
    first = run(CALL, TILEWRIGHT_CACHE=str(tmp_path))
    assert first.stdout == "8\n"
    assert re.fullmatch(r"tilewright: first run: compiling kernels.*\n", first.stderr)
    assert run(CALL, TILEWRIGHT_CACHE=str(tmp_path)).stderr == ""
    (kept,) = tmp_path.glob(f"kernels/sim-*/*{SUFFIX}")
    kept.write_bytes(kept.read_bytes()[:-1])
    again = run(CALL, TILEWRIGHT_CACHE=str(tmp_path))
    assert again.stdout == "8\n"


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", CALL]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)
    ]
    ended = [process.communicate() for process in started]
    assert [out for out, _ in ended] == [b"8\n"] * 3
    assert len([said for _, said in ended if said]) == 1


def test_code_that_a_wheel_brings_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied to another path, as an installation does; of other sources it is not looked at."""
    kernel: Any = data_end
    code = kernel._code
    folder = code.folder
    assert folder is not None
    monkeypatch.setattr(machine_code, "SHIPPED", tmp_path)
    monkeypatch.setattr(machine_code, "_runs_shipped", lambda: True)
    data_end(1, 16, 32, -1)
    code = MachineCode("sim", Path(str(tilewright.sim.__file__)).parent)  # a new one, as in a new process
    brought = tmp_path / code.version((machine_code._machine()[0], machine_code.SHIPPED_CPU, ""))
    shutil.copytree(folder, brought)
    assert code.places("event_loop.data_end")[0].parent == brought
    found = [path for path in code.places(next(brought.glob(f"event_loop.data_end*{SUFFIX}")).stem) if path.is_file()]
    assert found[0].parent == brought


def test_every_constant_module_that_kernels_import_is_hashed() -> None:
    """A kernel that reads a constant from anywhere else could run stale code after an edit there."""
    hashed = {module.__name__ for module in machine_code.CONSTANT_MODULES}
    harmless = {f"tilewright.{name}" for name in HARMLESS}
    imported = set()
    for package in (tilewright.sim, tokens):
        for path in Path(str(package.__file__)).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tilewright"):
                    imported.add(node.module)
    outside = {name for name in imported if not name.startswith(("tilewright.sim", "tilewright.isa.tokens"))}
    assert outside <= hashed | harmless


def test_the_version_follows_every_source_and_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []
    for name in ("a.py", "b.py"):
        sources.append(tmp_path / name)
        sources[-1].write_text("x = 1\n")
    monkeypatch.setattr(machine_code, "_sources", lambda: sources)
    versions = {MachineCode("sim").version(machine) for machine in (("linux", "one", ""), ("linux", "other", ""))}
    sources[1].write_text("x = 2\n")
    machine_code._content.cache_clear()
    versions.add(MachineCode("sim").version(("linux", "one", "")))
    assert len(versions) == 3


def test_what_kernels_call_is_compiled_into_them() -> None:
    """A kernel that another one calls has no machine code of its own until Python calls it."""

    @compiled.compiler(None)
    def inner(x: int) -> int:
        return 3 * x

    @compiled.compiler(None)
    def outer(x: int) -> int:
        return inner(x) + 1

    assert outer(5) == 16
    assert not inner.overloads  # type: ignore[attr-defined]
    assert inner(5) == 15
    assert inner.overloads  # type: ignore[attr-defined]


def test_an_exception_comes_through() -> None:
    @compiled.compiler(None)
    def inner(x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        return x

    @compiled.compiler(None)
    def outer(x: int) -> int:
        return inner(x)

    with pytest.raises(ValueError, match="negative"):
        outer(-1)


def test_unwritable_home_falls_back(tmp_path: Path) -> None:
    """With a file where the cache folder should be, kernels still run."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    script = f"{CALL}; from tilewright.isa.machine_code import MachineCode; print(MachineCode('sim').folder)"
    value, folder = run(script, TILEWRIGHT_CACHE=str(blocked), TMPDIR=str(tmp_path)).stdout.split()
    assert value == "8"
    assert folder.startswith(str(tmp_path))
    assert not folder.startswith(str(blocked))


def test_a_missing_cache_is_said_once(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    script = (
        "from tilewright.isa import machine_code; from pathlib import Path;"
        f"machine_code.candidates = lambda: [Path({str(blocked)!r})];"
        "print(*(machine_code.MachineCode(part).folder for part in ('sim', 'plan')))"
    )
    done = run(script)
    assert done.stdout == "None None\n"
    assert done.stderr == (
        f"kernels are compiled anew by every process, which takes up to a minute: {blocked} "
        "cannot be written; set TILEWRIGHT_CACHE to a folder that can\n"
    )


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "candidates", lambda: [tmp_path])
    folder = MachineCode("sim").folder
    assert folder is not None
    os.chown(folder, 12345, 12345)
    assert MachineCode("sim").folder is None


def test_old_versions_are_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of another part").mkdir()
    for number in range(machine_code.KEPT_VERSIONS + 3):
        (tmp_path / f"sim-old{number}").mkdir(parents=True)
        os.utime(tmp_path / f"sim-old{number}", (number, number))
    monkeypatch.setattr(machine_code, "candidates", lambda: [tmp_path])
    folder = MachineCode("sim").folder
    left = {path.name for path in tmp_path.glob("sim-*")}
    assert (tmp_path / "of another part").exists()
    assert folder is not None
    assert folder.name in left
    assert len(left) == machine_code.KEPT_VERSIONS
    assert "sim-old0" not in left


def test_no_other_decorator_is_used() -> None:
    """Numba's own cache does not see constants of other files: stale code would read wrong columns."""
    root = Path(__file__).parents[2]
    parts = ("tilewright", "isa", "sim", "hw", "jit", "runtime", "dse", "bench")
    users = {
        str(path.relative_to(root))
        for part in parts
        for path in (root / part).glob("**/*.py")
        if re.search(r"\bnjit\b|CPUDispatcher", path.read_text())
        and not path.is_relative_to(root / "tilewright" / "isa")
    }
    assert {name for name in users if not name.startswith("tilewright/")} == {"isa/compiled.py"}
