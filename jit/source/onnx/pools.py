"""Average pools in float models, in a form that ONNX Runtime's integer kernel computes as its float kernel."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray


def settle_pools(model: Any) -> None:
    """Every AveragePool that counts padding and rounds its size up becomes one that does not do both.

    ONNX Runtime's QLinearAveragePool divides a window that reaches beyond the padding by all of its elements, its float
    kernel (as ONNX and PyTorch) by those in the padded image. PyTorch counts padding unless told otherwise, so that
    most such pools have none, or round nothing. Else windows are whole, of as much more padding, and a product makes
    up for that: such a pool is computed in float32.
    """
    import onnx
    from onnx import helper, numpy_helper

    shapes = {}
    inferred = onnx.shape_inference.infer_shapes(model).graph
    for value in (*inferred.input, *inferred.value_info):
        shapes[value.name] = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type != "AveragePool":
            continue
        given = pooling(node)
        both = given.get("count_include_pad", 0) and given.get("ceil_mode", 0)
        image = shapes.get(node.input[0], [])[2:]
        dilated = max(given.get("dilations", [1])) > 1
        if not both or "auto_pad" in given or dilated or not image or not all(image):
            continue
        ends, factors = whole_windows(image, given)
        rank = len(ends)
        if factors is None:
            given["ceil_mode"] = 0
        elif not any(given.get("pads", ())):
            given["count_include_pad"] = 0
        else:
            given |= {"ceil_mode": 0, "pads": [*given["pads"][:rank], *ends]}
            pooled, factor = f"{node.output[0]}@whole", f"{node.output[0]}@factor"
            model.graph.initializer.append(numpy_helper.from_array(factors[None, None], factor))
            nodes.append(helper.make_node("Mul", [pooled, factor], [node.output[0]], f"{node.name}@counted"))
            node.output[0] = pooled
        del node.attribute[:]
        node.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def pooling(node: Any) -> dict[str, Any]:
    """The attributes of a pool; ``auto_pad`` is among them where padding depends on the image's size."""
    from onnx import helper

    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    auto = given.get("auto_pad", b"NOTSET")
    without = {b"NOTSET": ("auto_pad",), b"VALID": ("auto_pad", "pads")}.get(auto, ())
    return {name: value for name, value in given.items() if name not in without}


def whole_windows(image: list[int], given: dict[str, Any]) -> tuple[list[int], NDArray[np.float32] | None]:
    """What pads the end of each axis so that all windows are whole, and elements of a window by those that count.

    ``given``: of an AveragePool, without ``auto_pad``. The factors are of the shape of a result's image; None where all
    elements count (a window that would begin behind the image is none).
    """
    kernel = given["kernel_shape"]
    ones, rank = [1] * len(kernel), len(kernel)
    pads, counted = given.get("pads", [0] * 2 * rank), given.get("count_include_pad", 0)
    ends, ratios = [], []
    for size, k, s, d, before, after in zip(
        image, kernel, given.get("strides", ones), given.get("dilations", ones), pads[:rank], pads[rank:], strict=True
    ):
        whole, rest = divmod(size + before + after - (k - 1) * d - 1, s)
        rounded = bool(given.get("ceil_mode", 0)) and rest > 0 and (whole + 1) * s < size + before
        taps = np.arange(whole + 1 + rounded)[:, None] * s + np.arange(k) * d
        counts = taps < size + before + after if counted else (taps >= before) & (taps < before + size)
        ratios.append(k / np.maximum(counts.sum(1), 1))
        ends.append(after + s - rest if rounded else after)
    factors = np.asarray(reduce(np.multiply.outer, ratios), np.float32)
    return ends, None if (factors == 1).all() else factors
