"""ONNX weights of 4 bits in the form for which ONNX Runtime has integer kernels.

Behind a DequantizeLinear alone it multiplies them in float32. Behind a Cast to int8, which it does when it loads the
file, and a DequantizeLinear of that, they are weights of 8 bits like any others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.source.operators import onnx_row


def other_constants(model: Any) -> set[str]:
    """Constants of a model that are operands of anything but layers of products."""
    read: dict[bool, set[str]] = {True: set(), False: set()}
    for node in model.graph.node:
        read[onnx_row(node.op_type).is_weighted].update(node.input)
    return (read[False] - read[True]) & {tensor.name for tensor in model.graph.initializer}


def widened(content: bytes) -> bytes:
    """The model with every INT4 constant behind a Cast to int8, and zero points of int8 for them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_from_string(content)
    packed = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.INT4}
    readers = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in packed]
    casts = {}
    for node in readers:
        name = node.input[0]
        casts[name] = helper.make_node("Cast", [name], [f"{name}_int8"], f"{name}_widened", to=TensorProto.INT8)
        node.input[0] = f"{name}_int8"
        if len(node.input) > 2 and node.input[2] in packed:
            zero_point = packed.pop(node.input[2])
            values = numpy_helper.to_array(zero_point).astype(np.int8)
            zero_point.CopyFrom(numpy_helper.from_array(values, zero_point.name))
    nodes = [*casts.values(), *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())
