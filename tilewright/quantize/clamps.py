"""Clips that do not let zero through, as two operators that ONNX Runtime's quantiser keeps.

It drops a Clip behind a layer whose result it quantises, as the type's ends clamp too. But the range of a quantised
tensor has zero in it: of a Clip to 0.5 .. 1.5 only the upper end is left, and of one between tensors nothing that is
theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.source.onnx.constants import stored

_LOW, _HIGH = 1, 2  #: inputs of a Clip


def own_clamps(model: Any) -> bool:
    """Every such Clip of a float model (opset 12 or later, shapes known) becomes Max and Min; whether any did."""
    from onnx import TensorProto, helper

    known = stored(model.graph)
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    real = {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    nodes: list[Any] = []
    changed = False
    for node in model.graph.node:
        nodes.append(node)
        bounds = [node.input[k] if len(node.input) > k else "" for k in (_LOW, _HIGH)]
        if node.op_type != "Clip" or node.input[0] not in real or not any(bounds):
            continue
        if all(name in known for name in bounds if name):
            low, high = (known.get(name, end) for name, end in zip(bounds, (-np.inf, np.inf), strict=True))
            if low <= 0 <= high:
                continue
        changed = True
        nodes.pop()
        steps = [(kind, name) for kind, name in zip(("Max", "Min"), bounds, strict=True) if name]
        read, result = node.input[0], node.output[0]
        for number, (kind, bound) in enumerate(steps, 1):
            made = result if number == len(steps) else f"{result}@above"
            nodes.append(helper.make_node(kind, [read, bound], [made], f"{node.name or result}@{kind.lower()}"))
            read = made
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return changed
