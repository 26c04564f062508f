"""Multiply-accumulates of one inference by operator of a model file, wherever it runs: what shares are counted in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

Shape = tuple[int, ...]
Count = Callable[[Sequence[Shape], Shape], int]


def _per_output(weights: int, axes: slice) -> Count:
    """Each output element sums over these axes of the weights."""
    return lambda inputs, output: prod(output) * prod(inputs[weights][axes])


def _per_input(x: int, weights: int, axes: slice) -> Count:
    """Each input element is multiplied with these axes of the weights: transposed convolutions."""
    return lambda inputs, output: prod(inputs[x]) * prod(inputs[weights][axes])


def _matrices(left: int, right: int = 1) -> Count:
    """Products of matrices, either of which may be transposed, stand for a stack, or be a vector."""

    def count(inputs: Sequence[Shape], output: Shape) -> int:
        if len(inputs[left]) < 2:
            return prod(output) * prod(inputs[left])
        rows = output[-2] if len(inputs[right]) > 1 else output[-1]
        return prod(output) * prod(inputs[left][-2:]) // max(1, rows)

    return count


def _recurrent(weights: slice) -> Count:
    """Every step and batch element meets every weight of the matrices once."""
    return lambda inputs, output: prod(inputs[0][:-1]) * sum(prod(shape) for shape in inputs[weights] if len(shape) > 1)


#: weights [out][h][w][in], depthwise [1][h][w][out], fully connected [out][in]
TFLITE: dict[str, Count] = {
    "CONV_2D": _per_output(1, slice(1, None)),
    "CONV_3D": _per_output(1, slice(0, -1)),
    "DEPTHWISE_CONV_2D": _per_output(1, slice(1, 3)),
    "FULLY_CONNECTED": _per_output(1, slice(-1, None)),
    "TRANSPOSE_CONV": _per_input(2, 1, slice(0, -1)),
    "BATCH_MATMUL": _matrices(0),
    "SVDF": _recurrent(slice(1, 3)),
    "LSTM": _recurrent(slice(1, 17)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(slice(1, 17)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(slice(1, 35)),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent(slice(1, 3)),
}

#: weights [out][in][h][w], transposed [in][out][h][w]
ONNX: dict[str, Count] = {
    "Conv": _per_output(1, slice(1, None)),
    "ConvInteger": _per_output(1, slice(1, None)),
    "FusedConv": _per_output(1, slice(1, None)),
    "QLinearConv": _per_output(3, slice(1, None)),
    "ConvTranspose": _per_input(0, 1, slice(1, None)),
    "DynamicQuantizeMatMul": _matrices(0),
    "FusedGemm": _matrices(0),
    "FusedMatMul": _matrices(0),
    "Gemm": _matrices(0),
    "MatMul": _matrices(0),
    "MatMulInteger": _matrices(0),
    "MatMulIntegerToFloat": _matrices(0),
    "MatMulNBits": _matrices(0),
    "QGemm": _matrices(0, 3),
    "QLinearMatMul": _matrices(0, 3),
    "DynamicQuantizeLSTM": _recurrent(slice(1, 3)),
    "LSTM": _recurrent(slice(1, 3)),
    "GRU": _recurrent(slice(1, 3)),
    "RNN": _recurrent(slice(1, 3)),
}


def count_macs(counts: Mapping[str, Count], kind: str, inputs: Sequence[Shape | None], output: Shape | None) -> int:
    """Of an operator with these shapes; 0 for one that multiplies no weights, or one of whose shapes is None: unknown.

    ``counts``: those of the file's format. An input that is left out has the shape ().
    """
    count = counts.get(kind)
    known = [shape for shape in inputs if shape is not None]
    if count is None or output is None or len(known) < len(inputs):
        return 0
    try:
        return count(known, output)
    except (IndexError, ZeroDivisionError):
        return 0
