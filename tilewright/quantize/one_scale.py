"""Constants of matrix products that ONNX Runtime multiplies with one scale only.

Its quantiser gives every constant operand of a product a scale for each index of the second axis. Its kernels know
these of a right matrix (K, N) alone, and refuse the model where a left operand, or a stack of right ones, has them.
"""

from __future__ import annotations

from typing import Any

_PRODUCTS = ("Gemm", "MatMul")


def one_scale(model: Any) -> dict[str, list[dict[str, Any]]]:
    """For the quantiser's ``TensorQuantOverrides``: such constants get one scale, those on the left uint8.

    int8 on the left has an integer kernel only if what is on the right is int8, as activations are not.
    """
    from onnxruntime.quantization import QuantType

    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type in _PRODUCTS]
    stacked = {node.input[1] for node in products if ranks.get(node.input[1], 2) != 2}
    left = {node.input[0] for node in products if node.input[0] in ranks}
    return {name: [{"quant_type": QuantType.QInt8}] for name in stacked} | {
        name: [{"quant_type": QuantType.QUInt8}] for name in left
    }
