"""``.tflite`` files to Relax: TVM's importer behind validation, with operator names kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.compat import label_main
from tilewright.jit.compat_importers import Refused, first_line, import_tflite
from tilewright.jit.errors import ModelError
from tilewright.jit.frontend.site import LITERT, SEMANTICS_ATTRIBUTE
from tilewright.jit.source.tflite.validate import validated


def load(path: Path) -> Any:
    """The Relax module of a quantised ``.tflite`` file; raises ModelError for any that cannot be imported."""
    model = validated(path, path.read_bytes())
    for i in model.Subgraphs(0).InputsAsNumpy():
        tensor = model.Subgraphs(0).Tensors(int(i))
        shape = tuple(int(d) for d in tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()
        if len(shape) > 1 and shape[0] != 1:
            raise ModelError(
                f"{path}: input {(tensor.Name() or b'').decode()!r} has batch {shape[0]} (shape {shape}); convert the "
                "model again with batch 1, several inputs are launched together at run time"
            )
    try:
        mod = import_tflite(model)
    except Refused as error:
        raise ModelError(f"{path}: {error}") from error
    except Exception as error:  # anything the importer trips over is the file's fault to the user
        raise ModelError(
            f"{path}: TVM cannot import it: {first_line(error)}; check the file with another runtime"
        ) from error
    return label_main(mod, {SEMANTICS_ATTRIBUTE: LITERT})
