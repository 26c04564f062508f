"""Numba decorators: machine code cached on disk, never stale.

Numba's own cache looks at the file of the compiled function only, so an edit to the instruction set or to a
helper would go unnoticed. Here the cache folder is named by a hash over every source that the kernels see.
Each package that has kernels makes its decorator in a file ``native.py``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as numba_config

import tilewright.config
from tilewright.isa import arithmetic, codec, effects, expression, functions, schema, spec, timing

F = TypeVar("F", bound=Callable[..., Any])

KEPT_VERSIONS = 8  #: cache folders of earlier sources that are kept


#: modules whose constants the kernels of any package may use
CONSTANT_MODULES = (tilewright.config, arithmetic, codec, effects, expression, functions, schema, spec, timing)


def _sources() -> list[Path]:
    return [Path(__file__), *(Path(str(m.__file__)) for m in CONSTANT_MODULES)]


def _source_hash(more: Sequence[Path] = ()) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in [*_sources(), *more]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _usable(folder: Path) -> bool:
    """Whether the folder can be written, and is this user's: cached code is run, so it must not be another's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and any(p.stat().st_uid != os.getuid() for p in (folder, folder.parent)):
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _candidates(kind: str) -> list[Path]:
    configured = os.environ.get("NUMBA_CACHE_DIR")
    if configured:
        return [Path(configured) / f"tilewright-{kind}"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    homes = [Path(home) / "tilewright" / kind] if os.path.isabs(home) else []  # "~" stays where there is no home
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return [*homes, Path(tempfile.gettempdir()) / f"tilewright-{kind}-{user}"]


def _cache_folder(kind: str = "kernels", more: Sequence[Path] = ()) -> Path | None:
    """The folder for this version of the sources; None if no place is writable (then nothing is cached)."""
    for base in _candidates(kind):
        folder = base / _source_hash(more)
        if _usable(folder):
            try:
                versions = sorted((p for p in base.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
            except OSError:  # another process is pruning the same folder
                versions = []
            for old in versions[:-KEPT_VERSIONS]:
                if old != folder:
                    shutil.rmtree(old, ignore_errors=True)
            return folder
    return None


def compiler(folder: Path | None, **options: Any) -> Callable[[F], F]:
    """A decorator: ``numba.njit`` without bounds checks, with these options, cached in ``folder``."""

    def decorate(function: F) -> F:
        previous = numba_config.CACHE_DIR
        numba_config.CACHE_DIR = str(folder or previous)
        try:
            result: F = numba.njit(cache=folder is not None, **options)(function)
            return result
        finally:
            numba_config.CACHE_DIR = previous

    return decorate


def package_folder(kind: str, *packages: Path) -> Path | None:
    """The cache folder for the kernels of a package, named by its sources and those of packages whose kernels it uses.

    None, with a warning, if no place is writable.
    """
    folder = _cache_folder(kind, [path for package in packages for path in sorted(package.glob("*.py"))])
    if folder is None:
        logging.getLogger("tilewright").warning(
            "kernels are compiled anew by every process, which takes up to a minute: %s cannot be written; "
            "set NUMBA_CACHE_DIR to a folder that can",
            " and ".join(map(str, _candidates(kind))),
        )
    return folder
