"""QuantizeLinear and DequantizeLinear added to a file's graph, so that what reads a float32 tensor reads 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.jit.source.base import SourceOperator

_OLDEST_OPSET = 10  #: that has both operators


@dataclass(frozen=True)
class Pair:
    """How a tensor is quantised: ``scale`` and ``zero_point`` of a ``dtype``, int8 or uint8.

    ``quantised``: the tensor that a QuantizeLinear of the file makes of it already, with these numbers.
    """

    scale: float
    zero_point: int
    dtype: str
    quantised: str = ""

    @staticmethod
    def of_range(low: float, high: float, dtype: str) -> Pair:
        """That reaches from ``low``, at most 0, to ``high``, at least 0."""
        scale = float(np.float32((high - low) / 255)) or 1.0
        return Pair(scale, int(np.rint(-low / scale)) + int(np.iinfo(dtype).min), dtype)


def takes_pairs(model: Any) -> bool:
    """Whether the model's opset has the operators."""
    return any(o.domain in ("", "ai.onnx") and o.version >= _OLDEST_OPSET for o in model.opset_import)


def made(name: str) -> str:
    """The 8-bit tensor of a pair that is added to this one."""
    return f"{name}/quantised"


def add_pairs(model: Any, pairs: Mapping[str, Pair]) -> list[SourceOperator]:
    """Add them behind the file's own nodes, whose positions stay; returns the operators that were added.

    An output of the model keeps its name behind the pair. What graphs inside of nodes read stays in float32.
    """
    from onnx import helper, numpy_helper

    graph, added = model.graph, []
    outputs = {value.name for value in graph.output}
    own = list(graph.node)

    def add(kind: str, name: str, result: str, pair: Pair) -> None:
        numbers = {
            f"{result}/scale": np.float32(pair.scale),
            f"{result}/zero_point": np.dtype(pair.dtype).type(pair.zero_point),
        }
        graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in numbers.items())
        node = helper.make_node(kind, [name, *numbers], [result], name=f"{result}/{kind}")
        added.append(SourceOperator(len(graph.node), node.name, kind, added=True))
        graph.node.append(node)

    for name, pair in pairs.items():
        real, read = (f"{name}/float32", name) if name in outputs else (name, f"{name}/dequantised")
        for node in own:
            keeps = pair.quantised != "" and pair.quantised in node.output
            node.input[:] = [(real if keeps else read) if t == name else t for t in node.input]
            node.output[:] = [real if t == name else t for t in node.output]
        if not pair.quantised:
            add("QuantizeLinear", real, made(name), pair)
        add("DequantizeLinear", pair.quantised or made(name), read, pair)
    return added
