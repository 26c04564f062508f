"""Opening a model file: what can be wrong with it before its content is looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tilewright.jit.errors import ModelError

_Read = TypeVar("_Read")


def open_model(path: str | Path, tflite: Callable[[Path], _Read], onnx: Callable[[Path], _Read]) -> _Read:
    """What the reader for the file's kind makes of it.

    Raises ModelError, with one line that names the file, the trouble and the way out.
    """
    path = Path(path)
    if path.is_dir():
        raise ModelError(f"{path}: is a folder; give the model file in it")
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    readers = {".tflite": tflite, ".onnx": onnx}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ModelError(f"{path}: unknown kind of model {path.suffix!r}; give a .tflite or a QDQ .onnx file")
    try:
        with path.open("rb"):
            return readers[suffix](path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}; check its permissions") from error
