"""Model files read at their source: operators to the integer graph, and stretches of them as models of their own.

Every operator of the file is either lowered exactly, with every number in it looked at, or left to the interpreter
that the file came from, which then gives the reference's own integers.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.jit.errors import ModelError
from tilewright.jit.source.base import Built, Source, SourceOperator
from tilewright.jit.source.kinds import check_model_file, described

__all__ = ["Built", "Source", "SourceOperator", "open_source"]


def open_source(path: str | Path, content: bytes | None = None, *, proven_only: bool = False) -> Source:
    """The source of a quantised ``.tflite``, ``.onnx`` or ``.pt2`` file.

    ``content``: an ONNX model that goes by the name of ``path``, where there is no such file.
    ``proven_only``: layers whose equality with the interpreter is not proven for every input (of ``.tflite`` there
    are none) are left to it. Raises ModelError, with one line that names the file, the trouble and the way out.
    """
    path = Path(path)
    if content is not None:
        from tilewright.jit.source.onnx.source import OnnxSource

        return OnnxSource(path, proven_only, content)
    check_model_file(path)
    try:
        with path.open("rb"):
            if path.suffix.lower() == ".tflite":
                from tilewright.jit.source.tflite.source import TfliteSource

                return TfliteSource(path)
            if path.suffix.lower() == ".onnx":
                from tilewright.jit.source.onnx.source import OnnxSource

                return OnnxSource(path, proven_only)
            if path.suffix.lower() == ".pt2":
                from tilewright.jit.source.onnx.source import OnnxSource
                from tilewright.jit.source.pytorch import file_to_onnx

                return OnnxSource(path, proven_only, file_to_onnx(path))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}; check its permissions") from error
    known = described(path) or f"unknown kind of model {path.suffix!r}; give a .tflite, QDQ .onnx or .pt2 file"
    raise ModelError(f"{path}: {known}")
