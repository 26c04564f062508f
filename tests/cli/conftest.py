"""A shell, and what is run in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.runtime.network import make_artifact
from tilewright import cache, compiling
from tilewright.files import CACHE_VARIABLE


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path.parent / f"{tmp_path.name}-cache"))
    monkeypatch.chdir(tmp_path)
    cache.clear_memory()
    return Shell(tmp_path, capsys)


@pytest.fixture
def toy(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file for which the compiler is replaced: it becomes the toy network."""

    def compile_artifact(path: Path, config: Any, options: compiling.Options, *_: Any) -> Any:
        return dataclasses.replace(make_artifact(config, keep=options.keep_intermediates), name=path.stem)

    monkeypatch.setattr(compiling, "compile_artifact", compile_artifact)
    (shell.folder / "toy.tflite").write_bytes(b"TFL3")
    return shell.folder / "toy.tflite"


@pytest.fixture
def artifact(shell: Shell) -> Path:
    make_artifact().save(shell.folder / "toy.twa")
    return shell.folder / "toy.twa"
