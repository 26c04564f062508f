"""Products that add another tensor than a constant: a product and a sum, which have integer kernels.

ONNX Runtime's preparation makes one Gemm of ``x W + y``, as cells of recurrent layers have it, and its quantised Gemm
takes an int32 bias alone: where ``y`` is no constant the product stays in float32 between Q/DQ pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ADDEND = 2  #: which input of a Gemm it is


def separate_addends(model: Any) -> bool:
    """Every Gemm of a float model whose addend is no constant becomes one without and an Add; whether any did."""
    from onnx import helper, numpy_helper

    constants = {t.name for t in model.graph.initializer}
    constants |= {n.output[0] for n in model.graph.node if n.op_type == "Constant"}
    nodes: list[Any] = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type != "Gemm" or len(node.input) <= _ADDEND or not node.input[_ADDEND]:
            continue
        if (addend := node.input[_ADDEND]) in constants:
            continue
        result, product = node.output[0], f"{node.output[0]}@product"
        beta = next((a.f for a in node.attribute if a.name == "beta"), 1.0)
        if beta != 1.0:
            scaled, factor = f"{addend}@{result}", f"{result}@beta"
            model.graph.initializer.append(numpy_helper.from_array(np.array(beta, np.float32), factor))
            nodes.append(helper.make_node("Mul", [addend, factor], [scaled], f"{node.name}@beta"))
            addend = scaled
        nodes.append(helper.make_node("Add", [product, addend], [result], f"{node.name}@sum"))
        kept = [a for a in node.attribute if a.name != "beta"]
        del node.input[_ADDEND:], node.attribute[:]
        node.attribute.extend(kept)
        node.output[0] = product
    changed = len(nodes) > len(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return changed
