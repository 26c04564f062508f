"""From a model file to Relax: ``load_model``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.modelfile import open_model

__all__ = ["load_model"]


def load_model(path: str | Path) -> Any:
    """The Relax module (``tvm.IRModule``) of a quantised ``.tflite`` or QDQ ``.onnx`` file.

    ``main`` carries the attribute ``tilewright.semantics``: whose integers the compiler must reproduce, ``litert``
    or ``onnxruntime``. Raises ModelError, with one line that names the file, the trouble and the way out.
    """
    from tilewright.jit.frontend import onnx_relax, tflite_relax

    return open_model(path, tflite_relax.load, onnx_relax.load)
