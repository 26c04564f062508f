"""Reading and writing files so that every failure is one clear line and no partial file is ever left."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from tilewright.errors import TilewrightError
from tilewright.interrupts import at_leave
from tilewright.kinds import path_of
from tilewright.pipes import PipeError, opened_for_writing, read_all
from tilewright.printable import encodable

PART = ".tilewright-part"  #: how files end that are being written
ABANDONED_SECONDS = 3600.0  #: age at which nobody writes them any more
CACHE_VARIABLE = "TILEWRIGHT_CACHE"
MOST_TEXT = 4 << 20  #: bytes of a file that people write

#: device and inode of what a command reads, with its name
_inputs: ContextVar[dict[tuple[int, int], str] | None] = ContextVar("_inputs", default=None)
#: temporary files by what they will replace, where several are written together
_together: ContextVar[dict[Path, str] | None] = ContextVar("_together", default=None)


_parts: set[str] = set()  #: temporary files that are there
_new: list[Path] = []  #: directories that were made for what is not in them yet


@at_leave
def _leave_nothing() -> None:
    for name in [*_parts]:
        _remove(name)
    for folder in [*_new]:
        with contextlib.suppress(OSError):
            folder.rmdir()


class FileError(TilewrightError):
    """A file cannot be read or written; names the path and the reason."""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """The content of a file or pipe, of at most ``most`` bytes, or half of this machine's memory.

    Devices (``/dev/zero``) may have no end, and a pipe is waited for no longer than
    :data:`~tilewright.pipes.PIPE_SECONDS` while nobody has it open. Raises :class:`FileError`.
    """
    _named("file", path, "read")
    limit = most_bytes() if most is None else most
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.path.samefile(path, os.devnull)):
            raise FileError(f"{path}: cannot be read: a device, not a file")
        return read_all(path, limit)
    except PipeError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {_reason(error)}") from error
    except ValueError as error:  # a name that no encoding of file names has
        raise FileError(f"{str(path)!r}: cannot be read: {error}") from error


def most_bytes() -> int:
    """Of a file that is read whole: half of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def read_text(path: str | Path) -> str:
    """The text of a file that people write. Raises :class:`FileError`, also where it is not UTF-8."""
    try:
        return read_bytes(path, MOST_TEXT).decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: cannot be read: not UTF-8 text at byte {error.start}") from error


def name_of(path: str | Path) -> str:
    """What a file's content is called after it: its name without the suffix, as text that every format can hold."""
    return encodable(Path(path).stem)


@contextlib.contextmanager
def inputs_kept(inputs: Iterable[str | Path]) -> Iterator[None]:
    """In here no file of ``inputs`` is written, by whatever name or link: :func:`check_writable` and all that writes
    refuse it. What is not there, or is no regular file, is no matter."""
    before = _inputs.set(dict(_inputs.get() or {}))
    try:
        for each in inputs:
            keep_input(each)
        yield
    finally:
        _inputs.reset(before)


def keep_input(path: str | Path) -> None:
    """A file that nobody named and that is read all the same, such as weights beside a model: from here on it is one of
    the inputs of the :func:`inputs_kept` around, if there is any."""
    known = _inputs.get()
    if known is None:
        return
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):
            known[status.st_dev, status.st_ino] = str(path)


def check_writable(path: str | Path) -> None:
    """Raise :class:`FileError` if a file could not be written at ``path``; leaves nothing behind.

    Meant to be called before a long run whose result goes there.
    """
    target = _target(path)
    if is_special(target):
        if not os.access(target, os.W_OK):
            raise FileError(f"{path}: cannot be written: permission denied")
        return
    parent = target.parent
    if not parent.is_dir():
        raise FileError(f"{path}: cannot be written: there is no directory {parent}; create it first")
    _try_file(parent, path)


def check_directory_writable(path: str | Path) -> None:
    """Raise :class:`FileError` unless ``path`` is a directory that files can be written in, or could be made one."""
    existing = _named("directory", path, "written")
    try:
        while not existing.exists():
            if existing.is_symlink():
                raise FileError(f"{path}: cannot be written: {existing} is a link that leads nowhere")
            existing = existing.parent
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {_reason(error)}") from error
    if not existing.is_dir():
        raise FileError(f"{path}: cannot be written: {existing} is not a directory")
    _try_file(existing, path)


