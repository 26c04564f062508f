"""From a model file to Relax: ``load_model``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.errors import ModelError

__all__ = ["load_model"]


def load_model(path: str | Path) -> Any:
    """The Relax module (``tvm.IRModule``) of a quantised ``.tflite`` or QDQ ``.onnx`` file.

    ``main`` carries the attribute ``tilewright.semantics``: whose integers the compiler must reproduce, ``litert``
    or ``onnxruntime``. Raises ModelError, with one line that names the file, the trouble and the way out.
    """
    path = Path(path)
    if path.is_dir():
        raise ModelError(f"{path}: is a folder; give the model file in it")
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.suffix.lower() not in (".tflite", ".onnx"):
        raise ModelError(f"{path}: unknown kind of model {path.suffix!r}; give a .tflite or a QDQ .onnx file")
    from tilewright.jit.frontend import onnx_relax, tflite_relax

    loader = tflite_relax.load if path.suffix.lower() == ".tflite" else onnx_relax.load
    try:
        with path.open("rb"):
            return loader(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}; check its permissions") from error
