"""Tensors of types that ONNX Runtime computes with and NumPy has not: int4, float8, bfloat16.

Inside a model they are as good as any. Python gets and gives them in no form, or (float8) as the bytes of another type,
so their shapes and values are asked for as float32, which holds each of them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: types of results that ONNX Runtime hands out all the same -> as what
GIVEN = {"float8_e4m3fn": "uint8"}
_FOUR_BITS = 21  #: first opset whose Cast takes integers of 4 bits
_CONTRIBUTED = ("int4", "uint4")  #: types that ONNX Runtime's own QuantizeLinear gives in models of any opset
_NUMPYS_OWN = 1  #: value of ``numpy.dtype.isbuiltin``


def is_foreign(dtype: str) -> bool:
    """Whether NumPy has no type of this name of itself; ml_dtypes, which onnx brings, may have."""
    return np.dtype(dtype).isbuiltin != _NUMPYS_OWN


def results(session: Any) -> dict[str, np.dtype[Any]]:
    """The outputs of a session that are of such types, with ml_dtypes' types."""
    from onnx import TensorProto, helper

    found = {}
    for value in session.get_outputs():
        kind = getattr(TensorProto, value.type.removeprefix("tensor(").removesuffix(")").upper(), None)
        if kind is not None and is_foreign(dtype := np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name):
            found[value.name] = np.dtype(dtype)
    return found


def as_float(model: Any, names: Mapping[str, np.dtype[Any]]) -> Any:
    """The model with float32 numbers in place of these outputs, of these types."""
    from onnx import ModelProto, TensorProto, helper

    made = ModelProto()
    made.CopyFrom(model)
    opset = max((o.version for o in made.opset_import if o.domain in ("", "ai.onnx")), default=0)
    for value in made.graph.output:
        if value.name not in names:
            continue
        name, result = value.name, f"{value.name}@float32"
        if names[name].name in _CONTRIBUTED and opset < _FOUR_BITS:
            made.graph.initializer.append(helper.make_tensor(f"{name}@unit", TensorProto.FLOAT, [], [1.0]))
            node = helper.make_node("DequantizeLinear", [name, f"{name}@unit"], [result], domain="com.microsoft")
        else:
            node = helper.make_node("Cast", [name], [result], to=TensorProto.FLOAT)
        made.graph.node.append(node)
        value.CopyFrom(helper.make_tensor_value_info(result, TensorProto.FLOAT, None))
    return made
