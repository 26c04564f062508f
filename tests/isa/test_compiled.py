"""Cached machine code is found again, belongs to the sources it was made from, and needs no writable home."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright.sim
from tilewright.isa import compiled, tokens
from tilewright.sim import native
from tilewright.sim.event_loop import data_end

#: modules that kernels take no constant from: what calls them does
HARMLESS = (
    "isa", "isa.compiled", "isa.program", "isa.registers", "isa.tensors", "isa.uops", "isa.verifier",
    "isa.verify.errors", "errors", "kinds", "ranges",
)  # fmt: skip


def test_kernels_are_cached_in_a_folder_of_their_sources() -> None:
    assert native.CACHE_FOLDER is not None
    assert data_end(1, 16, 32, -1) == 48
    assert list(native.CACHE_FOLDER.rglob("event_loop.data_end*.nbi"))


def test_every_constant_module_that_kernels_import_is_hashed() -> None:
    """A kernel that reads a constant from anywhere else could run stale code after an edit there."""
    hashed = {module.__name__ for module in compiled.CONSTANT_MODULES}
    harmless = {f"tilewright.{name}" for name in HARMLESS}
    imported = set()
    for package in (tilewright.sim, tokens):
        for path in Path(str(package.__file__)).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tilewright"):
                    imported.add(node.module)
    outside = {name for name in imported if not name.startswith(("tilewright.sim", "tilewright.isa.tokens"))}
    assert outside <= hashed | harmless


def test_the_hash_follows_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []
    for name in ("a.py", "b.py"):
        sources.append(tmp_path / name)
        sources[-1].write_text("x = 1\n")
    monkeypatch.setattr(compiled, "_sources", lambda: sources)
    before = compiled._source_hash()
    sources[1].write_text("x = 2\n")
    assert compiled._source_hash() != before


def test_unwritable_home_falls_back(tmp_path: Path) -> None:
    """With a file where the cache folder should be, kernels still run."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    script = (
        "from tilewright.sim import native; from tilewright.sim.event_loop import response_cycle;"
        "print(native.CACHE_FOLDER, response_cycle(5, 3, -1))"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(blocked), "TMPDIR": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    folder, value = run.stdout.split()
    assert value == "8"
    assert folder.startswith(str(tmp_path))
    assert not folder.startswith(str(blocked))


def test_a_missing_cache_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    script = "from tilewright.sim import native; print(native.CACHE_FOLDER)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(blocked)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "None\n"
    assert run.stderr == (
        f"kernels are compiled anew by every process, which takes up to a minute: {blocked}/tilewright-kernels "
        "cannot be written; set NUMBA_CACHE_DIR to a folder that can\n"
    )


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = compiled._cache_folder()
    assert folder is not None
    os.chown(folder, 12345, 12345)
    assert compiled._cache_folder() is None


def test_old_versions_are_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "tilewright-kernels"
    (tmp_path / "of another package").mkdir()
    for number in range(compiled.KEPT_VERSIONS + 3):
        (base / f"old{number}").mkdir(parents=True)
        os.utime(base / f"old{number}", (number, number))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = compiled._cache_folder()
    left = {path.name for path in base.iterdir()}
    assert (tmp_path / "of another package").exists()
    assert folder is not None
    assert folder.name in left
    assert len(left) == compiled.KEPT_VERSIONS
    assert "old0" not in left


def test_no_other_decorator_is_used() -> None:
    """Numba's own cache does not see constants of other files: stale code would read wrong columns."""
    root = Path(__file__).parents[2]
    parts = ("tilewright", "isa", "sim", "hw", "jit", "runtime", "dse", "bench")
    users = {
        str(path.relative_to(root))
        for part in parts
        for path in (root / part).glob("**/*.py")
        if "njit" in path.read_text() and not path.is_relative_to(root / "tilewright" / "sim")
    }
    assert {name for name in users if not name.startswith("tilewright/")} == {"isa/compiled.py"}
