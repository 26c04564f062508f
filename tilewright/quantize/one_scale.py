"""Constants that ONNX Runtime takes with one scale only.

Its quantiser gives every constant operand of a product a scale for each index of the second axis. Its kernels know
these of a right matrix (K, N) alone, and refuse the model where a left operand, or a stack of right ones, has them.
Of a transposed convolution in groups the quantiser fails to state a bias in units of such scales: they are as many as
the channels of one group, the bias has those of all.
"""

from __future__ import annotations

from typing import Any

from tilewright.jit.source.operators import onnx_row


def one_scale(model: Any) -> dict[str, list[dict[str, Any]]]:
    """For the quantiser's ``TensorQuantOverrides``: such constants get one scale, those on the left uint8.

    int8 on the left has an integer kernel only if what is on the right is int8, as activations are not.
    """
    from onnxruntime.quantization import QuantType

    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if onnx_row(node.op_type).adds_rows]
    stacked = {node.input[1] for node in products if ranks.get(node.input[1], 2) != 2}
    grouped = {
        node.input[1]
        for node in model.graph.node
        if node.op_type == "ConvTranspose"
        and len(node.input) > 2
        and any(a.name == "group" and a.i > 1 for a in node.attribute)
    }
    left = {node.input[0] for node in products if node.input[0] in ranks}
    return {name: [{"quant_type": QuantType.QInt8}] for name in stacked | grouped} | {
        name: [{"quant_type": QuantType.QUInt8}] for name in left
    }
