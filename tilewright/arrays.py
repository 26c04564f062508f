"""NumPy's files, whatever is in them: an array, or one line that says what is wrong."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.files import FileError, is_special, read_bytes, write_with
from tilewright.printable import printable


def save_array(path: str | Path, array: NDArray[Any]) -> None:
    """Write ``array`` as ``.npy``: all of it or nothing."""
    write_with(path, lambda stream: np.save(stream, array, allow_pickle=False))


def _save_all(stream: IO[bytes], arrays: list[NDArray[Any]]) -> None:
    """One ``.npy`` after another, as ``numpy.load`` reads them one after another."""
    for array in arrays:
        np.save(stream, array)


def _save_named(stream: IO[bytes], arrays: dict[str, NDArray[Any]]) -> None:
    """A ``.npz`` of any names: those of ``numpy.savez``'s own parameters too."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def distinct(names: Iterable[str]) -> list[str]:
    """``names``, printable, with ``:1``, ``:2`` and so on behind one that stands again."""
    found: list[str] = []
    for name in map(printable, names):
        numbered = (f"{name}:{number}" for number in itertools.count(1))
        found.append(name if name not in found else next(each for each in numbered if each not in found))
    return found


def save_outputs(path: Path, y: Any, names: Sequence[str]) -> list[Path]:
    """Write what a model gives as ``.npz`` by name, or as ``.npy``; the files.

    A model of several outputs stores one ``.npy`` for each beside it: ``y.0.npy``, ``y.1.npy``.
    """
    several = y if isinstance(y, list) else [y]
    if path.suffix == ".npz":
        write_with(path, lambda stream: _save_named(stream, dict(zip(distinct(names), several, strict=True))))
        return [path]
    if not isinstance(y, list):
        save_array(path, y)
        return [path]
    if is_special(path):
        write_with(path, lambda stream: _save_all(stream, y))
        return [path]
    files = [path.with_name(f"{path.stem}.{number}{path.suffix}") for number in range(len(y))]
    for file, value in zip(files, y, strict=True):
        save_array(file, value)
    return files


def load_inputs(path: Path) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """The array of a ``.npy`` file, or all arrays of a ``.npz`` file by name. Raises :class:`FileError`."""
    return load_arrays(path) if path.suffix == ".npz" else load_array(path)


def load_array(path: str | Path) -> NDArray[Any]:
    """Read a ``.npy`` file. Pickled objects are refused. Raises :class:`FileError`."""
    data = read_bytes(path)
    if data[:6] != b"\x93NUMPY":
        raise FileError(f"{path}: not a .npy file; write it with numpy.save")
    with _array_errors(path):
        return _array(np.load(io.BytesIO(data), allow_pickle=False))


def load_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """All arrays of a ``.npz`` file by name. Pickled objects are refused. Raises :class:`FileError`."""
    data = read_bytes(path)
    if data[:4] != b"PK\x03\x04":
        raise FileError(f"{path}: not a .npz file; write it with numpy.savez")
    with _array_errors(path), np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: _array(arrays[name]) for name in arrays.files}


def _array(value: Any) -> NDArray[Any]:
    """What was loaded, if it is an array of numbers: a member of a ZIP file may be anything."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise ValueError(f"holds {getattr(value, 'dtype', type(value).__name__)}, not numbers")
    return value


@contextlib.contextmanager
def _array_errors(path: str | Path) -> Iterator[None]:
    """Everything that NumPy says about a bad file, as one line.

    What its readers of headers, ZIP and DEFLATE may raise is written down nowhere, so nothing is left out.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a header's text, read as Python
            yield
    except Exception as error:
        text = " ".join(str(error).split())
        if "allow_pickle" in text or "Object arrays" in text:
            raise FileError(f"{path}: holds Python objects, not numbers; save an array of the model's dtype") from error
        raise FileError(f"{path}: corrupt NumPy file: {text}") from error
