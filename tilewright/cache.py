"""Compiled artifacts, kept in memory and on disk.

The key covers all that the result depends on: the model's bytes, those of files beside it too, the Config, the options
and the compiler itself. Files are written atomically; one that is damaged counts as absent. The folder is
``~/.cache/tilewright``, or what the environment variable ``TILEWRIGHT_CACHE`` names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.files import cache_root, prune
from tilewright.runtime.artifact import Artifact
from tilewright.sources import library_versions, source_version

DISK_BYTES = 1 << 30  #: when the folder holds more, the files used least recently go
MEMORY_ARTIFACTS = 32  #: artifacts kept in memory

_MEMORY: OrderedDict[str, Artifact] = OrderedDict()
_COMPILER_PACKAGES = ("tilewright.isa", "tilewright.jit", "tilewright.sim", "tilewright.runtime")


def cache_key(model: str, suffix: str, config: Config, options: dict[str, Any]) -> str:
    """64 hex digits over the model's digest, its file type, the Config, the options, the compiler's own source and the
    versions of what it computes with."""
    made_by = compiler_version(), library_versions()
    described = json.dumps([model, suffix, config.fingerprint, options, made_by], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def compiler_version() -> str:
    """16 hex digits over the source of all packages that shape a program; changes whenever any of it does."""
    return source_version(_COMPILER_PACKAGES)


def lookup(key: str) -> Artifact | None:
    """The artifact of a key from memory, else from disk; None if there is none that can be read."""
    if key in _MEMORY:
        _MEMORY.move_to_end(key)
        return _MEMORY[key]
    try:
        path = _path(key)
        if not path.is_file():
            return None
        artifact = Artifact.load(path)
    except TilewrightError:
        return None  # damaged or of an older format: compiled again and replaced; or no home to look in
    with contextlib.suppress(OSError):
        os.utime(path)
    _remember(key, artifact)
    return artifact


def store(key: str, artifact: Artifact) -> None:
    """Keep an artifact. A folder that cannot be written only costs the next process a compilation."""
    _remember(key, artifact)
    with contextlib.suppress(OSError, TilewrightError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        artifact.save(path)
        prune(path.parent, "*.twa", DISK_BYTES)


def clear_memory() -> None:
    """Forget what is in memory; the files stay."""
    _MEMORY.clear()


def _path(key: str) -> Path:
    return cache_root() / "artifacts" / f"{key}.twa"


def _remember(key: str, artifact: Artifact) -> None:
    _MEMORY[key] = artifact
    _MEMORY.move_to_end(key)
    while len(_MEMORY) > MEMORY_ARTIFACTS:
        _MEMORY.popitem(last=False)
