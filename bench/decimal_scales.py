"""A QDQ ONNX file with scales of few decimals, as people write them by hand, of one with calibrated scales.

``python bench/decimal_scales.py MODEL.onnx --out FILE [--decimals 2]``: scales of activations are rounded to so many
decimals, those of weights to two more; biases keep their float values. ``tilewright run FILE --check`` compares the
result with ONNX Runtime. With such scales many float32 results are ties, or as near to one as float32 comes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def rounded(scale: NDArray[Any], decimals: int) -> NDArray[np.float32]:
    """To ``decimals`` decimals, at least one unit of the last."""
    return np.maximum(np.round(scale.astype(np.float64), decimals), 10.0**-decimals).astype(np.float32)


def with_decimal_scales(content: bytes, decimals: int) -> bytes:
    """The model with rounded scales."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(content)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    scales: dict[str, NDArray[np.float32]] = {}  #: by tensor, that of its quantised form
    layers = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    weights = {node.input[1] for node in layers}
    biases = {node.input[2]: node for node in layers if len(node.input) > 2}

    def replace(name: str, value: NDArray[Any]) -> None:
        stored[name].CopyFrom(numpy_helper.from_array(value, name))

    done: set[str] = set()
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.output[0] in biases:
            continue
        value = numpy_helper.to_array(stored[node.input[1]])
        if node.input[1] not in done:
            value = rounded(value, decimals + 2 * (node.output[0] in weights))
            replace(node.input[1], value)
            done.add(node.input[1])
        scales[node.output[0]] = value
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] in biases:
            layer = biases[node.output[0]]
            old = numpy_helper.to_array(stored[node.input[1]])
            new = (scales[layer.input[0]] * scales[layer.input[1]]).astype(np.float32).reshape(old.shape)
            real = numpy_helper.to_array(stored[node.input[0]]) * old.astype(np.float64)
            replace(node.input[1], new)
            replace(node.input[0], np.rint(real / new).clip(-(2**31), 2**31 - 1).astype(np.int32))
    return bytes(model.SerializeToString())


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--decimals", type=int, default=2)
    options = parser.parse_args()
    options.out.write_bytes(with_decimal_scales(options.model.read_bytes(), options.decimals))
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
