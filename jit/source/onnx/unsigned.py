"""int8 activations as the uint8 ones of the same real numbers, between which ONNX Runtime convolves in integers.

Between an int8 input and an int8 output it has integer kernels on some CPUs only, and adds in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.source.onnx.constants import stored

_UINT8 = 2  #: in TensorProto.DataType


def make_unsigned(model: Any) -> None:
    """Every QuantizeLinear to int8 that only a Clip and DequantizeLinears read gives uint8, 128 more, and so do these.

    What its readers compute with stays the same real numbers. Weights, and results that are integers, stay as they are.
    """
    from onnx import numpy_helper

    graph = model.graph
    held = stored(graph)
    results = {value.name for value in graph.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    moved: dict[str, str] = {}

    def shifted(name: str) -> str:
        """A constant of int8 as one of uint8."""
        if name not in moved:
            moved[name] = f"{name}@unsigned"
            value = np.asarray(held[name].astype(np.int16) + 128, np.uint8)
            graph.initializer.append(numpy_helper.from_array(value, moved[name]))
        return moved[name]

    for node in graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] in held or not _is_int8(node, 2, held):
            continue
        chain = [node]
        inner = readers.get(node.output[0], [])
        if len(inner) == 1 and inner[0].op_type == "Clip":
            chain += inner
            inner = readers.get(inner[0].output[0], [])
        limits = [name for clip in chain[1:] for name in clip.input[1:]]
        ends = {name for made in chain for name in made.output}
        whole = all(_is_int8(reader, 2, held) and reader.op_type == "DequantizeLinear" for reader in inner)
        if ends & results or not inner or not whole or not all(name in held for name in limits):
            continue
        for reader in (node, *inner):
            reader.input[2] = shifted(reader.input[2])
        for clip in chain[1:]:
            for position, name in enumerate(clip.input[1:], 1):
                clip.input[position] = shifted(name)
        for value in graph.value_info:
            if value.name in ends:
                value.type.tensor_type.elem_type = _UINT8


def _is_int8(node: Any, position: int, held: dict[str, Any]) -> bool:
    name = node.input[position] if len(node.input) > position else ""
    return name in held and held[name].dtype == np.int8
