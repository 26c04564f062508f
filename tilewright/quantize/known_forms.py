"""Operators in forms that ONNX Runtime's quantised ones do not know, as others that compute the same.

It makes its quantised operator of whatever stands between quantised tensors, left out of quantisation or not: an
average over a dilated window is refused where it is loaded, and a softmax of a single element, which is 1, becomes 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def known_forms(model: Any) -> bool:
    """Rewrites them in a float model of opset 13 or later whose shapes are known; whether there were any."""
    from onnx import helper

    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    changed = False
    for node in model.graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        shape = shapes.get(node.input[0], ()) if node.input else ()
        if node.op_type == "AveragePool" and _is_convolution(given) and len(shape) > 2 and shape[1]:
            _make_convolution(model.graph, node, given, shape[1])
            changed = True
        elif node.op_type == "Softmax" and shape and all(shape) and shape[given.get("axis", -1)] == 1:
            _make_ones(model.graph, node, shape)
            changed = True
    return changed


def _is_convolution(given: dict[str, Any]) -> bool:
    """Whether an AveragePool has dilations, and divides all its sums by the same."""
    dilated = max(given.get("dilations", [1])) > 1
    padded = any(given.get("pads", [])) and not given.get("count_include_pad", 0)
    return dilated and not padded and not given.get("ceil_mode", 0) and given.get("auto_pad", b"NOTSET") == b"NOTSET"


def _make_convolution(graph: Any, node: Any, given: dict[str, Any], channels: int) -> None:
    from onnx import helper

    kernel = given["kernel_shape"]
    share = np.full((channels, 1, *kernel), 1 / math.prod(kernel), np.float32)
    node.op_type = "Conv"
    node.input.append(_constant(graph, node, share))
    for name in ("count_include_pad", "ceil_mode"):
        _drop(node, name)
    node.attribute.append(helper.make_attribute("group", channels))


def _make_ones(graph: Any, node: Any, shape: tuple[int, ...]) -> None:
    node.op_type = "Identity"
    _drop(node, "axis")
    node.input[0] = _constant(graph, node, np.ones(shape, np.float32))


def _drop(node: Any, name: str) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _constant(graph: Any, node: Any, value: Any) -> str:
    from onnx import numpy_helper

    name = f"{node.output[0]}@constant"
    graph.initializer.append(numpy_helper.from_array(value, name))
    return name
