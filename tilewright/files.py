"""Reading and writing files so that every failure is one clear line and no partial file is ever left."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from tilewright.errors import TilewrightError

PART = ".tilewright-part"  #: how files end that are being written
ABANDONED_SECONDS = 3600.0  #: age at which nobody writes them any more
CACHE_VARIABLE = "TILEWRIGHT_CACHE"

#: temporary files by what they will replace, where several are written together
_together: ContextVar[dict[Path, str] | None] = ContextVar("_together", default=None)


class FileError(TilewrightError):
    """A file cannot be read or written; names the path and the reason."""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def read_bytes(path: str | Path) -> bytes:
    """The content of a file or pipe; devices (``/dev/zero``) may have no end. Raises :class:`FileError`."""
    try:
        if Path(path).is_char_device() and not os.path.samefile(path, "/dev/null"):
            raise FileError(f"{path}: cannot be read: a device, not a file")
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {_reason(error)}") from error
    except ValueError as error:  # a zero in the name
        raise FileError(f"{str(path)!r}: cannot be read: {error}") from error


def check_writable(path: str | Path) -> None:
    """Raise :class:`FileError` if a file could not be written at ``path``; leaves nothing behind.

    Meant to be called before a long run whose result goes there.
    """
    target = Path(path)
    if target.is_dir():
        raise FileError(f"{path}: cannot be written: is a directory; give a file name")
    if is_special(target):
        if not os.access(target, os.W_OK):
            raise FileError(f"{path}: cannot be written: permission denied")
        return
    target = _linked(target)
    parent = target.parent
    if not parent.is_dir():
        raise FileError(f"{path}: cannot be written: there is no directory {parent}; create it first")
    _try_file(parent, path)


def check_directory_writable(path: str | Path) -> None:
    """Raise :class:`FileError` unless ``path`` is a directory that files can be written in, or could be made one."""
    existing = Path(path)
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise FileError(f"{path}: cannot be written: {existing} is not a directory")
    _try_file(existing, path)


def _try_file(directory: Path, path: str | Path) -> None:
    """Raise :class:`FileError`, naming ``path``, unless a file can be made in ``directory``."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {_reason(error)}") from error


def make_directory(path: str | Path) -> None:
    """Create a directory and what leads to it, unless it exists."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {_reason(error)}") from error


def is_special(path: Path) -> bool:
    """Whether something is there that is no regular file: a device, a pipe. It is written to, never replaced."""
    try:
        return not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    except OSError:
        return False


def write_with(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it there: all of it or nothing.

    A link stays one, its target is replaced. What is no regular file gets the bytes themselves.
    """
    target = Path(path)
    try:
        if is_special(target):
            content = io.BytesIO()  # NumPy writes to what it can seek in
            write(content)
            with target.open("wb") as stream:
                stream.write(content.getvalue())
            return
        target = _linked(target)
        name = _filled(target, write)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {_reason(error)}") from error
    waiting = _together.get()
    if waiting is None:
        _move({target: name})
    else:
        _remove(waiting.pop(target, ""))
        waiting[target] = name


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What is written in here appears at its end; if anything in here fails, no file is there or changed."""
    waiting: dict[Path, str] = {}
    before = _together.set(waiting)
    try:
        yield
        _move(waiting)
    finally:
        _together.reset(before)
        for name in waiting.values():
            _remove(name)


def _move(filled: Mapping[Path, str]) -> None:
    """Temporary files to what they replace; none is left."""
    for target, name in filled.items():
        try:
            os.replace(name, target)
        except OSError as error:
            raise FileError(f"{target}: cannot be written: {_reason(error)}") from error
        finally:
            _remove(name)
    for folder in {target.parent for target in filled}:
        sweep(folder)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files below a folder, by name: where one of them finds no room, none of them is changed.

    Returns their paths. Raises :class:`FileError`.
    """
    paths = [folder / name for name in files]
    with together():
        for target, content in zip(paths, files.values(), strict=True):
            make_directory(target.parent)
            write_atomic(target, content)
    return paths


def sweep(folder: Path) -> None:
    """Remove what writers have left in a folder that were killed long ago."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(PART) and entry.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                _remove(entry.path)


def prune(folder: Path, pattern: str, limit: int) -> None:
    """Delete the files used least recently until all that match take at most ``limit`` bytes."""
    sweep(folder)
    entries = []
    for path in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            status = path.stat()
            entries.append((status.st_mtime, status.st_size, path))
    total = 0
    for _, size, path in sorted(entries, reverse=True):
        total += size
        if total > limit:
            path.unlink(missing_ok=True)


def _linked(path: Path) -> Path:
    """What a link leads to, whether it is there or not; other paths as they were given."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _filled(target: Path, write: Callable[[IO[bytes]], object]) -> str:
    """The path of a temporary file beside ``target`` that ``write`` has filled; none is left where it could not."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=PART, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        os.chmod(name, 0o666 & ~_umask())
    except BaseException:
        _remove(name)
        raise
    return name


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


def cache_root() -> Path:
    """Where everything is kept that can be made again: ``$TILEWRIGHT_CACHE``, else ``~/.cache/tilewright``.

    Raises :class:`FileError` where there is no home either.
    """
    if configured := os.environ.get(CACHE_VARIABLE):
        return Path(configured)
    try:
        return Path.home() / ".cache" / "tilewright"
    except RuntimeError as error:
        raise FileError(f"there is no home directory to keep compiled things in; set {CACHE_VARIABLE}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to ``path``: all of it or nothing."""
    content = data.encode() if isinstance(data, str) else data
    write_with(path, lambda stream: stream.write(content))
