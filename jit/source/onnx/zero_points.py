"""Zero points of constants in a form that ONNX Runtime takes without saturating products; nothing of their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np


def complete_zero_points(model: Any) -> None:
    """Gives int8 weights with scales by block that leave out their zero points some of 0, which is what that means.

    Without saturating products ONNX Runtime turns int8 weights into uint8 ones and gives them a zero point; here it
    makes a single one, which does not fit the scales, and stops when it comes to run.
    """
    from onnx import numpy_helper

    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    for number, node in _dequantised_constants(model.graph):
        if len(node.input) == 2 and _is_int8_by_block(*(initial.get(name) for name in node.input)):
            zeros = np.zeros(tuple(initial[node.input[1]].dims), np.int8)
            node.input.append(f"{node.input[0]}@{number}")
            model.graph.initializer.append(numpy_helper.from_array(zeros, node.input[2]))


def unshare_zero_points(model: Any) -> None:
    """Gives every DequantizeLinear of a constant a zero point of its own, which changes nothing that it computes.

    Without saturating products ONNX Runtime turns int8 weights into uint8 ones and their zero points with them; of a
    zero point that several weights share (as PyTorch's exporter writes it) it makes the new one twice, and fails.
    """
    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    used: set[str] = set()
    for number, node in _dequantised_constants(model.graph):
        if len(node.input) < 3:
            continue
        name = node.input[2]
        if name in used and name in initial:
            own = model.graph.initializer.add()
            own.CopyFrom(initial[name])
            own.name = node.input[2] = f"{name}@{number}"
        used.add(name)


def _dequantised_constants(graph: Any) -> list[tuple[int, Any]]:
    """By position the DequantizeLinear of constants, or of constants that a Cast widens."""
    initial = {tensor.name for tensor in graph.initializer}
    widened = {node.output[0] for node in graph.node if node.op_type == "Cast" and node.input[0] in initial}
    constants = initial | widened
    return [(k, n) for k, n in enumerate(graph.node) if n.op_type == "DequantizeLinear" and n.input[0] in constants]


def _is_int8_by_block(weight: Any, scale: Any) -> bool:
    """Of constants, or None for what is none."""
    from onnx import TensorProto

    known = weight is not None and scale is not None
    return known and weight.data_type == TensorProto.INT8 and len(scale.dims) > 1
