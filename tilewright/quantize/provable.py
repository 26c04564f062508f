"""Scales moved by a few units in the last place, to where ONNX Runtime's float32 scaling has an integer equal.

ONNX Runtime multiplies an accumulator with a float32 scale and rounds twice; for about one channel in fifty no
multiplier, shift and offset give the same integers for every accumulator (``docs/numbers.md``), nor have one in a
hundred sums of two tensors and some more products. Which these are depends on the last bits of their scales, that
quantisation has chosen and that mean nothing: a change of 1e-7 finds others. Layers with weights get other weight
scales, the others another scale of their result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.progress import Progress, silent

ROUNDS = 64  #: most times that a scale is moved, by up to half as many units in the last place
RESULT_MOVES = 8  #: of a result's scale: some products have none that would do
_WEIGHTED = ("Conv", "Gemm", "MatMul")
_CLAMPS = ("Relu", "Clip")  #: what may stand between a layer and its quantisation
_PASSIVE = ("MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


def make_provable(path: Path, content: bytes, progress: Progress = silent) -> bytes:
    """A QDQ model with weight scales for which as many channels as possible are proven exact. ``path``: its name."""
    import onnx

    model = onnx.load_from_string(content)
    scales = _Scales(model)
    best, fewest = content, None
    for number in range(ROUNDS):
        progress("choosing scales", number, ROUNDS)
        tried = model.SerializeToString()
        source = OnnxSource(path, content=tried)
        built = source.build({})
        doubtful = {entry.name: entry for entry in [*built.exactness, *built.doubtful] if not entry.proven}
        count = sum(entry.channels - entry.exact for entry in doubtful.values())
        if fewest is None or count < fewest:
            best, fewest = tried, count
        named = [(node, doubtful.get(op.name)) for node, op in zip(model.graph.node, source.operators, strict=True)]
        moved = [
            scales.move_result(node) for node, entry in named if entry is not None and node.op_type not in _WEIGHTED
        ]
        if not any(moved):  # what a result's scale is decides about the layers that read it: weights come last
            moved = [scales.move_weights(node, entry.wrong) for node, entry in named if entry is not None]
        if not any(moved):
            break
    progress("choosing scales", ROUNDS, ROUNDS)
    return best


@dataclass
class _Scales:
    """The scales of a model, each layer's own, and how often each has been moved."""

    model: Any
    first: dict[str, NDArray[np.float32]] = field(default_factory=dict)  #: by what has them, as they came
    moves: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.initial = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def move_weights(self, layer: Any, channels: tuple[int, ...]) -> bool:
        """Try the next scales for some ``channels`` of a layer; False where it has none of the usual form."""
        if layer.op_type not in _WEIGHTED or not channels:
            return False
        weight, data = self._constant(layer, 1), self._data(layer)
        if weight is None or (self._constant(layer, 2) is not None and data is None):
            return False
        moved = self._moved(layer.output[0], weight.input[1], channels)
        self._set(weight, f"{layer.output[0]}@scale", moved)
        self._adapt_bias(layer)
        return True

    def move_result(self, layer: Any) -> bool:
        """Try the next scale for a layer's result, wherever it stands, and for the biases that are in units of it."""
        name = layer.output[0]
        while quantised := self.readers.get(name, []):
            if quantised[0].op_type == "QuantizeLinear":
                break
            if len(quantised) > 1 or quantised[0].op_type not in _CLAMPS:
                return False
            name = quantised[0].output[0]
        if not quantised or (scale := quantised[0].input[1]) not in self.initial or self._values(scale).size > 1:
            return False
        if scale in self.moves and self.moves[scale][0] >= RESULT_MOVES:
            return False
        moved = self._moved(scale, scale, (0,))
        self.initial[scale].CopyFrom(_tensor(moved, scale))
        for reader in self.model.graph.node:
            data = self._data(reader) if reader.op_type in _WEIGHTED else None
            if data is not None and data.input[1] == scale:
                self._adapt_bias(reader)
        return True

    def _moved(self, key: str, scale: str, places: tuple[int, ...]) -> NDArray[np.float32]:
        if key not in self.first:
            self.first[key] = self._values(scale).astype(np.float32)
            self.moves[key] = np.zeros(self.first[key].size, np.int64)
        first, moves = self.first[key], self.moves[key]
        moves[list(places) if first.size > 1 else 0] += 1
        steps = (moves + 1) // 2 * np.where(moves % 2, 1, -1)
        return (first.reshape(-1).view(np.int32) + steps.astype(np.int32)).view(np.float32).reshape(first.shape)

    def _adapt_bias(self, layer: Any) -> None:
        """To the products of its layer's scales, as which ONNX Runtime reads it."""
        weight, bias, data = self._constant(layer, 1), self._constant(layer, 2), self._data(layer)
        if weight is not None and bias is not None and data is not None:
            unit = np.float32(self._values(data.input[1]).reshape(())) * self._values(weight.input[1])
            self._set(bias, f"{layer.output[0]}@unit", unit.astype(np.float32))

    def _constant(self, layer: Any, position: int) -> Any:
        """The DequantizeLinear of a constant that an operand is; None where it is none."""
        node = self.producers.get(layer.input[position]) if len(layer.input) > position else None
        return (
            node if node is not None and node.op_type == "DequantizeLinear" and node.input[1] in self.initial else None
        )

    def _data(self, layer: Any) -> Any:
        """The DequantizeLinear that a layer's data come from; None where it is none."""
        node = self.producers.get(layer.input[0])
        while node is not None and node.op_type in _PASSIVE:
            node = self.producers.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear" or node.input[1] not in self.initial:
            return None
        return node

    def _values(self, name: str) -> NDArray[Any]:
        from onnx import numpy_helper

        return numpy_helper.to_array(self.initial[name])

    def _set(self, node: Any, name: str, values: NDArray[np.float32]) -> None:
        """Give a DequantizeLinear a scale of its own."""
        tensor = self.initial.get(name)
        if tensor is None:
            tensor = self.initial[name] = self.model.graph.initializer.add()
        tensor.CopyFrom(_tensor(values, name))
        node.input[1] = name


def _tensor(values: NDArray[np.float32], name: str) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(values, name)
