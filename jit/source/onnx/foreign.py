"""Tensors of types that ONNX Runtime computes with and NumPy has not: int4, float8, bfloat16.

Inside a model they are as good as any. Python gets and gives them in no form, or (float8) as the bytes of another type,
so their shapes and values are asked for behind a Cast to float32, which holds each of them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: types of results that ONNX Runtime hands out all the same -> as what
GIVEN = {"float8_e4m3fn": "uint8"}
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


def as_float(model: Any, names: Mapping[str, object]) -> Any:
    """The model with float32 numbers in place of these outputs."""
    from onnx import ModelProto, TensorProto, helper

    made = ModelProto()
    made.CopyFrom(model)
    for value in made.graph.output:
        if value.name in names:
            cast = helper.make_node("Cast", [value.name], [f"{value.name}@float32"], to=TensorProto.FLOAT)
            made.graph.node.append(cast)
            value.CopyFrom(helper.make_tensor_value_info(f"{value.name}@float32", TensorProto.FLOAT, None))
    return made
