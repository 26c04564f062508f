"""QDQ ``.onnx`` files: validation ahead of TVM's importer, and operator names kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.compat import label_main
from tilewright.jit.compat_importers import Refused, first_line, import_onnx
from tilewright.jit.errors import ModelError
from tilewright.jit.frontend.site import ONNX_RUNTIME, SEMANTICS_ATTRIBUTE
from tilewright.jit.source.onnx import validate


def read(path: Path) -> Any:
    """The protobuf of an ``.onnx`` file, checked, with shapes inferred."""
    import onnx

    model = validate.read(path)
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception as error:  # shape inference raises kinds of its own
        raise validate.corrupt(path, error) from error


def _refuse_unusable(path: Path, model: Any) -> None:
    operators = validate.operator_form(model)
    if operators:
        hint = validate.FLOAT_HINT.replace("quantise it", "quantise the float model")
        raise ModelError(f"{path}: quantised in operator format ({operators[0]}), not QDQ; {hint}")
    validate.refuse_float(path, model)
    validate.refuse_shapes(path, model)


def load(path: Path) -> Any:
    """The Relax module of a QDQ ``.onnx`` file; raises ModelError for any that cannot be imported."""
    model = read(path)
    _refuse_unusable(path, model)
    try:
        mod = import_onnx(model)
    except Refused as error:
        raise ModelError(f"{path}: {error}") from error
    except Exception as error:  # anything the importer trips over is the file's fault to the user
        raise ModelError(f"{path}: TVM cannot import it: {first_line(error)}; check it with onnxruntime") from error
    return label_main(mod, {SEMANTICS_ATTRIBUTE: ONNX_RUNTIME})
