"""An artifact file is verified once on a machine: what is kept of that is of this file and this verifier alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.network import make_artifact
from tilewright.files import CACHE_VARIABLE
from tilewright.runtime import verified
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    return folder


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are verified."""
    found: list[Any] = []
    monkeypatch.setattr("tilewright.isa.verifier.verify", found.append)
    return found


@pytest.fixture
def file(tmp_path: Path, cache: Path) -> Path:
    make_artifact().save(tmp_path / "a.twa")
    return tmp_path / "a.twa"


def test_a_file_is_verified_once(file: Path, seen: list[Any]) -> None:
    Executable.load(file)
    assert len(seen) == 1
    Executable.load(file)
    file.rename(file.with_name("b.twa"))
    Executable.load(file.with_name("b.twa"))
    assert len(seen) == 1


def test_what_is_no_file_is_verified_each_time(file: Path, seen: list[Any]) -> None:
    Executable.load(file)
    Executable(Artifact.from_bytes(file.read_bytes()))
    Executable(dataclasses.replace(Artifact.load(file), programs=make_artifact().programs))
    assert len(seen) == 3


def test_another_file_and_another_verifier_are_not_known(
    file: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Executable.load(file)
    make_artifact(name="other").save(file.with_name("other.twa"))
    Executable.load(file.with_name("other.twa"))
    monkeypatch.setattr(verified, "source_version", lambda packages: "of another verifier")
    Executable.load(file)
    assert len(seen) == 3


def test_a_program_that_does_not_pass_leaves_no_mark(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: object) -> None:
        raise ValueError("illegal")

    monkeypatch.setattr("tilewright.isa.verifier.verify", refuse)
    for _ in range(2):
        with pytest.raises(ValueError, match="illegal"):
            Executable.load(file)
    assert not cache.exists()


def test_a_saved_executable_is_known(cache: Path, tmp_path: Path, seen: list[Any]) -> None:
    Executable(make_artifact()).save(tmp_path / "a.twa")
    assert len(seen) == 1
    Executable.load(tmp_path / "a.twa")
    assert len(seen) == 1


def test_without_a_cache_it_is_verified_each_time(
    file: Path, tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("a file where the folder would be")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "taken"))
    Executable.load(file)
    Executable.load(file)
    assert len(seen) == 2


def test_marks_take_little_room(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "_MOST_BYTES", 2 * len(verified._MARK))
    for k in range(4):
        make_artifact(name=f"network{k}").save(file)
        Executable.load(file)
    assert len(list((cache / verified.FOLDER).iterdir())) == 2
