"""Elements of results that LiteRT's kernels leave unwritten: they hold whatever was in that memory before.

No two interpreters need agree on them, nor two parts of a model with the whole. They are set to zero, as LiteRT does
it where its kernels think of it, so that every result is defined and can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.litert.schema import read_model, text, vector

DETECTIONS = "TFLite_Detection_PostProcess"


@dataclass(frozen=True)
class Rows:
    """The rows (axis 1) of these tensors from ``each`` times the number that the tensor ``count`` holds."""

    tensors: frozenset[int]
    count: int
    each: int

    def clear(self, interpreter: Any, results: Mapping[int, NDArray[Any]]) -> None:
        """Set them to zero in ``results``, by tensor, of what the ``interpreter`` has just computed."""
        written = self.each * int(interpreter.get_tensor(self.count).item())
        for index in self.tensors & results.keys():
            results[index][:, written:] = 0


def may_leave(model: bytes) -> bool:
    """Whether a model may leave elements unwritten."""
    return DETECTIONS.encode() in model


def unwritten(model: bytes) -> list[Rows]:
    """Of a model's main subgraph: rows behind the detections that TFLite_Detection_PostProcess finds.

    The kernel (``detection_postprocess.cc``) writes boxes, classes and scores of those alone: of each box a row for
    each of ``max_classes_per_detection``, with regular NMS one.
    """
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]

    found: list[Rows] = []
    if not may_leave(model):
        return found
    content = read_model(model)
    for op in vector(content.subgraphs[0].operators):
        outputs = [int(t) for t in vector(op.outputs)]
        if text(content.operatorCodes[op.opcodeIndex].customCode) == DETECTIONS and len(outputs) == 4:
            options = flexbuffers.Loads(bytes(np.asarray(vector(op.customOptions), np.uint8)))
            each = 1 if options.get("use_regular_nms") else int(options.get("max_classes_per_detection", 1))
            found.append(Rows(frozenset(outputs[:3]), outputs[3], each))
    return found
