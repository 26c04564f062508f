"""The operators of a float ONNX model, and its constants, as :func:`left_real` asks for them."""

from __future__ import annotations

from typing import Any

from tilewright.quantize.base import Array
from tilewright.quantize.operators import Operator


def operators_of(model: Any) -> list[Operator]:
    """Those of a model whose operators have names of their own."""
    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    return [
        Operator(node.name, node.op_type, tuple(node.input), tuple(node.output), _beyond(node, ranks))
        for node in model.graph.node
    ]


def constants_of(model: Any) -> dict[str, Array]:
    """Those of float32."""
    from onnx import TensorProto, numpy_helper

    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == TensorProto.FLOAT}


def _beyond(node: Any, ranks: dict[str, int]) -> str:
    if node.op_type == "LayerNormalization" and len(node.input) > 2 and ranks.get(node.input[2], 1) > 1:
        return "ONNX Runtime quantises LayerNormalization over one axis only"
    return ""
