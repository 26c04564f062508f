"""Machine code of kernels on disk: never stale, never another user's, and compiled by one process at a time.

Numba's own cache looks at the file of the compiled function only, so an edit to the instruction set or to a helper
would go unnoticed. Here the folder is named by a hash over every source that the kernels see. Code that a wheel brings
is for any x86-64 processor with AVX2; what is not in it is compiled for this machine's.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

import tilewright.config
from tilewright.files import FileError, cache_root, locked, write_atomic
from tilewright.isa import arithmetic, codec, effects, expression, functions, schema, spec, timing

KEPT_VERSIONS = 8  #: folders of earlier sources that are kept
SUFFIX = ".kernel"
#: what a wheel brings, compiled with NUMBA_CPU_NAME of this name; processors from about 2013 on have it
SHIPPED, SHIPPED_CPU = Path(__file__).parent / "kernels", "x86-64-v3"
_SHIPPED_NEEDS = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")

#: modules whose constants the kernels of any package may use
CONSTANT_MODULES = (tilewright.config, arithmetic, codec, effects, expression, functions, schema, spec, timing)


def _sources() -> list[Path]:
    own = ("by_reference.py", "compiled.py", "machine_code.py", "pieces.py")
    return [*(Path(__file__).with_name(name) for name in own), *(Path(str(m.__file__)) for m in CONSTANT_MODULES)]


@cache
def _content(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _machine() -> tuple[str, str, str]:
    """What Numba compiles for here: system, processor and its features."""
    from numba.core.registry import cpu_target

    found: tuple[str, str, str] = cpu_target.target_context.codegen().magic_tuple()
    return found


@cache
def _runs_shipped() -> bool:
    if platform.machine() != "x86_64" or not SHIPPED.is_dir():
        return False
    features = llvmlite.binding.get_host_cpu_features()
    return all(features.get(name) for name in _SHIPPED_NEEDS)


def _usable(folder: Path) -> bool:
    """Whether the folder can be written, and is this user's: cached code is run, so it must not be another's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(p.stat().st_uid != os.getuid() for p in (folder, folder.parent)):
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def candidates() -> list[Path]:
    """Folders for all kernels, of which the first that can be used is taken."""
    apart = Path(tempfile.gettempdir()) / f"tilewright-kernels-{os.getuid()}"
    try:
        return [cache_root() / "kernels", apart]
    except FileError:  # no home
        return [apart]


@cache
def _unwritable(tried: str) -> None:
    logging.getLogger("tilewright").warning(
        "kernels are compiled anew by every process, which takes up to a minute: %s cannot be written; "
        "set TILEWRIGHT_CACHE to a folder that can",
        tried,
    )


class MachineCode:
    """The kernels of a package, named by its sources and those of packages whose kernels it uses."""

    def __init__(self, part: str, *packages: Path) -> None:
        self.part = part
        self._bases = candidates()
        self._packages = packages

    def version(self, machine: Sequence[str]) -> str:
        """The name of the folder: of the sources, what compiles them, and the machine they are compiled for."""
        digest = hashlib.sha256(repr((numba.__version__, platform.python_version_tuple()[:2], *machine)).encode())
        for path in [*_sources(), *(path for package in self._packages for path in sorted(package.glob("*.py")))]:
            digest.update(_content(path))
        return f"{self.part}-{digest.hexdigest()[:16]}"

    @cached_property
    def folder(self) -> Path | None:
        """Where this machine's are; None if no place can be written (then nothing is kept)."""
        name = self.version(_machine())
        for base in self._bases:
            if _usable(base / name):
                try:
                    versions = sorted(base.glob(f"{self.part}-*"), key=lambda p: p.stat().st_mtime)
                except OSError:  # another process is pruning the same folder
                    versions = []
                for old in versions[:-KEPT_VERSIONS]:
                    if old.name != name:
                        shutil.rmtree(old, ignore_errors=True)
                return base / name
        _unwritable(" and ".join(map(str, self._bases)))
        return None

    @cached_property
    def _shipped(self) -> Path | None:
        if not _runs_shipped():
            return None
        return SHIPPED / self.version((_machine()[0], SHIPPED_CPU, ""))

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody else compiles these kernels meanwhile: processes that start together wait, and find them done."""
        if self.folder is None:
            yield
            return
        with locked(self.folder, "compiling"):
            yield

    def places(self, name: str) -> list[Path]:
        """Where a kernel's code may be."""
        return [folder / f"{name}{SUFFIX}" for folder in (self._shipped, self.folder) if folder is not None]


class Cache:
    """What Numba asks for a kernel's machine code, in the way of its own caches."""

    def __init__(self, code: MachineCode, function: Any) -> None:
        self._code = code
        self._file = Path(function.__code__.co_filename)
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    @property
    def cache_path(self) -> str | None:
        return str(self._code.folder) if self._code.folder else None

    def _key(self, arguments: Any) -> str:
        digest = hashlib.sha256(_content(self._file))  # it may belong to another package than the kernels it is with
        digest.update(repr(arguments).encode())
        return f"{self._name}-{digest.hexdigest()[:16]}"

    def has(self, arguments: Any) -> bool:
        """Whether there seems to be code for these types of arguments."""
        return any(path.is_file() for path in self._code.places(self._key(arguments)))

    def load_overload(self, arguments: Any, target_context: Any) -> Any:
        """Numba's result for these types of arguments; None if there is none that is whole."""
        target_context.refresh()
        for path in self._code.places(self._key(arguments)):
            try:
                content = path.read_bytes()
            except OSError:
                continue
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return CompileResult._rebuild(target_context, *pickle.loads(content[32:]))
        return None

    def save_overload(self, arguments: Any, result: Any) -> None:
        """Keep Numba's result. A folder that cannot be written any more only costs the next process time."""
        if (folder := self._code.folder) is None:
            return
        content = dumps(result._reduce())
        with contextlib.suppress(FileError):
            write_atomic(folder / f"{self._key(arguments)}{SUFFIX}", hashlib.sha256(content).digest() + content)
