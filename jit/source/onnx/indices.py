"""Inputs of an ``.onnx`` file that are indices of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.jit.source.index_limits import Indexing, index_limits
from tilewright.jit.source.onnx.prepared import Node, parse_node
from tilewright.jit.source.operators import onnx_row


def limits(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Input -> entries of the table that it looks up in; ``shapes``: of all tensors that they are known of."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in constants]
    nodes = (parse_node(index, proto) for index, proto in enumerate(model.graph.node))
    operators = (Indexing(onnx_row(n.kind).handed_on(n.inputs), n.makes, [*_look_ups(n, shapes)]) for n in nodes)
    found = index_limits(inputs, operators)
    return {str(name): entries for name, entries in found.items()}


def _look_ups(node: Node, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    for table, indices in onnx_row(node.kind).tables:
        shape = shapes.get(node.inputs[table], ()) if max(table, indices) < len(node.inputs) else ()
        axis = node.attribute("gather_axis", node.attribute("axis", 0))
        if shape and -len(shape) <= axis < len(shape):
            yield node.inputs[indices], shape[axis]
