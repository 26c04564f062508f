"""NumPy's files, whatever is in them: an array, or one line that says what is wrong."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.files import FileError, is_special, read_bytes, write_with


def save_array(path: str | Path, array: NDArray[Any]) -> None:
    """Write ``array`` as ``.npy``: all of it or nothing."""
    write_with(path, lambda stream: np.save(stream, array, allow_pickle=False))


def _save_all(stream: IO[bytes], arrays: list[NDArray[Any]]) -> None:
    """One ``.npy`` after another, as ``numpy.load`` reads them one after another."""
    for array in arrays:
        np.save(stream, array)


def save_outputs(path: Path, y: Any) -> None:
    """Write ``.npy``; a model of several outputs stores one file per output beside it: ``y.0.npy``, ``y.1.npy``."""
    if not isinstance(y, list):
        save_array(path, y)
        return
    if is_special(path):
        write_with(path, lambda stream: _save_all(stream, y))
        return
    for number, value in enumerate(y):
        save_array(path.with_name(f"{path.stem}.{number}{path.suffix}"), value)


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
