"""Model files read at their source: operators to the integer graph, and partitions as models of their own.

Every operator of the file is either lowered exactly, with every number in it looked at, or left to the interpreter
that the file came from, which then gives the reference's own integers.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.jit.errors import ModelError
from tilewright.jit.source.base import Built, Source, SourceOperator
from tilewright.jit.source.kinds import check_model_file, described
from tilewright.runtime.records import Exact

__all__ = ["Built", "Source", "SourceOperator", "open_source"]


def open_source(path: str | Path, content: bytes | None = None, *, exact: Exact = "default") -> Source:
    """The source of a quantised ``.tflite``, ``.onnx`` or ``.pt2`` file.

    ``content``: an ONNX model that goes by the name of ``path``, where there is no such file.
    ``exact``: which layers of ``.onnx`` fall back to ONNX Runtime: those that are not ``proven`` to equal it for every
    input, those that are known to differ (``default``), or none for that reason (``close``). Raises ModelError, with
    one line that names the file, the trouble and the way out.
    """
    path = Path(path)
    if content is not None:
        return _onnx_source(path, exact, content)
    check_model_file(path)
    try:
        with path.open("rb"):
            if path.suffix.lower() == ".tflite":
                from tilewright.jit.source.tflite.source import TfliteSource

                return TfliteSource(path)
            if path.suffix.lower() == ".onnx":
                return _onnx_source(path, exact)
            if path.suffix.lower() == ".pt2":
                from tilewright.jit.source.pytorch import file_to_onnx

                return _onnx_source(path, exact, file_to_onnx(path))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}; check its permissions") from error
    known = described(path) or f"unknown kind of model {path.suffix!r}; give a .tflite, QDQ .onnx or .pt2 file"
    raise ModelError(f"{path}: {known}")


def _onnx_source(path: Path, exact: Exact, content: bytes | None = None) -> Source:
    from tilewright.jit.source.onnx.close import most_accelerated
    from tilewright.jit.source.onnx.source import OnnxSource

    if exact == "close":
        return most_accelerated(lambda pairs: OnnxSource(path, exact, content, pairs))
    return OnnxSource(path, exact, content)