def _named(kind: str, path: str | Path, done: str) -> Path:
    """``path``, if a file or directory can be called so: what Python says of a zero differs by its version."""
    found = path_of(kind, path, error=FileError)
    if "\0" in str(found):
        raise FileError(f"{str(path)!r}: cannot be {done}: embedded null byte")
    return found


def _target(path: str | Path) -> Path:
    """The file that writing to ``path`` writes. Raises :class:`FileError` for a folder, a link that leads to itself,
    and an input."""
    _named("file", path, "written")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except (OSError, ValueError) as error:
        reason = _reason(error) if isinstance(error, OSError) else error
        raise FileError(f"{path}: cannot be written: {reason}") from error
    if status is not None:
        if stat.S_ISDIR(status.st_mode):
            raise FileError(f"{path}: cannot be written: is a directory; give a file name")
        if (known := (_inputs.get() or {}).get((status.st_dev, status.st_ino))) is not None:
            named = "" if known == str(path) else f" {known} by another name"
            raise FileError(f"{path}: cannot be written: is the input{named or ' itself'}; give another file name")
    return _linked(Path(path))


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
        _named("directory", path, "written").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {_reason(error)}") from error


@contextlib.contextmanager
def directory_for(path: str | Path) -> Iterator[Path]:
    """A directory and what leads to it; where what is done in here fails, what of it is new and empty goes again."""
    folder = _named("directory", path, "written")
    new = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    _new[:0] = new
    try:
        make_directory(folder)
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # the first that is not empty, and what leads to it, stay
            for each in new:
                each.rmdir()
        raise
    finally:
        _new[:] = [each for each in _new if each not in new]


def is_special(path: Path) -> bool:
    """Whether something is there that is no regular file: a device, a pipe. It is written to, never replaced."""
    try:
        return not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    except (OSError, ValueError):  # nothing there, nor can there be of a name with a zero
        return False


@contextlib.contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock ``name`` of a cache folder: several processes may want the same file at once.

    Raises :class:`FileError` if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"{name}.lock").open("w")
    except OSError as error:
        raise FileError(f"{folder}: cannot be written ({_reason(error)}); set {CACHE_VARIABLE} elsewhere") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_with(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it there: all of it or nothing.

    A link stays one, its target is replaced. What is no regular file gets the bytes themselves.
    """
    target = _target(path)
    try:
        if is_special(target):
            content = io.BytesIO()  # NumPy writes to what it can seek in
            write(content)
            with opened_for_writing(target) as stream:
                stream.write(content.getvalue())
            return
        name = _filled(target, write)
    except PipeError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
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
    """What is written in here appears at its end; if anything in here fails, no file is there or changed.

    One inside another ends with it.
    """
    if _together.get() is not None:
        yield
        return
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
    with contextlib.ExitStack() as made, together():
        for target, content in zip(paths, files.values(), strict=True):
            made.enter_context(directory_for(target.parent))
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
    _parts.add(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        os.chmod(name, 0o666 & ~_umask())
    except BaseException:
        _remove(name)
        raise
    return name


def _remove(name: str) -> None:
    _parts.discard(name)
    with contextlib.suppress(OSError):
        os.unlink(name)


def cache_root() -> Path:
    """Where everything is kept that can be made again: ``$TILEWRIGHT_CACHE``, else ``tilewright`` in
    ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises :class:`FileError` where there is no home either.
    """
    if configured := os.environ.get(CACHE_VARIABLE):
        return Path(configured)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):
        return Path(shared) / "tilewright"
    try:
        return Path.home() / ".cache" / "tilewright"
    except RuntimeError as error:
        raise FileError(f"there is no home directory to keep compiled things in; set {CACHE_VARIABLE}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8, what is none by its escape) to ``path``: all of it or nothing."""
    content = encodable(data).encode() if isinstance(data, str) else data
    write_with(path, lambda stream: stream.write(content))
