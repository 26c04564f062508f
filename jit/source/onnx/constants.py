"""What a graph of the file stores, as numbers: initializers, and Constant nodes in each of their forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: attributes of a Constant that are numbers themselves, and the type of the tensor that it gives
_PLAIN = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


def stored(graph: Any) -> dict[str, NDArray[Any]]:
    """By name; sparse tensors and texts are left out."""
    from onnx import helper, numpy_helper

    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            value = helper.get_attribute_value(attribute)
            if attribute.name == "value":
                found[node.output[0]] = numpy_helper.to_array(value)
            elif attribute.name in _PLAIN:
                found[node.output[0]] = np.asarray(value, _PLAIN[attribute.name])
    return found
