"""Softmaxes over so many elements that none of them is near 1.

ONNX Runtime's quantiser gives all softmaxes the range 0 to 1, of which an attention to hundreds of tokens, or to the
places of an image, uses a few steps of 256.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.quantize.base import Array, Tensors

_FAINT = 0.5  #: a greatest value below it leaves more than half of the steps unused


class FaintSoftmaxes:
    """Which of a float model's softmaxes are faint, found in the inferences that others make with ``tensors``."""

    def __init__(self, model: Any, tensors: Tensors) -> None:
        self._run = tensors
        self._most = {node.output[0]: 0.0 for node in model.graph.node if node.op_type == "Softmax"}

    def tensors(self, x: Sequence[Array]) -> Mapping[str, Array]:
        """The tensors of one inference, by name, looked at."""
        values = self._run(x)
        for name in self._most.keys() & values.keys():
            self._most[name] = max(self._most[name], float(values[name].max()))
        return values

    def names(self) -> list[str]:
        """The results of those that have been faint in all inferences so far."""
        return [name for name, most in self._most.items() if 0 < most < _FAINT]
