"""Inputs of an ``.onnx`` file that are indices of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.jit.source.index_limits import Indexing, index_limits
from tilewright.jit.source.onnx import elements
from tilewright.jit.source.onnx.prepared import Node, parse_node
from tilewright.jit.source.onnx.units import PASSIVE

#: look-ups -> (positions of table and indices, attribute of the table's axis or "" for its first)
_LOOK_UPS = {
    "Gather": ((0, 1, "axis"),),
    "GatherBlockQuantized": ((0, 1, "gather_axis"),),
    "GatherElements": ((0, 1, "axis"),),
    "EmbedLayerNormalization": ((2, 0, ""), (4, 1, "")),
}
_FORM = (*PASSIVE, *elements.KINDS, "Cast", "GatherElements")  #: their first operand's elements are handed on


def limits(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Input -> entries of the table that it looks up in; ``shapes``: of all tensors that they are known of."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in constants]
    nodes = (parse_node(index, proto) for index, proto in enumerate(model.graph.node))
    found = index_limits(inputs, (Indexing(_handed_on(n), n.makes, [*_look_ups(n, shapes)]) for n in nodes))
    return {str(name): entries for name, entries in found.items()}


def _handed_on(node: Node) -> tuple[str, ...]:
    return node.inputs if node.kind == "Concat" else node.inputs[:1] if node.kind in _FORM else ()


def _look_ups(node: Node, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    for table, indices, attribute in _LOOK_UPS.get(node.kind, ()):
        shape = shapes.get(node.inputs[table], ()) if max(table, indices) < len(node.inputs) else ()
        axis = node.attribute(attribute, 0) if attribute else 0
        if shape and -len(shape) <= axis < len(shape):
            yield node.inputs[indices], shape[axis]
