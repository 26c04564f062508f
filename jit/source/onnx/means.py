"""Means over an image, as exporters write them, in the form that ONNX Runtime computes in integers."""

from __future__ import annotations

from typing import Any

from tilewright.jit.source.onnx.constants import stored
from tilewright.jit.source.onnx.prepared import parse_node


def pool_means(model: Any) -> None:
    """Every ReduceMean over height and width of an NCHW tensor becomes the GlobalAveragePool that it equals.

    Between 8-bit tensors ONNX Runtime has an integer kernel of the latter, and adds in float32 for the former.
    """
    import onnx
    from onnx import helper

    ranks = {}
    inferred = onnx.shape_inference.infer_shapes(model).graph
    for value in (*inferred.input, *inferred.value_info):
        ranks[value.name] = len(value.type.tensor_type.shape.dim)
    constants = stored(model.graph)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "ReduceMean" or ranks.get(node.input[0]) != 4:
            nodes.append(node)
            continue
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        axes = given.get("axes")
        if axes is None and len(node.input) > 1 and node.input[1] in constants:
            axes = constants[node.input[1]].reshape(-1).tolist()
        if axes is None or sorted(axis % 4 for axis in axes) != [2, 3]:
            nodes.append(node)
            continue
        kept = given.get("keepdims", 1)
        pooled = node.output[0] if kept else f"{node.output[0]}@pooled"
        nodes.append(helper.make_node("GlobalAveragePool", [node.input[0]], [pooled], node.name))
        if not kept:
            nodes.append(helper.make_node("Flatten", [pooled], [node.output[0]], f"{node.name}@flat"))
    replaced = {name for node in model.graph.node if node.op_type == "ReduceMean" for name in node.input[1:]}
    unread = replaced - {name for index, node in enumerate(nodes) for name in parse_node(index, node).reads}
    unread -= {value.name for value in (*model.graph.input, *model.graph.output)}
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    kept_constants = [t for t in model.graph.initializer if t.name not in unread]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept_constants)
