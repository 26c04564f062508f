"""Weight scales moved by a few units in the last place, to where ONNX Runtime's float32 scaling has an integer equal.

ONNX Runtime multiplies an accumulator with a float32 scale and rounds twice; for about one channel in fifty no
multiplier, shift and offset give the same integers for every accumulator (``docs/numbers.md``). Which channels these
are depends on the last bits of their scales, that quantisation has chosen and that mean nothing: a change of 1e-7
finds others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.progress import Progress, silent

ROUNDS = 12  #: most times that a channel's scale is moved, by up to half as many units in the last place
_WEIGHTED = ("Conv", "Gemm", "MatMul")
_PASSIVE = ("MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


def make_provable(path: Path, content: bytes, progress: Progress = silent) -> bytes:
    """A QDQ model with weight scales for which as many channels as possible are proven exact. ``path``: its name."""
    import onnx

    model = onnx.load_from_string(content)
    scales = _Scales(model)
    for number in range(ROUNDS):
        progress("choosing scales", number, ROUNDS)
        source = OnnxSource(path, content=model.SerializeToString())
        wrong = {entry.name: entry.wrong for entry in source.build({}).exactness if entry.wrong}
        layers = [(node, wrong.get(op.name, ())) for node, op in zip(model.graph.node, source.operators, strict=True)]
        moved = [scales.move(node, channels) for node, channels in layers if channels]
        if not any(moved):
            break
    progress("choosing scales", ROUNDS, ROUNDS)
    return bytes(model.SerializeToString())


@dataclass
class _Scales:
    """The weight scales of a model, each layer's its own, and how often each has been moved."""

    model: Any
    first: dict[str, NDArray[np.float32]] = field(default_factory=dict)  #: by layer, as they came
    moves: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.initial = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output}

    def move(self, layer: Any, channels: tuple[int, ...]) -> bool:
        """Try the next scales for some channels of a layer; False where it has none of the usual form."""
        weight = self._dequantised(layer, 1)
        if layer.op_type not in _WEIGHTED or weight is None:
            return False
        bias = self._dequantised(layer, 2)
        unit = self._scale_of_data(layer.input[0])
        if bias is not None and unit is None:
            return False
        key = layer.output[0]
        if key not in self.first:
            self.first[key] = self._values(weight.input[1]).astype(np.float32)
            self.moves[key] = np.zeros(self.first[key].size, np.int64)
        first, moves = self.first[key], self.moves[key]
        moves[list(channels) if first.size > 1 else 0] += 1
        steps = (moves + 1) // 2 * np.where(moves % 2, 1, -1)
        moved = (first.reshape(-1).view(np.int32) + steps.astype(np.int32)).view(np.float32).reshape(first.shape)
        self._set(weight, f"{key}@scale", moved)
        if bias is not None:
            self._set(bias, f"{key}@unit", (np.float32(unit) * moved).astype(np.float32))
        return True

    def _dequantised(self, layer: Any, position: int) -> Any:
        """The DequantizeLinear of a constant that an operand is; None where it is none."""
        node = self.producers.get(layer.input[position]) if len(layer.input) > position else None
        return (
            node if node is not None and node.op_type == "DequantizeLinear" and node.input[1] in self.initial else None
        )

    def _scale_of_data(self, name: str) -> float | None:
        node = self.producers.get(name)
        while node is not None and node.op_type in _PASSIVE:
            node = self.producers.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear" or node.input[1] not in self.initial:
            return None
        return float(self._values(node.input[1]).reshape(()))

    def _values(self, name: str) -> NDArray[Any]:
        from onnx import numpy_helper

        return numpy_helper.to_array(self.initial[name])

    def _set(self, node: Any, name: str, values: NDArray[np.float32]) -> None:
        """Give a DequantizeLinear a scale of its own."""
        from onnx import numpy_helper

        tensor = self.initial.get(name)
        if tensor is None:
            tensor = self.initial[name] = self.model.graph.initializer.add()
        tensor.CopyFrom(numpy_helper.from_array(values, name))
        node.input[1] = name
