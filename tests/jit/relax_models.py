"""Model files as Relax modules, by TVM's own importers, as a TVM user has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import tflite
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.tflite import from_tflite


def load_model(path: Path) -> Any:
    """The Relax module of a ``.tflite`` or QDQ ``.onnx`` file, weights as constants."""
    if path.suffix == ".tflite":
        return from_tflite(tflite.Model.GetRootAsModel(path.read_bytes(), 0))
    return from_onnx(onnx.load(str(path)))
