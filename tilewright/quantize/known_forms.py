"""Operators in forms that ONNX Runtime's quantised ones do not know, as others that compute the same.

It makes its quantised operator of whatever stands between quantised tensors, left out of quantisation or not: an
average over a dilated window is refused where it is loaded, and a softmax of a single element, which is 1, becomes 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.jit.source.onnx.pools import pooling, whole_windows


def known_forms(model: Any) -> bool:
    """Rewrites them in a float model of opset 13 or later whose shapes are known; whether there were any."""
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    nodes: list[Any] = []
    changed = False
    for node in model.graph.node:
        nodes.append(node)
        shape = shapes.get(node.input[0], ()) if node.input else ()
        if node.op_type == "AveragePool" and len(shape) > 2 and all(shape[1:]) and _is_dilated(given := pooling(node)):
            nodes += _make_convolution(model.graph, node, given, shape)
            changed = True
        elif node.op_type == "Softmax" and shape and all(shape) and shape[_axis(node)] == 1:
            _make_ones(model.graph, node, shape)
            changed = True
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return changed


def _axis(node: Any) -> int:
    return next((a.i for a in node.attribute if a.name == "axis"), -1)


def _is_dilated(given: dict[str, Any]) -> bool:
    return max(given.get("dilations", [1])) > 1 and "auto_pad" not in given


def _make_convolution(graph: Any, node: Any, given: dict[str, Any], shape: tuple[int, ...]) -> list[Any]:
    """The sum over each whole window, divided by all of its elements; what follows it where not all of them count."""
    from onnx import helper

    kernel = given["kernel_shape"]
    ends, factors = whole_windows(list(shape[2:]), given)
    starts = given.get("pads", [0] * len(kernel))[: len(kernel)]
    share = np.full((shape[1], 1, *kernel), 1 / math.prod(kernel), np.float32)
    node.op_type = "Conv"
    node.input.append(_constant(graph, node, share))
    kept: dict[str, Any] = {name: given[name] for name in ("kernel_shape", "strides", "dilations") if name in given}
    kept |= {"pads": [*starts, *ends], "group": shape[1]}
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(name, value) for name, value in kept.items())
    if factors is None:
        return []
    result, node.output[0] = node.output[0], f"{node.output[0]}@whole"
    counted = _constant(graph, node, factors[None, None])
    return [helper.make_node("Mul", [node.output[0], counted], [result], f"{node.name or result}@counted")]


def _make_ones(graph: Any, node: Any, shape: tuple[int, ...]) -> None:
    node.op_type = "Identity"
    del node.attribute[:]
    node.input[0] = _constant(graph, node, np.ones(shape, np.float32))


def _constant(graph: Any, node: Any, value: Any) -> str:
    from onnx import numpy_helper

    name = f"{node.output[0]}@constant"
    graph.initializer.append(numpy_helper.from_array(value, name))
    return name
