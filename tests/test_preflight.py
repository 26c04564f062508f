"""What the machine must have: looked for before anything is installed, and named in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import preflight
from tests.conftest import HANG, REPOSITORY


def test_a_machine_that_has_all_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = {what: (lambda: True, use, optional) for what, (_, use, optional) in preflight.NEEDS.items()}
    monkeypatch.setattr(preflight, "NEEDS", there)
    assert preflight.main([]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("what", list(preflight.NEEDS))
def test_what_is_missing_is_named_with_one_line_for_all(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = {name: (lambda name=name: name != what, use, free) for name, (_, use, free) in preflight.NEEDS.items()}
    monkeypatch.setattr(preflight, "NEEDS", needs)
    optional = needs[what][2]
    assert preflight.main([]) == (0 if optional else 1)
    told = capsys.readouterr().err
    assert f"{'note' if optional else 'missing'}: {what} is not installed" in told
    assert told.count("apt install") == 1
    assert told.splitlines()[1] == f"On Debian and Ubuntu, as root: {preflight.APT}"
    assert preflight.lacking(what) == f"{what} is not installed: {preflight.APT}"
    assert not any(preflight.lacking(other) for other in needs if other != what)
    assert preflight.main(["demo"]) == 0, "the demo compiles nothing"


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert preflight.main(["demo"]) == 1
    assert "needs Python 3.11 or newer" in capsys.readouterr().err


def test_a_python_that_cannot_make_environments_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    monkeypatch.setattr(preflight, "find_spec", lambda name: None if name == "ensurepip" else name)
    assert preflight.main(["demo"]) == 1
    told = capsys.readouterr().err
    assert "missing: venv is not installed" in told
    assert told.splitlines()[-1] == f"On Debian and Ubuntu, as root: {preflight.DEMO_APT}"


def test_the_interpreters_library_is_the_one_that_cocotb_loads() -> None:
    find_libpython = pytest.importorskip("find_libpython", reason="the rtl extra is not installed")
    found = find_libpython.find_libpython()
    assert (found is not None) == preflight.has_libpython()
    if found is not None:
        assert Path(found).name.startswith(preflight.libpython().removesuffix(".1.0"))


def test_headers_and_programs_are_really_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert not preflight.has_compiler()
    assert not preflight.has_zlib()
    compiler = tmp_path / "c++-of-a-test"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", compiler.name)
    assert preflight.has_compiler()
    assert not preflight.has_zlib()
    compiler.write_text("#!/bin/sh\nexit 0\n")
    assert preflight.has_zlib()


@pytest.mark.parametrize("target", ["setup", "test", "test-all"])
def test_make_looks_before_it_installs(target: str, tmp_path: Path) -> None:
    environment = {**os.environ, "CXX": "no-such-compiler"}
    command = ["make", "-j4", target, f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 2
    assert "missing: g++ is not installed" in done.stderr
    assert preflight.APT in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_names_the_python_that_is_not_there(tmp_path: Path) -> None:
    command = ["make", "demo", f"VENV={tmp_path / 'venv'}", "PYTHON=python9.9"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 2
    assert "There is no python9.9" in done.stderr


def test_the_readme_has_the_same_line() -> None:
    text = (REPOSITORY / "README.md").read_text()
    assert text.count("apt install") == 1
    assert preflight.APT in text
