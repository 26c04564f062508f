"""Reading and writing files so that every failure is one clear line and no partial file is ever left."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError


class FileError(TilewrightError):
    """A file cannot be read or written; names the path and the reason."""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def read_bytes(path: str | Path) -> bytes:
    """The content of a file. Raises :class:`FileError`."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {_reason(error)}") from error


def check_writable(path: str | Path) -> None:
    """Raise :class:`FileError` if a file could not be written at ``path``; leaves nothing behind.

    Meant to be called before a long run whose result goes there.
    """
    target = Path(path)
    if target.is_dir():
        raise FileError(f"{path}: cannot be written: is a directory; give a file name")
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


def write_with(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it there: all of it or nothing."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                write(stream)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {_reason(error)}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to ``path``: all of it or nothing."""
    content = data.encode() if isinstance(data, str) else data
    write_with(path, lambda stream: stream.write(content))


def save_array(path: str | Path, array: NDArray[Any]) -> None:
    """Write ``array`` as ``.npy``: all of it or nothing."""
    write_with(path, lambda stream: np.save(stream, array, allow_pickle=False))


def load_array(path: str | Path) -> NDArray[Any]:
    """Read a ``.npy`` file. Pickled objects are refused. Raises :class:`FileError`."""
    data = read_bytes(path)
    if data[:6] != b"\x93NUMPY":
        raise FileError(f"{path}: not a .npy file; write it with numpy.save")
    with _array_errors(path):
        array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
        return array


def load_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """All arrays of a ``.npz`` file by name. Pickled objects are refused. Raises :class:`FileError`."""
    data = read_bytes(path)
    if data[:4] != b"PK\x03\x04":
        raise FileError(f"{path}: not a .npz file; write it with numpy.savez")
    with _array_errors(path), np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@contextlib.contextmanager
def _array_errors(path: str | Path) -> Iterator[None]:
    """Everything that NumPy says about a bad file, as one line."""
    try:
        yield
    except (ValueError, EOFError, SyntaxError, OSError, MemoryError, KeyError, zipfile.BadZipFile) as error:
        text = " ".join(str(error).split())
        if "allow_pickle" in text or "Object arrays" in text:
            raise FileError(f"{path}: holds Python objects, not numbers; save an array of the model's dtype") from error
        raise FileError(f"{path}: corrupt NumPy file: {text}") from error
